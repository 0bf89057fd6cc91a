#!/usr/bin/env bash
# Checks the pages of `linea lab run --out LAB`: as files (tools/check_pages.py); that `linea lab render` makes the same
# bytes of LAB/data; and, where chromium and its driver are installed, in a browser (tools/check_pages_browser.py).
#
#   tools/check-pages.sh LAB [LINEA]      LINEA: the program, default build/release/linea
set -uo pipefail
tools=$(dirname "${BASH_SOURCE[0]}")
lab=${1:?usage: tools/check-pages.sh LAB [LINEA]}
linea=${2:-$tools/../build/release/linea}
failed=0

python3 "$tools/check_pages.py" "$lab" || failed=1

sums() { (cd "$lab" && sha256sum ./*.html); }
before=$(sums)
"$linea" lab render --out "$lab" >/dev/null && "$linea" lab render --out "$lab" >/dev/null || failed=1
if [ "$before" != "$(sums)" ]; then
  echo "$lab: linea lab render makes other pages from the same data/"
  failed=1
fi

if command -v chromedriver >/dev/null && command -v chromium >/dev/null; then
  python3 "$tools/check_pages_browser.py" "$lab" || failed=1
else
  echo "chromium and chromium-driver are not installed: the pages are NOT checked in a browser"
fi
exit $failed
