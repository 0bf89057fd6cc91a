#!/usr/bin/env bash
# Tries the archive and the wheel that `tools/make-packages.sh --arm64` makes, under qemu-user on another machine. The
# archive trains and samples where the dynamic linker finds nothing but glibc and the archive's libraries; it is not in a
# root folder of its own, as qemu has the libraries of this machine. The wheel is unpacked by pip, and this machine's
# Python imports its module, which starts the program by qemu and computes the model in NumPy.
#
#   tools/check-packages-arm64.sh ARCHIVE WHEEL SYSROOT
set -euo pipefail
archive=$(realpath "$1") wheel=$(realpath "$2") sysroot=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOMP_SPINCOUNT=1000 OMP_NUM_THREADS=1
bare=$work/bare
mkdir "$bare"
for library in $(awk '$1 == "libc6" && $3 ~ /\/(ld-linux|lib)[^\/]*\.so[.0-9]*$/ { print $3 }' "$sysroot/files"); do
  mkdir -p "$bare$(dirname "$library")"
  cp -L "$sysroot$library" "$bare$library"
done

own_libraries() { # the program of a package: each library is the package's, or glibc's from the folder
  local folder path
  folder=$(realpath "$(dirname "$1")/..")
  qemu-aarch64 -L "$bare" -E LD_TRACE_LOADED_OBJECTS=1 "$1" >libraries
  ! grep 'not found' libraries || exit 1
  for path in $(grep -oE '/[^ ]+' libraries); do
    [[ $(realpath -m "$path") == "$folder"/lib/* ]] || [ -f "$bare$path" ] || { echo "$path is this machine's"; exit 1; }
  done
}
quietly() { "$@" >log 2>&1 || { echo "$* failed:"; tail -n 40 log; exit 1; }; }

small="--task digits --size 12 --levels 4 --examples 200 --layers 1 --heads 2 --dim 16 --ffn 32 --batch 2"
tar -xzf "$archive"
program=$(echo "$work"/linea-*/bin/linea)
own_libraries "$program"
linea=(qemu-aarch64 -L "$bare" "$program")
quietly "${linea[@]}" train $small --steps 2 --out run
grep "step 2/2" log
quietly "${linea[@]}" sample run --count 2 --out grid.png
test -s grid.png
echo "the archive trains and samples under qemu with glibc alone"

tag=$(grep -oE 'manylinux_[0-9]+_[0-9]+_aarch64' <<<"$wheel")
python3 -m venv venv
# NumPy comes from outside, by the settings of this machine's pip.
venv/bin/pip install -q numpy
venv/bin/pip install -q --no-index --no-deps --only-binary :all: --platform "$tag" --target unpacked "$wheel"
own_libraries unpacked/linea_attention/bin/linea
printf '#!/bin/sh\nexec qemu-aarch64 -L "%s" "%s" "$@"\n' "$bare" "$work/unpacked/linea_attention/bin/linea" >emulated
chmod +x emulated
for i in $(seq 300); do echo "line $i of a text, $((i * 7 % 13)) words"; done >text.txt
PYTHONPATH=unpacked venv/bin/python - <<'PYTHON'
import json
import subprocess

import linea_attention

linea_attention.PROGRAM = "./emulated"
lines = list(linea_attention.train("mine", task="text", data="text.txt", length=32, layers=1, heads=2, dim=16, ffn=32,
                                   batch=2, steps=4, warmup=2))
assert lines[-1]["step"] == 4, lines
model = linea_attention.load("mine")
loss, accuracy = model.evaluate(*model.split(open("text.txt", "rb").read()))
program = json.loads(subprocess.run(["./emulated", "eval", "mine", "--json"], capture_output=True, check=True).stdout)
assert abs(loss - program["loss"]) < 1e-5, (loss, program)
PYTHON
echo "the wheel's module trains under qemu and computes the model in NumPy"
