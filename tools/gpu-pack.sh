#!/usr/bin/env bash
# Packs the CUDA build for a machine with an NVIDIA GPU where nothing can be installed: gpu-pack.tar.xz with the
# program, its tests on a GPU and every library but those of CUDA. Needs nvcc and cuBLAS, no GPU.
#
#   tools/gpu-pack.sh [ARCHITECTURE]      default 90
#   tools/gpu-check.sh --pack DIR         there, where the pack was unpacked into DIR
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "nvcc is not in PATH or /usr/local/cuda/bin: install the CUDA toolkit"; exit 1; }
folder=build/gpu-pack
cmake --preset cuda -B "$folder" -DLINEA_NATIVE=OFF "-DLINEA_CUDA_ARCHITECTURES=${1:-90}-real"
cmake --build "$folder" --target linea test_gpu

pack=$(mktemp -d)
trap 'rm -rf "$pack"' EXIT
mkdir "$pack/bin" "$pack/lib"
strip -o "$pack/bin/linea" "$folder/linea"
strip -o "$pack/bin/test_gpu" "$folder/tests/cuda/test_gpu"
git describe --always --dirty >"$pack/commit"
# libraries of CUDA, of the C library and of the compiler come from the machine
ldd "$folder/linea" "$folder/tests/cuda/test_gpu" | awk '$3 ~ /^\// { print $3 }' | sort -u |
  grep -vE '/(libc|libm|ld-linux.*|libpthread|libdl|librt|libstdc\+\+|libgcc_s|libcu[a-zA-Z]*|libnv[a-zA-Z]*)\.so' |
  xargs -I{} cp -L {} "$pack/lib/"
tar -C "$pack" -c . | xz -T0 >gpu-pack.tar.xz
du -h gpu-pack.tar.xz
