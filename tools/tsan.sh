#!/usr/bin/env bash
# The thread sanitizer on what runs in threads: the tests of tensor, autograd and nn, built by clang with its own
# OpenMP library (g++'s gives false reports). A program with a race comes first: a sanitizer that does not see it
# proves nothing. Needs clang, libomp and libclang-rt of one version; takes some minutes.
#
#   tools/tsan.sh [VERSION]      VERSION of clang, 14 unless told
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=${1:-14}
clang=clang++-$version
flags="-O1 -g1 -fsanitize=thread"
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66" OMP_NUM_THREADS=2

mkdir -p build/tsan
cat >build/tsan/race.cpp <<'EOF'
int main() {
  int sum = 0;
#pragma omp parallel for
  for (int i = 0; i < 1000; ++i) sum += i;
  return sum == 0;
}
EOF
# shellcheck disable=SC2086
$clang $flags -fopenmp=libomp build/tsan/race.cpp -o build/tsan/race
if build/tsan/race 2>build/tsan/race.log; then
  echo "the sanitizer did not see a race that is there" >&2
  exit 1
fi

cmake -S . -B build/tsan -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_CXX_FLAGS="$flags" -DLINEA_NATIVE=OFF >build/tsan/cmake.log
cmake --build build/tsan --target test_tensor test_autograd test_nn
for folder in tensor autograd nn; do
  echo "== $folder"  # the chain of a million ops takes minutes there, and one thread
  "build/tsan/tests/test_$folder" --gtest_brief=1 --gtest_filter=-DeepChain.*
done
