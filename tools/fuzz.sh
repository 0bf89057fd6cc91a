#!/usr/bin/env bash
# Fuzzes every reader with libFuzzer under the address and undefined-behavior sanitizers, on one core, each for SECONDS
# (default 30) or for -runs=N executions, and prints a table. New inputs go to build/fuzz/inputs, failing inputs to
# build/fuzz/findings. Exit code 1 if there is a finding. Needs clang-14, libclang-rt-14-dev and libomp-14-dev in
# addition to the build packages.
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

any_finding=0
row='%-20s %12s %8s %10s %9s\n'
printf "$row" target executions seconds coverage findings
for name in "$@"; do
  case $name in
    cifar10) max_len=16384 ;;  # room for three records of 3,073 bytes
    tar) max_len=8192 ;;
    png | jpeg) max_len=2048 ;;
    *) max_len=4096 ;;
  esac
  inputs=$folder/inputs/$name log=$folder/logs/$name
  mkdir -p "$inputs"
  start=$SECONDS found=0
  "$folder/tests/fuzz/fuzz_$name" "$limit" -max_len=$max_len -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 \
    -print_final_stats=1 -artifact_prefix="$folder/findings/$name-" "$inputs" "tests/fuzz/corpus/$name" \
    >"$log" 2>&1 || found=1
  coverage=$(grep -ao 'cov: [0-9]*' "$log" | tail -1 | cut -c6- || true)
  printf "$row" "$name" "$(number number_of_executed_units "$log")" $((SECONDS - start)) "${coverage:-?}" $found
  [ $found = 0 ] || any_finding=1
done
[ $any_finding = 0 ] || echo "Findings are in $folder/findings, logs in $folder/logs."
exit $any_finding
