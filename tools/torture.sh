#!/usr/bin/env bash
# Runs tools/torture.py, as a whole where nothing is said: it kills, stops and spoils training runs by the hundred.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
[ $# -gt 0 ] || set -- --kills 200 --signals 60 --flips 400
exec python3 tools/torture.py "$@"
