#!/usr/bin/env bash
# Checks the sources without compiling them, in seconds: the format (clang-format 14), which folder includes which,
# words (tools/words.txt), sizes (tools/size.py), exact numbers of lessons (tools/check_lessons.py), and what is not to be
# left behind. Part of ./test.sh.
#
#   tools/check.sh [--print]      --print: also the lines of code a folder
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=0

files=$(git ls-files -co --exclude-standard 2>/dev/null ||
  find . \( -name .git -o -name build \) -prune -o -type f -printf '%P\n')  # without git, e.g. in an unpacked archive
files=$(while read -r file; do [ ! -f "$file" ] || echo "$file"; done <<<"$files" | sort)

formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$formatter" ] || ! "$formatter" --version | grep -q 'version 14\.'; then
  echo "clang-format 14 is not here: the format is NOT checked"
elif ! grep -E '\.(h|cpp|cu)$' <<<"$files" | xargs "$formatter" --dry-run -Werror --ferror-limit=1; then
  echo "clang-format -i FILE formats a file"
  failed=1
fi
if ! command -v python3 >/dev/null; then
  echo "python3 is not here: includes, words, sizes and lessons are NOT checked"
else
  python3 tools/check.py <<<"$files" || failed=1
  python3 tools/size.py "$@" <<<"$files" || failed=1
  python3 tools/check_lessons.py || failed=1
fi
exit $failed
