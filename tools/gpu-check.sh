#!/usr/bin/env bash
# On a machine with an NVIDIA GPU, in under ten minutes: builds the CUDA backend, runs its tests on the device
# (and the small ones under compute-sanitizer), measures, and writes a table in Markdown to OUT.
#
#   tools/gpu-check.sh [OUT]      gpu-check.md unless told
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
out=$(realpath -m "${1:-gpu-check.md}")
command -v nvcc >/dev/null || { echo "nvcc is not here: install the CUDA toolkit"; exit 1; }
nvidia-smi >/dev/null || { echo "this machine has no NVIDIA GPU, or its driver does not answer"; exit 1; }
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
EXTRA=(-DLINEA_CUDA=ON "-DLINEA_CUDA_ARCHITECTURES=$capability-real")

say "Building for compute capability $capability"
build cuda linea test_gpu
linea=build/cuda/linea
{
  echo "| date | device | driver | build |"
  echo "|---|---|---|---|"
  echo "| $(date -u +%F) | $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1) |" \
    "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1) | $(git rev-parse --short HEAD) |"
  echo
} >"$out"

say "Tests on the device"
status=0
build/cuda/tests/cuda/test_gpu --gtest_brief=1 2>&1 | tee build/cuda/test_gpu.log | tail -3 || status=1
printf 'Tests: `%s`\n\n' "$(tail -1 build/cuda/test_gpu.log)" >>"$out"
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    say "compute-sanitizer, $tool"
    timeout 100 compute-sanitizer --tool "$tool" --error-exitcode 1 build/cuda/tests/cuda/test_gpu --gtest_brief=1 \
      --gtest_filter='CudaRows*:CudaNormalization*:CudaSymbols*:CudaRecurrent*' 2>&1 | tail -2 |
      tee -a build/cuda/sanitizer.log || status=1
  done
  printf 'compute-sanitizer: `%s`\n\n' "$(grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' build/cuda/sanitizer.log | tr '\n' ' ')" >>"$out"
fi

say "Measuring"
for dtype in fp32 tf32 bf16; do
  "$linea" bench train --preset mnist-paper --device cuda --dtype "$dtype" --batch 256 2>&1 |
    sed "s/^/    /" | tee -a "$out" || status=1
  echo >>"$out"
done
"$linea" bench sample --preset mnist-paper --device cuda 2>&1 | sed "s/^/    /" | tee -a "$out" || status=1
echo "Written to $out"
exit $status
