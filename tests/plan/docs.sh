#!/bin/sh
# docs/internals/algorithms.md must be what `gloo plan --docs` prints.
gloo=$1 root=$2
echo 1..1
if "$gloo" plan --docs | diff "$root/docs/internals/algorithms.md" - >&2; then
  echo "ok 1 - docs/internals/algorithms.md is what the plans say"
else
  echo "not ok 1 - docs/internals/algorithms.md is not what 'gloo plan --docs' prints"
  exit 1
fi
