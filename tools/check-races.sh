#!/usr/bin/env bash
# The backend's tests on the emulated GPU with every access to memory told to the checker: races within and between
# blocks whatever the order of threads, reads of what no one wrote, host pointers in kernels. Then, without the checker,
# in other orders of threads. Takes long; FILTER is GoogleTest's, e.g. '*Chunk*'. Of what a test goes through the
# checker sees each third; with LINEA_TEST_SHARE=1 all.
#
#   tools/check-races.sh [FILTER]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
filter=${1:-*}
EXTRA=(-DLINEA_WERROR=ON)
export GOMP_SPINCOUNT=1000

build release test_cuda test_cuda_checked
say "Every access checked"
LINEA_TEST_SHARE=${LINEA_TEST_SHARE:-3} build/release/tests/cuda/test_cuda_checked --gtest_brief=1 --gtest_filter="$filter"
for order in reverse priority; do
  for seed in 1 2 3; do
    [ "$order" = reverse ] && [ "$seed" != 1 ] && continue
    say "Threads in the order $order, seed $seed; streams in random order; device memory guarded from the host"
    LINEA_EMULATOR_ORDER=$order LINEA_EMULATOR_SEED=$seed LINEA_EMULATOR_STREAMS=random LINEA_EMULATOR_GUARD=1 \
      build/release/tests/cuda/test_cuda --gtest_brief=1 --gtest_filter="$filter"
  done
done
