#!/usr/bin/env bash
# Configures where nvcc is installed without cuBLAS: a CPU build is possible, and LINEA_CUDA=ON names what is missing.
# Exit code 77: skipped.
#
#     tests/package/test_configure.sh CMAKE
set -euo pipefail
cmake=$1 source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
export PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "Skipped: nvcc is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

configure() { # ON or OFF
  rm -rf "$folder/build"
  "$cmake" -S "$source" -B "$folder/build" -G Ninja -DLINEA_TESTS=OFF -DLINEA_CUDA="$1" -DCUDA_cublas_LIBRARY= \
    -DCUDA_cublasLt_LIBRARY= >"$folder/log" 2>&1
}
fail() { echo "$1:"; cat "$folder/log"; exit 1; }

configure OFF || fail "a CPU build does not configure"
grep -q "CMAKE_CUDA_COMPILER.*nvcc" "$folder/build/CMakeCache.txt" || { echo "Skipped: nvcc does not work"; exit 77; }
grep -q "cuBLAS of CUDA 12 or later was not found, only nvcc" "$folder/log" || fail "nothing says what is missing"
! configure ON || fail "a CUDA build configures without cuBLAS"
grep -q "LINEA_CUDA=ON needs cuBLAS" "$folder/log" || fail "the error names another reason"
echo "a build without cuBLAS configures"
