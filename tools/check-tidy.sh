#!/usr/bin/env bash
# clang-tidy on the sources of the program, kernels excepted, with the checks of .clang-tidy. Needs no build.
#
#   tools/check-tidy.sh [FILE...]      all files unless some are named
#
# All files are read some at a time (tools/tidy_groups.py), which takes half the time. The files of a group with findings
# are read once more, one by one, for messages that name them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || { echo "clang-tidy is not here: it is NOT run"; exit 0; }
mkdir -p build
# Compile commands of single files, without precompiled headers: clang cannot read those of g++.
cmake -S . -B build/tidy -G Ninja -DLINEA_PCH=OFF -DLINEA_UNITY=OFF -DLINEA_TESTS=OFF -DLINEA_WERROR=ON >build/tidy.log 2>&1 || {
  cat build/tidy.log
  exit 1
}
# clang does not know all of the warnings that are named to g++.
export flags=--extra-arg=-Wno-unknown-warning-option tidy
groups=build/tidy/groups
if [ $# = 0 ]; then
  find base tensor autograd nn data train bench judge lab cli -name '*.cpp' -not -path 'tensor/cpu/*' -not -name system_macos.cpp | sort |
    python3 tools/tidy_groups.py build/tidy
  mapfile -t files < <(printf '%s\n' $groups/*.cpp | xargs -P "$(nproc)" -n 1 sh -c \
    '"$tidy" --quiet -p '$groups' "$flags" "$0" >/dev/null 2>&1 || cat "${0%.cpp}.txt"')
  set -- "${files[@]}"
fi
printf '%s\n' "$@" | xargs -r -P "$(nproc)" -n 4 "$tidy" --quiet -p build/tidy "$flags" \
  2> >(grep -vE '^[0-9]+ warnings? generated' >&2)
