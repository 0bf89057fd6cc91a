#!/usr/bin/env bash
# Builds the libraries with the address and undefined-behavior sanitizers and runs the tests with them. --libraries leaves
# out those of the program, which take two thirds of the time, and takes the tests as the release build compiled them:
# ./test.sh --all calls it so.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

objects=
case "${1:-}" in
  "") ;;
  --libraries) objects=$PWD/build/release/tests ;;
  *) echo "usage: tools/check-sanitized.sh [--libraries]" >&2; exit 2 ;;
esac

install_missing "${linea_packages[@]}" "${linea_test_packages[@]}"
EXTRA=(-DLINEA_WERROR=ON -DLINEA_NATIVE=OFF)
if [ -n "$objects" ]; then
  build release test_programs
  cmake --build --preset release -- -t cleandead >/dev/null
fi
say "Sanitizer build"
EXTRA+=("-DLINEA_TEST_OBJECTS=$objects")
build asan test_programs
# A quarantine of 16 MB instead of 256, whose pages are reused sooner, and 3 frames of who allocated instead of 30
# save a tenth of the time each.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:quarantine_size_mb=16:malloc_context_size=3
export UBSAN_OPTIONS=print_stacktrace=1
say "Tests under the sanitizers"
run_tests asan
