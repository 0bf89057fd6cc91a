#!/usr/bin/env bash
# For a machine with an NVIDIA GPU: runs the backend's tests on the device (small ones under compute-sanitizer too)
# and the benchmarks, and writes a Markdown report to OUT as it goes. Without --pack it installs missing packages
# and builds first; with it, it runs what tools/gpu-pack.sh packed and installs nothing.
#
#   tools/gpu-check.sh [--pack DIR] [--part NAME]... [OUT]      default gpu-check.md
#
# Parts, in this order: start tests attention train sample. Each has a time limit, and one that fails does not stop
# the others. Exit status: 0, 1 if a part failed, 77 without a GPU.
set -uo pipefail
all=(start tests attention train sample) pack= parts=() out=gpu-check.md
refuse() { echo "$*"; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --pack) pack=$(realpath -e "${2:-}") || refuse "--pack needs the folder of an unpacked gpu-pack.tar.xz"; shift ;;
    --part)
      [[ " ${all[*]} " == *" ${2:-} "* ]] || refuse "--part is '${2:-}'; choose of ${all[*]}"
      parts+=("$2"); shift ;;
    -*) refuse "$1 is no option; see the top of $0" ;;
    *) out=$1 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
out=$(realpath -m "$out")
logs=$(dirname "$out")/gpu-check.logs
mkdir -p "$logs"
PATH=$PATH:/usr/local/cuda/bin

nvidia-smi >/dev/null 2>&1 || { echo "no NVIDIA GPU found, or its driver does not respond"; exit 77; }
if [ -n "$pack" ]; then
  cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
  linea=$pack/bin/linea tests=$pack/bin/test_gpu commit=$(cat "$pack/commit")
  cuda=/usr/local/cuda/lib64
  [ -e "$cuda/libcublasLt.so.13" ] ||
    cuda=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))') ||
    refuse "cuBLAS 13 is neither in $cuda nor in PyTorch's packages: install the CUDA toolkit"
  export LD_LIBRARY_PATH=$pack/lib:$cuda
else
  set -e
  source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
  command -v nvcc >/dev/null || { echo "nvcc is not in PATH or /usr/local/cuda/bin: install the CUDA toolkit"; exit 1; }
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
  EXTRA=(-DLINEA_CUDA=ON "-DLINEA_CUDA_ARCHITECTURES=$capability-real")
  install_missing "${linea_packages[@]}" "${linea_test_packages[@]}" || echo "Continuing with the installed packages."
  build cuda linea test_gpu
  linea=build/cuda/linea tests=build/cuda/tests/cuda/test_gpu commit=$(git describe --always --dirty)
  set +e
fi

status=0
report() { tee -a "$out"; }
# seconds, command...: its lines, indented as Markdown code
measure() {
  local limit=$1
  shift
  printf '\n`%s`\n\n' "$(printf '%s ' "$@" | sed "s#$linea#linea#; s/ \$//")" | report
  timeout "$limit" "$@" 2>&1 | sed 's/^/    /' | report
  local failed=${PIPESTATUS[0]}
  [ "$failed" -eq 0 ] || { echo "    exit status $failed (124: over $limit s)" | report; status=1; }
}

