#!/usr/bin/env bash
# Fuzzes every reader by libFuzzer under the address and undefined-behavior sanitizers, each for so many SECONDS
# (default 30) or with -runs=N, on one core, and prints a table. New inputs stay in build/fuzz/inputs, what breaks
# a reader's promise in build/fuzz/findings; 1 is returned where there is such a finding. Needs the packages
# clang-14, libclang-rt-14-dev and libomp-14-dev besides those of the build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit=-max_total_time=${1:-30}
case "${1:-30}" in
  -runs=[0-9]*) limit=$1 ;;
  *[!0-9]* | "") echo "usage: tools/fuzz.sh [SECONDS | -runs=N] [TARGET...]" >&2; exit 2 ;;
esac
shift $(($# > 0))

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzz_targets
if [ $# -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.cpp; do
    name=${source##*/fuzz_}
    set -- "$@" "${name%.cpp}"
  done
fi

folder=build/fuzz
mkdir -p "$folder/findings" "$folder/logs"
export ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=3:quarantine_size_mb=8
export UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

number() { awk -v key="stat::$1:" '$1 == key { print $2 }' "$2"; }

any=0
row='%-20s %12s %8s %10s %9s\n'
printf "$row" target executions seconds coverage findings
for name in "$@"; do
  case $name in
    cifar10) most=16384 ;;  # two records of 3,073 bytes, and one
    tar) most=8192 ;;
    png | jpeg) most=2048 ;;
    *) most=4096 ;;
  esac
  inputs=$folder/inputs/$name log=$folder/logs/$name
  mkdir -p "$inputs"
  start=$SECONDS found=0
  "$folder/tests/fuzz/fuzz_$name" "$limit" -max_len=$most -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 \
    -print_final_stats=1 -artifact_prefix="$folder/findings/$name-" "$inputs" "tests/fuzz/corpus/$name" \
    >"$log" 2>&1 || found=1
  coverage=$(grep -ao 'cov: [0-9]*' "$log" | tail -1 | cut -c6- || true)
  printf "$row" "$name" "$(number number_of_executed_units "$log")" $((SECONDS - start)) "${coverage:-?}" $found
  [ $found = 0 ] || any=1
done
[ $any = 0 ] || echo "Findings are in $folder/findings, what was seen of them in $folder/logs."
exit $any
