#!/usr/bin/env bash
# Runs the CUDA tests on the emulated GPU under the race checker, which sees every memory access. It finds races within
# and between blocks in any order of threads, reads of uninitialized memory, and host pointers in kernels. A second
# pass runs the tests without the checker in other thread orders, a third under the address and undefined-behavior
# sanitizers, which see host code too. Takes long. FILTER is a GoogleTest filter such as '*Chunk*'. The checker runs
# every third case of a test; LINEA_TEST_SHARE=1 runs all.
#
#   tools/check-races.sh [FILTER]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
filter=${1:-*}
EXTRA=(-DLINEA_WERROR=ON -DLINEA_EMULATED_TESTS=ON -DLINEA_RACE_CHECK=ON)
export GOMP_SPINCOUNT=1000

build release test_cuda test_cuda_checked
say "Race checker on"
LINEA_TEST_SHARE=${LINEA_TEST_SHARE:-3} build/release/tests/cuda/test_cuda_checked --gtest_brief=1 --gtest_filter="$filter"
for order in reverse priority; do
  for seed in 1 2 3; do
    [ "$order" = reverse ] && [ "$seed" != 1 ] && continue
    say "Thread order $order, seed $seed; random stream order; device memory protected from the host"
    LINEA_TEST_SHARE=1 LINEA_EMULATOR_ORDER=$order LINEA_EMULATOR_SEED=$seed LINEA_EMULATOR_STREAMS=random LINEA_EMULATOR_GUARD=1 \
      build/release/tests/cuda/test_cuda --gtest_brief=1 --gtest_filter="$filter"
  done
done
say "Under the sanitizers"
EXTRA=(-DLINEA_WERROR=ON -DLINEA_CUDA=emulated -DLINEA_RACE_CHECK=OFF)
build asan test_emulator test_cuda
export ASAN_OPTIONS=quarantine_size_mb=16:handle_sigill=1 UBSAN_OPTIONS=print_stacktrace=1
for program in test_emulator test_cuda; do
  "build/asan/tests/cuda/$program" --gtest_brief=1 --gtest_filter="$filter"
done
