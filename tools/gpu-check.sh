#!/usr/bin/env bash
# For a machine with an NVIDIA GPU: installs missing packages, builds the CUDA backend, runs its
# tests on the device (small ones also under compute-sanitizer) and the benchmarks, and writes a Markdown report to OUT.
#
#   tools/gpu-check.sh [OUT]      default gpu-check.md
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
out=$(realpath -m "${1:-gpu-check.md}")
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "nvcc is not in PATH or /usr/local/cuda/bin: install the CUDA toolkit"; exit 1; }
nvidia-smi >/dev/null || { echo "no NVIDIA GPU found, or its driver does not respond"; exit 1; }
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
EXTRA=(-DLINEA_CUDA=ON "-DLINEA_CUDA_ARCHITECTURES=$capability-real")
install_missing "${linea_packages[@]}" "${linea_test_packages[@]}" || echo "Continuing with the installed packages."

say "Building for compute capability $capability"
build cuda linea test_gpu
linea=build/cuda/linea tests=build/cuda/tests/cuda/test_gpu
{
  echo "| date | device | driver | build |"
  echo "|---|---|---|---|"
  echo "| $(date -u +%F) | $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1) |" \
    "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1) | $(git rev-parse --short HEAD) |"
  echo
} >"$out"
status=0

# One process per suite: after an illegal access, every later CUDA call of the process fails.
say "Tests on the device"
passed=0 failed=()
suites=$("$tests" --gtest_list_tests | grep '^[^ ].*\.' | cut -d. -f1 | sort -u)
for suite in $suites; do
  log=build/cuda/test_gpu.${suite//\//-}.log
  timeout 120 "$tests" --gtest_filter="$suite.*" >"$log" 2>&1 || {
    failed+=("$suite ($(if [ $? -eq 124 ]; then echo 'timed out'; else echo 'failed'; fi))")
    grep -h -B6 '^\[  FAILED  \]\|error' "$log" | tail -20 || true
  }
  passed=$((passed + $(grep -c '^\[       OK \]' "$log" || true)))
done
{
  echo "Tests: $passed passed; suites with a failure: ${#failed[@]}"
  [ ${#failed[@]} -eq 0 ] || printf '* %s\n' "${failed[@]}"
  echo
} | tee -a "$out"
[ ${#failed[@]} -eq 0 ] && [ "$passed" -gt 0 ] || status=1

# Row kernels, state kernels and tensor-core kernels at small sizes.
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    say "compute-sanitizer, $tool"
    log=build/cuda/sanitizer.$tool.log result=passed
    timeout 80 compute-sanitizer --tool "$tool" --error-exitcode 1 "$tests" --gtest_brief=1 \
      --gtest_filter='CudaRows*:CudaNormalization*:CudaTokens*:CudaRecurrent*:CudaChunkForward.EverySize:CudaSoftmaxAttention.*:CudaDelta.*' \
      >"$log" 2>&1 || {
      if [ $? -eq 124 ] && ! grep -qE '^=+ (Invalid|Error|Program hit|Race|Uninit|Misaligned)' "$log"; then
        result="no error before the timeout"
      else
        result=failed status=1
      fi
    }
    printf 'compute-sanitizer %s: %s `%s`\n\n' "$tool" "$result" "$(grep -h 'SUMMARY' "$log" | tail -1 || true)" | tee -a "$out"
  done
fi

say "Benchmarks"
"$linea" info | grep -o 'cuda:.*' | sed 's/^/    /' | tee -a "$out" || status=1
echo >>"$out"
for dtype in fp32 tf32 bf16; do
  "$linea" bench train --preset mnist-paper --device cuda --dtype "$dtype" --batch 256 2>&1 |
    sed "s/^/    /" | tee -a "$out" || status=1
  echo >>"$out"
done
"$linea" bench sample --preset mnist-paper --device cuda --dtype bf16 --batches 1,256,1024,2048,4096,8192 2>&1 |
  sed "s/^/    /" | tee -a "$out" || status=1
echo >>"$out"
for streams in 1 2; do  # above: four
  printf 'In %s streams at most:\n\n' "$streams" | tee -a "$out"
  "$linea" bench sample --preset mnist-paper --device cuda --dtype bf16 --streams "$streams" --batches 1024,4096 2>&1 |
    sed "s/^/    /" | tee -a "$out" || status=1
  echo >>"$out"
done
"$linea" bench attention --device cuda --dtype bf16 --batch 8 --heads 32 --key-size 128 --lengths 2048,4096,8192,16384 \
  --attention linear,performer,softmax 2>&1 | sed "s/^/    /" | tee -a "$out" || status=1
echo "Written to $out"
exit $status