# One process a suite, because every CUDA call after an illegal access fails; several at a time.
suite() {
  local log=$logs/test.${1//\//-}.log
  timeout 100 "$tests" --gtest_filter="$1.*" >"$log" 2>&1 || echo "exit status $?" >>"$log"
}
run_suites() { # names...
  local suite failed=0 passed
  rm -f "$logs"/test.*.log
  export -f suite
  export tests logs
  printf '%s\n' "$@" | OMP_NUM_THREADS=2 xargs -P 8 -I{} bash -c 'suite {}'
  passed=$(cat "$logs"/test.*.log | grep -c '^\[       OK \]')
  [ "$(ls "$logs"/test.*.log | wc -l)" -eq $# ] || { echo "a suite wrote no log" | report; status=1; }
  for suite in "$logs"/test.*.log; do
    ! grep -q '^exit status' "$suite" || { failed=$((failed + 1)); status=1; }
  done
  printf '\n%s tests passed, %s of %s suites failed\n' "$passed" "$failed" "$#" | report
  [ "$passed" -gt 0 ] || status=1
  grep -H '^exit status' "$logs"/test.*.log | sed "s#$logs/test.#* #; s/.log:/: /" | report
  grep -h '^\[  FAILED  \].*ms)' "$logs"/test.*.log | sed 's/^/    /' | head -60 | report
}

sanitize() { # tool
  local log=$logs/sanitizer.$1.log result=passed code=0
  timeout 100 compute-sanitizer --tool "$1" --error-exitcode 1 "$tests" --gtest_brief=1 \
    --gtest_filter='CudaRows*:CudaNormalization*:CudaTokens*:CudaRecurrent*:CudaChunkForward.EverySize:CudaSoftmaxAttention.*:CudaWalks.TheSameBits*:CudaAttendPanels.TheSameBits*:CudaDelta.*' \
    >"$log" 2>&1 || code=$?
  [ $code -eq 0 ] || result=failed
  [ $code -ne 124 ] || grep -qE '^=+ (Invalid|Error|Program hit|Race|Uninit|Misaligned)' "$log" ||
    result="no error before the time limit"
  echo "compute-sanitizer $1: $result $(grep -h 'SUMMARY' "$log" | tail -1)"
}

part_start() {
  measure 60 "$linea" info
}
part_tests() {
  run_suites $("$tests" --gtest_list_tests | grep '^[^ ].*\.' | cut -d. -f1 | sort -u)
  command -v compute-sanitizer >/dev/null || return 0
  echo | report
  { sanitize memcheck & sanitize racecheck & wait; } | report
  ! grep -q 'compute-sanitizer.*: failed' "$out" || status=1
}
part_attention() {
  local sizes="--device cuda --dtype bf16 --batch 8 --heads 32 --key-size 128" filter
  measure 120 "$linea" bench attention $sizes --lengths 2048,4096,16384 --attention linear
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    measure 60 python3 bench/peers/attention_cuda.py
  fi
  measure 60 "$linea" bench attention $sizes --lengths 2048 --attention softmax,performer,linear:rule=gated,linear:rule=delta
  if command -v ncu >/dev/null; then
    filter='regex:_walk'
    timeout 90 ncu --clock-control none --set basic --section SchedulerStats --section WarpStateStats \
      --section ComputeWorkloadAnalysis --section MemoryWorkloadAnalysis --csv --page raw \
      --kernel-name "$filter" --launch-count 12 \
      "$linea" bench attention $sizes --lengths 2048 --attention linear --seconds 0.001 >"$logs/ncu.attention.csv" 2>&1
    measure 20 python3 tools/read_ncu.py "$logs/ncu.attention.csv"
  fi
}
part_train() {
  measure 90 "$linea" bench train --preset mnist-paper --device cuda --dtype bf16 --batch 256
  measure 60 "$linea" bench train --preset mnist-paper --device cuda --dtype bf16 --batch 10
  measure 60 "$linea" bench train --preset mnist-paper --device cuda --dtype tf32 --batch 256
  measure 60 "$linea" bench train --preset mnist-paper --device cuda --dtype fp32 --batch 256
}
part_sample() {
  measure 60 "$linea" bench sample --preset mnist-paper --device cuda --dtype bf16 --batches 1,64,1024,8192
}

printf '| date | device | driver | build |\n|---|---|---|---|\n| %s | %s | %s | %s |\n' "$(date -u +%F)" \
  "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)" \
  "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)" "$commit" >"$out"
for part in "${parts[@]}"; do
  started=$SECONDS
  printf '\n## %s\n' "$part" | report
  "part_$part"
  printf '\n%s: %s s\n' "$part" "$((SECONDS - started))" | report
done
echo "Written to $out, logs to $logs"
exit $status
