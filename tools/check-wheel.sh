#!/usr/bin/env bash
# Installs a wheel by pip in a virtual environment of a bare Debian, made by debootstrap: trains on digits by the program and
# from Python, samples, and compares the logits of the model in NumPy with the loss of `linea eval`. A processor without
# AVX, as qemu has it, runs the program too. Exit code 77: skipped, for want of root or of debootstrap.
#
#   tools/check-wheel.sh WHEEL [SUITE]      SUITE: Debian's, default bookworm
set -euo pipefail
wheel=$(realpath "$1")
suite=${2:-bookworm}
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "Skipped: the test of the wheel needs root and debootstrap"
  exit 77
fi
bare=$(mktemp -d)
trap 'rm -rf --one-file-system "$bare"' EXIT
log=$(debootstrap --variant=minbase --include=python3-venv,ca-certificates "$suite" "$bare" 2>&1) || { echo "$log" | tail; exit 1; }
# Programs find their place by /proc.
mount -t proc proc "$bare/proc" || { echo "Skipped: /proc cannot be mounted here"; exit 77; }
trap 'umount -l "$bare/proc" || true; rm -rf --one-file-system "$bare"' EXIT
cp "$wheel" "$bare/tmp/"
inside() { chroot "$bare" "$@"; }
inside python3 -m venv /tmp/venv
# NumPy comes from outside, by the settings of this machine's pip.
python3 -m pip download -q --only-binary :all: --python-version "$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" \
  -d "$bare/tmp/wheels" numpy
inside /tmp/venv/bin/pip install -q --no-index --find-links /tmp/wheels "/tmp/$(basename "$wheel")"
inside /tmp/venv/bin/linea --version
small="--task digits --size 12 --levels 4 --examples 200 --layers 1 --heads 2 --dim 16 --ffn 32 --batch 2"
inside /tmp/venv/bin/linea train $small --steps 20 --out /tmp/run >/dev/null
inside /tmp/venv/bin/linea sample /tmp/run --count 2 --out /tmp/grid.png >/dev/null
test -s "$bare/tmp/grid.png"
inside /tmp/venv/bin/linea attend --help >/dev/null
cat >"$bare/tmp/check.py" <<'PYTHON'
import json
import subprocess

import linea_attention

version = subprocess.run(["/tmp/venv/bin/linea", "--version"], capture_output=True, check=True, text=True).stdout
assert linea_attention.__version__ in version, (linea_attention.__version__, version)
lines = list(linea_attention.train("/tmp/mine", task="text", data="/tmp/text.txt", length=32, layers=1, heads=2, dim=16,
                                   ffn=32, batch=2, steps=20, warmup=2))
losses = [line["loss"] for line in lines if "loss" in line]
assert lines[-1]["step"] == 20 and losses[-1] < losses[0], lines
model = linea_attention.load("/tmp/mine")
assert model.logits([1, 2, 3]).shape[0] == 3
loss, accuracy = model.evaluate(*model.split(open("/tmp/text.txt", "rb").read()))
program = json.loads(subprocess.run(["/tmp/venv/bin/linea", "eval", "/tmp/mine", "--json"], capture_output=True, check=True).stdout)
assert abs(loss - program["loss"]) < 1e-5, (loss, program)
try:
    list(linea_attention.train("/tmp/none", stepz=3))
except RuntimeError as error:
    assert "no option" in str(error), error
else:
    raise SystemExit("a wrong option is accepted")
for metrics in linea_attention.train("/tmp/left", task="text", data="/tmp/text.txt", length=32, layers=1, heads=2, dim=16,
                                     ffn=32, batch=2, steps=1000000, warmup=2):
    break
try:
    print(next(linea_attention.train("/tmp/mine", task="text", data="/tmp/text.txt")))
except RuntimeError as error:
    assert "already holds a run" in str(error), error
else:
    raise SystemExit("a folder with a run is taken")
PYTHON
for i in $(seq 300); do echo "line $i of a text, $((i * 7 % 13)) words"; done >"$bare/tmp/text.txt"
inside /tmp/venv/bin/python /tmp/check.py
inside sh -c 'ls /tmp/left/checkpoints | grep -q step' || { echo "a run whose loop is left is not saved"; exit 1; }
if command -v qemu-x86_64-static >/dev/null; then
  cp "$(command -v qemu-x86_64-static)" "$bare/tmp/"
  folder=$(cd "$bare" && echo tmp/venv/lib/python3*/site-packages/linea_attention)
  # Set, so that the program does not restart itself outside of qemu.
  inside env GOMP_SPINCOUNT=1000 OMP_NUM_THREADS=1 /tmp/qemu-x86_64-static -cpu Nehalem "/$folder/bin/linea" \
    info >/dev/null || { echo "a processor without AVX: code $?"; exit 1; }
fi
echo "the wheel trains, samples and computes in a bare $suite"
