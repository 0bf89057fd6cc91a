#!/usr/bin/env bash
# Runs tools/torture.py; without arguments at full size: hundreds of killed, stopped and corrupted training runs.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
[ $# -gt 0 ] || set -- --kills 200 --signals 60 --flips 400
exec python3 tools/torture.py "$@"
