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

# Headers of the user in folders of the same names, nn/, train/, data/ ..., do not hide those of the library.
headers=$(cd prefix/include/linea && find . -name '*.h' | sed 's|^\./||' | sort)
for header in $headers; do
  mkdir -p "own/$(dirname "$header")"
  echo '#error "a header of the user"' >"own/$header"
done
printf '#include <linea/%s>\n' $(grep -E '^(base|parallel|tensor|autograd|nn|data|train)/' <<<"$headers") >all.cpp
quietly g++ -std=c++20 -fsyntax-only -fopenmp -Iown -Iprefix/include all.cpp
# By the paths of the tree, which a user without such folders may write.
echo '#include "nn/optimizer.h"' >tree.cpp
quietly g++ -std=c++20 -fsyntax-only -fopenmp -Iprefix/include -Iprefix/include/linea tree.cpp

# By pkg-config.
copied_by="examples/train_copy"
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$folder/prefix/lib/pkgconfig:$(echo "$folder"/prefix/lib/*/pkgconfig)
  quietly g++ -O1 -Iown "$source/train_copy.cpp" $(pkg-config --cflags --libs linea) -o train_copy
  copied_by+=" ./train_copy"
else
  echo "Skipped: pkg-config is not installed"
fi

# The installed program, with its manual and completions.
prefix/bin/linea --version >version
expect version "linea 0."
gunzip <prefix/share/man/man1/linea.1.gz >manual
expect manual "\\-\\-attention"
expect prefix/share/bash-completion/completions/linea "complete -F _linea linea"

# A training of one page: its output is in its header.
for program in $copied_by; do
  OMP_NUM_THREADS=1 $program >copied
  expect copied "after 3 1 4 1 5 9 2 6: 3 1 4 1 5 9 2 6"
done

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
