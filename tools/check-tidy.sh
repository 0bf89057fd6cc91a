#!/usr/bin/env bash
# clang-tidy on the sources of the program, kernels excepted, with the checks of .clang-tidy. Needs no build.
#
#   tools/check-tidy.sh [FILE...]      all files unless some are named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || { echo "clang-tidy is not here: it is NOT run"; exit 0; }
mkdir -p build
# Compile commands without precompiled headers: clang cannot read those of g++.
cmake -S . -B build/tidy -G Ninja -DLINEA_PCH=OFF -DLINEA_TESTS=OFF -DLINEA_WERROR=ON >build/tidy.log 2>&1 || {
  cat build/tidy.log
  exit 1
}
files=("$@")
if [ ${#files[@]} = 0 ]; then
  mapfile -t files < <(find base tensor autograd nn data train bench judge cli -name '*.cpp' -not -path 'tensor/cpu/*' | sort)
fi
# clang does not know all of the warnings that are named to g++.
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 "$tidy" --quiet -p build/tidy \
  --extra-arg=-Wno-unknown-warning-option 2> >(grep -vE '^[0-9]+ warnings? generated' >&2)
