#!/usr/bin/env bash
# Builds the image of Containerfile and trains 2 steps in it. Exit code 77: skipped, where no tool runs containers here.
#
#   tools/check-container.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for tool in podman docker; do
  command -v $tool >/dev/null && $tool info >/dev/null 2>&1 && break
  tool=
done
[ -n "$tool" ] || { echo "Skipped: neither podman nor docker runs here"; exit 77; }
$tool build -q -t linea-check -f Containerfile .
trap '$tool rmi -f linea-check >/dev/null' EXIT
$tool run --rm linea-check --version
$tool run --rm linea-check train --task digits --size 12 --levels 4 --examples 200 --layers 1 --heads 2 --dim 16 --ffn 32 \
  --batch 2 --steps 2 --out /tmp/run | grep "step 2/2"
echo "the container trains"
