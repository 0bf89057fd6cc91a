#!/usr/bin/env bash
# From a fresh clone to a first image: installs missing packages, builds, trains a linear Transformer on
# the built-in digits (about a minute on two cores) and samples 64 new ones. The last line of output
# is the path of the image.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools/setup.sh"

install_missing "${linea_packages[@]}"
say "Building"
EXTRA=()
build release linea
linea=build/release/linea

if [ -f demo/trained ]; then
  say "Using the trained model in demo/run; remove the folder demo to train a new one"
else
  say "Training a linear Transformer on digits"
  rm -rf demo
  "$linea" train --preset digits-demo --out demo/run
  touch demo/trained
fi

say "Sampling 64 digits, token by token, from a state of fixed size"
"$linea" sample demo/run --count 64 --temperature 0.8 --out "$PWD/demo/digits.png"
