#!/bin/sh
# No more than four files of the engine call each other in a circle, and a circle
# of five is seen.
# usage: call_cycles.sh PROJECT ARCHIVE
set -u
project=$1 archive=$2
most=4
law=$project/tests/law/call_cycles.awk
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

if ! command -v nm >/dev/null; then
  echo "1..0 # SKIP nm (package binutils) is not installed"
  exit 0
fi

result() { # status, number, name
  [ "$1" -eq 0 ] || printf 'not '
  echo "ok $2 - $3"
}

# A ring of so many files, each of which calls the next.
ring() {
  i=0
  while [ $i -lt "$1" ]; do
    printf '\nring_%d.c.o:\n0000 T at_%d\n U at_%d\n U elsewhere\n' $i $i $(((i + 1) % $1))
    i=$((i + 1))
  done
}

echo 1..3
nm "$archive" >"$work/symbols"
awk -v most=$most -f "$law" "$work/symbols" >"$work/found"
status=$?
sed 's/^/# /' "$work/found"
result $status 1 "the engine's largest circle has at most $most files"

ring $((most + 1)) | awk -v most=$most -f "$law" >"$work/found"
[ $? -eq 1 ] && grep -q "^$((most + 1)): ring_0.c ring_1.c" "$work/found"
result $? 2 "a circle of $((most + 1)) is found"

{ ring $most && ring $most | sed 's/at_/of_/g'; } | awk -v most=$most -f "$law" >"$work/found" &&
  grep -q "^$most:" "$work/found"
result $? 3 "two circles of $most are not taken for one"
