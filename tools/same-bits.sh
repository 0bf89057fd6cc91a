#!/usr/bin/env bash
# Compares this tree with an older commit on this machine: the same bits, the same speed.
# See tools/same_bits.py; this script builds both, Release, and passes its arguments on.
#
#     tools/same-bits.sh [--commit ae5b20c] [--text FOLDER_OR_FILE] [--bits-only|--speed-only] [--pairs 5] [--quick]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

commit=ae5b20c
options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --commit) commit=$2; shift 2 ;;
    --help) sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exec python3 tools/same_bits.py --help ;;
    *) options+=("$1"); shift ;;
  esac
done

old=build/same-bits/$commit
say "Building commit $commit in $old"
git worktree prune
[ -d "$old" ] || git worktree add --detach "$old" "$commit"
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
build_release() { # source, build folder
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLINEA_TESTS=OFF "${launcher[@]}" >"build/same-bits/cmake.log" ||
    { cat build/same-bits/cmake.log; return 1; }
  cmake --build "$2" --target linea
}
build_release "$old" "$old/build/release"
say "Building this tree"
build_release . build/same-bits/present
exec python3 tools/same_bits.py "$old/build/release/linea" build/same-bits/present/linea "${options[@]}"
