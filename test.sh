#!/usr/bin/env bash
# Builds the release version and runs its tests. --all also runs those of the installed package, of several processes
# and of the emulated GPU (with every memory access checked: tools/check-races.sh); damaged files, breaks of the checks and
# the forms in bf16; every second numeric test with the kernels of an older processor, and those of the libraries under
# the address and undefined-behavior sanitizers (all of them: tools/check-sanitized.sh); it compiles the CUDA backend by
# nvcc, runs clang-tidy, compares models with their definition in NumPy where that is installed, and looks at the lessons'
# pages in a browser.
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
if [ "$all" = yes ]; then  # while the build runs: it waits for the network more than for a core
  { install_missing "${linea_page_packages[@]}" || echo "Without these the pages are not checked in a browser."; } &
  page_packages=$!
fi
say "Checks of the sources"
tools/check.sh
EXTRA=(-DLINEA_WERROR=ON -DLINEA_NATIVE=OFF)

say "Release build"
emulated=$([ "$all" = yes ] && echo ON || echo OFF)
EXTRA+=(-DLINEA_EMULATED_TESTS=$emulated -DLINEA_RACE_CHECK=OFF)
build release all
if [ "$all" = yes ]; then
  say "The CUDA backend by nvcc"
  tools/check-nvcc.sh
  say "clang-tidy"
  tools/check-tidy.sh
fi
say "Release tests"
some=()
[ "$all" = yes ] || some=(-LE 'package|ranks|fuzz' -E '^(Sabotage|Products/ThreadCounts|Attentions/Bf16Conformance)')
(unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE; run_tests release "${some[@]}")

if [ "$all" = yes ]; then
  say "Models read by tools/linea_model.py"
  python3 tools/check_linea_model.py build/release
  if grep -q avx2 /proc/cpuinfo; then
    say "Every second numeric test with the kernels of a Haswell processor, OpenBLAS's and ours"
    OPENBLAS_CORETYPE=Haswell LINEA_ISA=AVX2 run_tests release -I 1,,2 -L 'tensor|autograd|nn' -E '^Sabotage|^Products/ThreadCounts|^SequenceParts|^DeepChain'
  fi
  tools/check-sanitized.sh --libraries
  say "Pages of the lessons"
  wait "$page_packages"
  lab=$(mktemp -d)
  (cd "$lab" && "$OLDPWD/build/release/linea" lab run all --quick --out lab >/dev/null)
  tools/check-pages.sh "$lab/lab"
  rm -rf "$lab"
fi
say "All tests passed"
