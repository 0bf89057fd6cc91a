#!/usr/bin/env bash
# Builds the release version and runs its tests. --all also runs the tests under the address and
# undefined-behavior sanitizers, a share of those on the emulated GPU with every memory access checked, and the
# numeric tests with the kernels of an older processor, compiles the CUDA backend by nvcc, runs clang-tidy, and
# compares models with their definition in NumPy where that is installed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools/setup.sh"

all=no
case "${1:-}" in
  "") ;;
  --all) all=yes ;;
  *) echo "usage: ./test.sh [--all]" >&2; exit 2 ;;
esac

[ "$all" = no ] || linea_test_packages+=("${linea_check_packages[@]}")
install_missing "${linea_packages[@]}" "${linea_test_packages[@]}"
say "Checks of the sources"
tools/check.sh
EXTRA=(-DLINEA_WERROR=ON -DLINEA_NATIVE=OFF)

run_tests() { # build folder, ctest options...
  local folder=$1
  shift
  # One more than there are cores: some wait for the disk.
  ctest --test-dir "build/$folder" --output-on-failure --no-tests=error -j "$(($(nproc) + 1))" "$@" |
    grep -vE '^ *(Start|[0-9]+/[0-9]+ Test .* Passed)'
  local log=build/$folder/Testing/Temporary/LastTest.log
  echo "$(grep -acE '^\[  SKIPPED \] .* \([0-9]* ms\)|^Skipped: ' "$log" || true) tests were skipped in this build, and why:"
  { grep -aE -A1 ': Skipped$' "$log" | grep -avE '^--|: Skipped$'; sed -n 's/^Skipped: //p' "$log"; } | sort | uniq -c || true
}

say "Release build"
EXTRA+=(-DLINEA_RACE_CHECK=$([ "$all" = yes ] && echo ON || echo OFF))
build release all
if [ "$all" = yes ]; then
  say "The CUDA backend by nvcc"
  tools/check-nvcc.sh
  say "clang-tidy"
  tools/check-tidy.sh
fi
say "Release tests"
(unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE; run_tests release)

if [ "$all" = yes ]; then
  say "Models read by tools/linea_model.py"
  python3 tools/check_linea_model.py build/release
fi

if [ "$all" = yes ] && grep -q avx2 /proc/cpuinfo; then
  say "Numeric tests with the kernels of a Haswell processor, OpenBLAS's and ours"
  OPENBLAS_CORETYPE=Haswell LINEA_ISA=AVX2 run_tests release -L 'tensor|autograd|nn'
fi

if [ "$all" = yes ]; then
  say "Sanitizer build"
  EXTRA+=(-DLINEA_RACE_CHECK=OFF)
  build asan all
  # A quarantine of 16 MB instead of 256, whose pages are reused sooner, and 3 frames of who allocated instead of 30
  # save a tenth of the time each.
  export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:quarantine_size_mb=16:malloc_context_size=3
  export UBSAN_OPTIONS=print_stacktrace=1
  say "All tests under the sanitizers"
  run_tests asan
fi
say "All tests passed"
