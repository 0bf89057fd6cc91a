#!/usr/bin/env bash
# Compiles and links the whole CUDA backend with nvcc, warnings as errors. Then reads the ptxas report: fails if a hot
# float or bf16 kernel spills more bytes of registers than tools/read_ptxas.py allows, and counts the machine code of the
# hot kernels (tools/sass.py) where cuobjdump is installed. Needs no GPU.
#
#   tools/check-nvcc.sh [ARCHITECTURE]      default 90; prints the kernels with the most registers
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

command -v nvcc >/dev/null || { echo "nvcc not found: the CUDA backend is NOT compiled"; exit 0; }
EXTRA=(-DLINEA_WERROR=ON -DLINEA_CUDA_VERBOSE=ON "-DLINEA_CUDA_ARCHITECTURES=${1:-90}-real")
log=build/release/nvcc.log
mkdir -p build/release
build release linea_gpu >"$log.new" 2>&1 || {
  if grep -q "unknown target 'linea_gpu'" "$log.new"; then
    echo "cuBLAS of CUDA 12 or later not found: the CUDA backend is NOT compiled"
    exit 0
  fi
  grep -E -A 3 'FAILED|error|warning:' "$log.new" || tail -n 20 "$log.new"
  echo "the CUDA backend did not compile or link: see $log.new"
  exit 1
}
# A build that compiles nothing reports nothing: keep the report of the last one that did.
if grep -q 'ptxas info' "$log.new"; then mv "$log.new" "$log"; else rm "$log.new"; fi
python3 tools/read_ptxas.py "$log"
python3 tools/sass.py build/release/cuda
