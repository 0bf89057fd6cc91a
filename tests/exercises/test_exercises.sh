#!/usr/bin/env bash
# Every starter fails, every solution passes, and every known mistake gets its own hint: the first line of a file in
# wrong/ has words of it.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
check=$here/../../exercises/check
LINEA_EXERCISES=$(mktemp -d)
export LINEA_EXERCISES
trap 'rm -rf "$LINEA_EXERCISES"' EXIT
failed=0
wrong() { echo "$*"; failed=1; }

for number in 01 02 03 04 05 06 07 08; do
  "$check" "$number" >/dev/null && wrong "the starter of $number passes"
  output=$("$check" "$number" --file "$here/solutions/$number.cpp" --seed 7) || wrong "the solution of $number fails: $output"
  [ "$(grep -c '^    ' <<<"$output")" -ge 4 ] || wrong "$number shows nothing of Linea: $output"
  "$check" "$number" --json --file "$here/solutions/$number.cpp" | python3 -c '
import json, sys
found = json.load(sys.stdin)
sys.exit(not (found["solved"] and len(found["steps"]) >= 2))' || wrong "--json of $number"
done
for file in "$here"/wrong/*.cpp; do
  number=$(basename "$file" | cut -c1-2)
  hint=$(sed -n '1s|^// hint: ||p' "$file")
  output=$("$check" "$number" --file "$file") && wrong "$file passes"
  grep -qF -- "$hint" <<<"$output" || wrong "$file does not get '$hint': $output"
  # No other hint, and one line of it.
  [ "$(grep -cE '^  [a-z]' <<<"$(grep -vE ' ok$' <<<"$output")")" -le 1 ] || wrong "$file gets more than one line: $output"
done
exit $failed
