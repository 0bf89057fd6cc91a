#!/bin/bash
# Compares Linea with its peers on this machine and prints a Markdown table of ratios.
# See README.md and compare.sh --help.
exec env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python3 "$(dirname "$0")/compare.py" "$@"
