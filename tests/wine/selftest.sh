#!/bin/sh
# gloo doctor --selftest, under wine.
# usage: selftest.sh WINE GLOO
wine=$1 gloo=$2
# shellcheck source=tests/wine/lib.sh
. "$(dirname "$0")/lib.sh"

win "$gloo" doctor --selftest > "$scratch/report"
status=$?
if grep -q "file store: .* Windows" "$scratch/report"; then
  skipped "gloo doctor --selftest" "this build has no file stores"
  finish
fi
equal $status 0 && grep -qE '^result: [1-9][0-9]* checks passed in [0-9]+ s$' "$scratch/report"
result "every check passes" "$scratch/report"
report=$(cat "$scratch/report")
for part in "system     " "3 threads over inproc: " "3 processes over tcp: " "3 processes over tcp, one is killed: " \
  "passed collectives: " "passed algorithms: " "passed messages: " "passed windows: " \
  "passed stores: " "passed killed rank: rank 1 named rank 2 after "; do
  has "$report" "$part" || break
done
has "$report" "$part"
result "the report has all parts"
finish
