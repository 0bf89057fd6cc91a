#!/usr/bin/env bash
# Builds the tests with the address and undefined-behavior sanitizers and runs them. --libraries leaves out those that
# start the program, which take two thirds of the time: ./test.sh --all calls it so.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

programs=ON
case "${1:-}" in
  "") ;;
  --libraries) programs=OFF ;;
  *) echo "usage: tools/check-sanitized.sh [--libraries]" >&2; exit 2 ;;
esac

install_missing "${linea_packages[@]}" "${linea_test_packages[@]}"
say "Sanitizer build"
EXTRA=(-DLINEA_WERROR=ON -DLINEA_NATIVE=OFF -DLINEA_PROGRAM_TESTS=$programs)
build asan test_programs
# A quarantine of 16 MB instead of 256, whose pages are reused sooner, and 3 frames of who allocated instead of 30
# save a tenth of the time each.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:quarantine_size_mb=16:malloc_context_size=3
export UBSAN_OPTIONS=print_stacktrace=1
say "Tests under the sanitizers"
run_tests asan
