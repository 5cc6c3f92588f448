#!/bin/sh
# The program that README.md shows is examples/hello.c.
# usage: readme.sh PROJECT
set -u
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
awk '/^```c$/ { on = 1; next } on && /^```$/ { exit } on' "$1/README.md" >"$work/shown"
echo 1..1
if [ -s "$work/shown" ] && diff "$work/shown" "$1/examples/hello.c" >"$work/diff"; then
  echo "ok 1 - README.md shows examples/hello.c"
else
  sed 's/^/# /' "$work/diff"
  echo "not ok 1 - README.md shows examples/hello.c"
fi
