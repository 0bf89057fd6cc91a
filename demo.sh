#!/usr/bin/env bash
# One command to a first image: installs what is missing, builds, trains a linear Transformer on the
# built-in digits (about two minutes on two cores) and draws 64 of its own. Prints the image's path last.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools/setup.sh"

install_missing "${linea_packages[@]}"
say "Building"
EXTRA=()
build release linea
linea=build/release/linea

if [ -f demo/trained ]; then
  say "The model in demo/run is trained already; remove the folder demo to train it again"
else
  say "Training a linear Transformer to draw digits"
  rm -rf demo
  "$linea" train --preset digits-demo --out demo/run
  touch demo/trained
fi

say "Drawing 64 digits, one token at a time from a state of fixed size"
"$linea" sample demo/run --count 64 --temperature 0.8 --out "$PWD/demo/digits.png"
