#!/usr/bin/env bash
# nvcc compiles and links the whole CUDA backend, warnings being errors; then what ptxas says of each kernel is read: a
# hot kernel of float or bf16 that spills registers beyond the few bytes listed here fails. No GPU is needed.
#
#   tools/check-nvcc.sh [ARCHITECTURE]      90 unless told; prints the kernels with most registers
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

command -v nvcc >/dev/null || { echo "nvcc is not here: the CUDA backend is NOT compiled"; exit 0; }
EXTRA=(-DLINEA_WERROR=ON -DLINEA_CUDA_VERBOSE=ON "-DLINEA_CUDA_ARCHITECTURES=${1:-90}-real")
log=build/release/nvcc.log
mkdir -p build/release
build release linea_gpu >"$log.new" 2>&1 || {
  grep -E -A 3 'FAILED|error|warning:' "$log.new" || tail -n 20 "$log.new"
  echo "the CUDA backend did not compile or link: see $log.new"
  exit 1
}
# A build that compiled nothing says nothing: the words of the last that did are kept.
if grep -q 'ptxas info' "$log.new"; then mv "$log.new" "$log"; else rm "$log.new"; fi
python3 tools/read_ptxas.py "$log"
