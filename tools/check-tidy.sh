#!/usr/bin/env bash
# clang-tidy on the sources of the program, kernels excepted, with the checks of .clang-tidy. Needs a configured build.
#
#   tools/check-tidy.sh [FILE...]      FILEs, or all; BUILD=folder, build/release unless set
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || { echo "clang-tidy is not here: it is NOT run"; exit 0; }
files=("$@")
if [ ${#files[@]} = 0 ]; then
  mapfile -t files < <(find tensor autograd nn data train bench cli -name '*.cpp' -not -path 'tensor/cpu/*' | sort)
fi
# The flags are g++'s: clang does not know all of its warnings. It says how many others' warnings it hides.
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 "$tidy" --quiet -p "${BUILD:-build/release}" \
  --extra-arg=-Wno-unknown-warning-option 2> >(grep -v ' warnings generated' >&2)
