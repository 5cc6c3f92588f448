#!/bin/sh
# No more than four files of the engine call each other in a circle, and a circle
# of five is seen.
# usage: call_cycles.sh PROJECT ARCHIVE
set -u
project=$1 archive=$2
most=4
law=$project/tests/law/call_cycles.awk
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

if ! command -v nm >/dev/null; then
  echo "1..0 # SKIP nm (package binutils) is not installed"
  exit 0
fi

# A ring of so many files, each of which calls the next.
ring() {
  i=0
  while [ $i -lt "$1" ]; do
    printf '\nring_%d.c.o:\n0000 T at_%d\n U at_%d\n U elsewhere\n' $i $i $(((i + 1) % $1))
    i=$((i + 1))
  done
}

nm "$archive" >"$scratch/symbols"
awk -v most=$most -f "$law" "$scratch/symbols" >"$scratch/found"
status=$?
sed 's/^/# /' "$scratch/found"
[ $status -eq 0 ]
result "the engine's largest circle has at most $most files"

ring $((most + 1)) | awk -v most=$most -f "$law" >"$scratch/found"
[ $? -eq 1 ] && grep -q "^$((most + 1)): ring_0.c ring_1.c" "$scratch/found"
result "a circle of $((most + 1)) is found"

{ ring $most && ring $most | sed 's/at_/of_/g'; } | awk -v most=$most -f "$law" >"$scratch/found" &&
  grep -q "^$most:" "$scratch/found"
result "two circles of $most are not taken for one"
finish
