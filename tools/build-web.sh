#!/usr/bin/env bash
# Compiles the live page's program by emscripten (Debian's package, 3.1.6), records the same run by the release build, and
# writes docs/lab/live.html. Nothing else needs any of it.
#
#   tools/build-web.sh [OUT.html]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

out=${1:-docs/lab/live.html}
[ -x build/release/linea ] || { echo "build/release/linea is not there: build it first (./test.sh)"; exit 1; }
install_missing "emscripten: compiles C++ to WebAssembly" "node-acorn: its JavaScript" \
  "libfmt-dev: text formatting" "nlohmann-json3-dev: JSON"
export NODE_PATH=/usr/share/nodejs
web=build/web
mkdir -p $web/objects $web/include
for headers in fmt nlohmann; do ln -sfn /usr/include/$headers $web/include/$headers; done

# The attentions of web/live.cpp, not all.
sources=$(ls base/{settings,subnormals}.cpp tensor/*.cpp tensor/cpu/*.cpp tensor/cpu/packed/*.cpp autograd/*.cpp \
  autograd/rules/*.cpp nn/*.cpp nn/attention/{linear,performer,softmax,parts}.cpp nn/verify/{attend,show}.cpp \
  data/image_set.cpp data/tasks/{task,image_task,digits}.cpp web/*.cpp)
export flags="-std=c++20 -msimd128 -fopenmp-simd -fwasm-exceptions -DFMT_HEADER_ONLY -fno-math-errno -fno-trapping-math \
-Wno-pass-failed -I. -Iweb -isystem $web/include"
compile() { # source
  local object=build/web/objects/${1//\//_}.o level=-Os
  [[ $1 != tensor/cpu/* && $1 != web/blas.cpp ]] || level=-O3
  [ "$object" -nt "$1" ] && [ "$object" -nt build/web/headers ] && return
  em++ $flags $level -c "$1" -o "$object"
}
export -f compile
newest=$(find base tensor autograd nn data web -name '*.h' -newer $web/headers -print -quit 2>/dev/null || echo all)
[ -z "$newest" ] || touch $web/headers
say "$(echo "$sources" | wc -l) sources"
echo "$sources" | xargs -P "$(nproc)" -n 1 bash -c 'compile "$0" || exit 255'
say "The program"
em++ $(echo "$sources" | sed "s|/|_|g; s|.*|$web/objects/&.o|") -Os -msimd128 -fwasm-exceptions -sMODULARIZE \
  -sEXPORT_NAME=makeLinea -sENVIRONMENT=web -sALLOW_MEMORY_GROWTH -sTOTAL_STACK=1048576 -sDYNAMIC_EXECUTION=0 \
  -sEXPORTED_RUNTIME_METHODS=ccall -Wl,--gc-sections -o $web/glue.js
say "The recorded run"
rm -rf $web/runs
(cd $web && env -u OPENBLAS_CORETYPE PATH="$OLDPWD/build/release:$PATH" linea train --task digits --size 12 --levels 4 \
  --examples 2000 --class-token --class-embedding every --layers 2 --dim 48 --heads 4 --ffn 96 --batch 8 --rule gated \
  --layer-convolution 2d --optimizer muon --lr 0.003 --min-lr 0.0003 --warmup 20 --steps 150 --dropout 0 --threads 1 \
  --sample-every 10 --out runs/live | tail -n 1)
say "The page"
# The style is that of the other pages.
python3 web/page.py $web/glue.js $web/glue.wasm $web/runs/live docs/lab/letters.html "$out"
if command -v chromedriver >/dev/null; then
  python3 tools/check_live.py "$out" build/release/linea $web/runs/live
else
  echo "chromium-driver is not installed: the page is NOT checked"
fi
