#!/usr/bin/env bash
# Runs the tests of tensor, autograd and nn under the thread sanitizer, built by clang with its own OpenMP library
# (g++'s gives false reports). First checks that the sanitizer reports a program with a known race. Needs clang, libomp
# and libclang-rt of the same version; takes some minutes.
#
#   tools/tsan.sh [VERSION]      clang version, default 14
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
  echo "the sanitizer missed a known race" >&2
  exit 1
fi

cmake -S . -B build/tsan -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_CXX_FLAGS="$flags" -DLINEA_NATIVE=OFF >build/tsan/cmake.log
cmake --build build/tsan --target test_base test_tensor test_autograd test_nn
for folder in base tensor autograd nn; do
  echo "== $folder"  # without the chain of a million ops: minutes under the sanitizer, single-threaded
  "build/tsan/tests/test_$folder" --gtest_brief=1 --gtest_filter=-DeepChain.*
done
