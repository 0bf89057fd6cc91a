#!/usr/bin/env bash
# Compiles the sources as far as Linux can for macOS: by clang with LLVM's standard library, int64_t as long long, and
# declarations instead of Apple's headers for base/system_macos.cpp (tests/macos/). Takes minutes, links nothing, and is no
# part of ./test.sh.
#
#   tools/check-macos.sh [FILE...]      all files of the library and the program unless some are named
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_missing "clang: the compiler" "libc++-14-dev: its standard library" "libomp-dev: its OpenMP"
folder=build/macos
mkdir -p $folder/include/mach{,-o} $folder/include/sys
for header in mach/mach.h mach-o/dyld.h sys/sysctl.h crt_externs.h xlocale.h; do : >$folder/include/$header; done
export flags="-std=c++20 -stdlib=libc++ -fsyntax-only -fopenmp -Wall -Wextra -Wpedantic -Wno-pass-failed -Werror \
-isystem tests/macos -isystem $folder/include -I. -isystem /usr/include/x86_64-linux-gnu/openblas-openmp -DFMT_HEADER_ONLY"
if [ $# = 0 ]; then
  # Some at a time, as for clang-tidy, which takes half the time.
  cmake -S . -B $folder -G Ninja -DLINEA_PCH=OFF -DLINEA_UNITY=OFF -DLINEA_TESTS=OFF >$folder.log 2>&1 || {
    cat $folder.log
    exit 1
  }
  find base parallel tensor autograd nn data train bench judge lab cli -name '*.cpp' -not -path 'bench/peers/*' \
    -not -path 'tensor/cpu/*' -not -name mpi.cpp -not -name 'system_*.cpp' -not -name before_main.cpp | sort |
    python3 tools/tidy_groups.py $folder
  mapfile -t kernels < <(find tensor/cpu -name '*.cpp')
  set -- base/system_macos.cpp $folder/groups/*.cpp "${kernels[@]}"
fi
compile() { # source
  local own=()
  [ "$1" != base/system_macos.cpp ] || own=(-include tests/macos/apple.h)
  clang++ $flags "${own[@]}" "$1" || { echo "$1 does not compile for macOS"; return 1; }
}
export -f compile
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 bash -c 'compile "$0"'
