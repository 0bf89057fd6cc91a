#!/usr/bin/env bash
# Installs a build into a fresh prefix, builds examples/ against it with find_package(linea), and runs them: an
# attention registered from outside must appear in every command.
#
#     tests/package/test_package.sh BUILD_FOLDER CMAKE
set -euo pipefail
build=$(realpath "$1") cmake=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export GOMP_SPINCOUNT=1000

expect() { # file, text...: the file has each text
  local file=$1 text
  shift
  for text in "$@"; do
    grep -qF -e "$text" "$file" || { echo "'$text' is not in $file:"; cat "$file"; exit 1; }
  done
}
quietly() { "$@" >log 2>&1 || { echo "$* failed:"; tail -n 40 log; exit 1; }; }

quietly "$cmake" --install "$build" --prefix "$folder/prefix"
source=prefix/share/doc/liblinea-dev/examples
quietly "$cmake" -S "$source" -B examples -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -Wall -Wextra -Werror" \
  -DCMAKE_PREFIX_PATH="$folder/prefix"
quietly "$cmake" --build examples --parallel 2

# The installed program, with its manual and completions.
prefix/bin/linea --version >version
expect version "linea 0."
gunzip <prefix/share/man/man1/linea.1.gz >manual
expect manual "\\-\\-attention"
expect prefix/share/bash-completion/completions/linea "complete -F _linea linea"

# A training of one page: its output is in its header.
OMP_NUM_THREADS=1 examples/train_copy >copied
expect copied "after 3 1 4 1 5 9 2 6: 3 1 4 1 5 9 2 6"

small="--size 12 --levels 4 --layers 1 --heads 2 --dim 16 --ffn 32 --batch 2 --steps 2"
my=examples/my_attention
$my verify --attention scaled-exp >verified
expect verified scaled-exp
$my bench attention --attention linear,scaled-exp --query-scale 0.5 --lengths 32 --heads 1 --key-size 4 --seconds 0 \
  >speeds 2>&1
expect speeds scaled-exp
$my attend --help >help
expect help --query-scale --key-scale
$my train --attention scaled-exp --help >help
expect help --query-scale --key-scale "scale of queries"
quietly $my train --task digits $small --attention scaled-exp --key-scale 2 --out run
expect run/config.toml 'attention = "scaled-exp"' "query_scale = 1" "key_scale = 2"
# A setting of another attention is refused.
! $my train --task digits $small --attention softmax --key-scale 2 --out other 2>refused || exit 1
expect refused key-scale
$my info >known
expect known scaled-exp
$my completion bash >completion
expect completion --query-scale
# A run of the same program, read by the other example.
quietly "$build/linea" train --task digits $small --out plain
quietly examples/generate plain grid.png
test -s grid.png
echo "the installed package works"
