#!/usr/bin/env bash
# Types the commands of README.md (its blocks marked sh) as they are, in order, in a folder with what a fresh clone has.
# Five things differ: nothing is installed or built, training takes two steps, one attention is verified, as the
# conformance tests verify all of them, the benchmark is of short sequences, and data of this test replaces downloads.
#
#     tests/package/test_readme.sh LINEA
set -euo pipefail
linea=$(realpath "$1") source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export GOMP_SPINCOUNT=1000 LINEA=$linea

mkdir -p build/release tools
cp "$source/demo.sh" .
cat >tools/setup.sh <<'END'
linea_packages=()
install_missing() { :; }
build() { :; }
say() { echo "$*"; }
END
cat >build/release/linea <<'END'
#!/usr/bin/env bash
set -euo pipefail
idx() { # file, bytes of the header as printf escapes, bytes of data
  { printf "$2"; yes 0123456789 | tr -d '\n' | tr 0-9 '\000-\011' | head -c "$3"; } 2>/dev/null >"datasets/mnist/$1" || true
}
case "$*" in
  "data get mnist")
    mkdir -p datasets/mnist
    for part in train t10k; do
      idx $part-images-idx3-ubyte '\0\0\10\3\0\0\0\30\0\0\0\34\0\0\0\34' $((24 * 784))
      idx $part-labels-idx1-ubyte '\0\0\10\1\0\0\0\30' 24
    done ;;
  "data get tinyshakespeare")
    mkdir -p datasets/tinyshakespeare
    for i in {1..100}; do echo "ROMEO: line $i of a text."; done >datasets/tinyshakespeare/input.txt ;;
  train*)
    words=()
    while [ $# -gt 0 ]; do
      if [ "$1" = --steps ]; then shift; else words+=("$1"); fi
      shift
    done
    exec "$LINEA" "${words[@]}" --steps 2 ;;
  "bench attention"*) exec "$LINEA" bench attention --lengths 64,128 --seconds 0.01 --svg demo/speeds.svg ;;
  verify) exec "$LINEA" verify --attention softmax --quick ;;
  *) exec "$LINEA" "$@" ;;
esac
END
chmod +x build/release/linea

awk '/^```/ { inside = $0 == "```sh"; next } inside' "$source/README.md" >commands
[ "$(grep -c . commands)" -ge 10 ] || { echo "README.md has too few commands:"; cat commands; exit 1; }
while read -r command; do
  case $command in ./test.sh*) continue ;; esac  # which runs this test
  echo "\$ $command"
  bash -c "$command" >output 2>&1 </dev/null || { cat output; echo "this failed: $command"; exit 1; }
  cat output >>outputs
done <commands

# What README.md promises.
for file in demo/digits.png demo/more.png demo/completed.png demo/performer.png demo/speeds.svg; do
  test -s "$file" || { echo "$file is missing"; exit 1; }
done
for text in "ROMEO:" "0 failed" "faster than"; do
  grep -q "$text" outputs || { echo "'$text' is in no output"; cat outputs; exit 1; }
done
echo "the commands of README.md run"
