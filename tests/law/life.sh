#!/bin/sh
# Every function that docs/internals/life-of-an-allreduce.md names exists.
# usage: life.sh PROJECT
set -u
project=$1
page=$project/docs/internals/life-of-an-allreduce.md
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

# Functions defined, or declared inline, below src. An entry of the table of
# collectives defines three.
{
  find "$project/src" -name '*.[ch]' -exec grep -ohE '[A-Za-z_][A-Za-z_0-9]*\(' {} + | tr -d '('
  awk -F '[(,]' '/^FORMS\(/ { print $2; print $2 "_start"; print $2 "_init" }' \
    "$project/src/api/collectives.c"
} | LC_ALL=C sort -u >"$work/functions"

# Names in `this`, except files and fields.
names() {
  # shellcheck disable=SC2016 # these are backticks of the page
  grep -oE '`[a-z_][A-Za-z_0-9]*`' "$1" | tr -d '`' | LC_ALL=C sort -u
}

# Types, plans and other names on the page.
others='fused gli_arguments'

missing() { # page
  names "$1" | while read -r name; do
    case " $others " in *" $name "*) continue ;; esac
    grep -qx "$name" "$work/functions" || echo "$name"
  done
}

echo 1..3
missing "$page" >"$work/missing"
if [ -s "$work/missing" ]; then
  sed 's/^/# there is no /' "$work/missing"
  printf 'not '
fi
echo "ok 1 - what the life of an allreduce names is there"

[ "$(names "$page" | wc -l)" -ge 60 ] || printf 'not '
echo "ok 2 - it names many"

# shellcheck disable=SC2016
{ cat "$page" && echo '`gli_planted_function`'; } >"$work/planted"
missing "$work/planted" | grep -qx gli_planted_function || printf 'not '
echo "ok 3 - one that is not there is found"
