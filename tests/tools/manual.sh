#!/bin/sh
# gloo(1) has a section for every command, and in it every option that the command's help lists.
# usage: manual.sh GLOO PAGE
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

# Prints the commands, each followed by the subcommands in its usage.
commands() {
  "$gloo" --help | sed -n 's/^  \([a-z][a-z]*\)  *[a-z].*/\1/p' | while read -r command; do
    echo "$command"
    "$gloo" "$command" --help </dev/null | sed -n "s/^.*gloo $command \([a-z][a-z]*\) \[.*/$command \1/p"
  done
}

# Prints what is missing in PAGE.
missing() { # PAGE
  sed 's/\\-/-/g; s/\\f[BIR]//g' "$1" >"$scratch/page"
  commands | while read -r command; do
    awk -v heading=".SS gloo $command" '/^\.S[SH]/ { on = $0 == heading } on' "$scratch/page" >"$scratch/section"
    [ -s "$scratch/section" ] || echo "no section: gloo $command"
    # shellcheck disable=SC2086 # one or two words
    "$gloo" $command --help </dev/null | grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+' | sed 's/^ *//' |
      while read -r option; do
        grep -qE -e "^$option( |\$)" "$scratch/section" || echo "gloo $command: no option $option"
      done
  done
}

missing "$2" >"$scratch/missing"
[ ! -s "$scratch/missing" ]
result "gloo(1) has all commands and options" "$scratch/missing"
[ "$(commands | wc -l)" -ge 12 ] && grep -q '^.SS gloo bench start' "$2"
result "also the commands within bench"
! grep -q '@[A-Z]*@' "$2"
result "nothing is left of the template"

sed '/ranks/d' "$2" >"$scratch/planted"
missing "$scratch/planted" >"$scratch/missing"
has "$(cat "$scratch/missing")" "gloo plan: no option -n, --ranks"
result "a missing option is found"
sed '/^\.SS gloo top/d' "$2" >"$scratch/planted"
missing "$scratch/planted" >"$scratch/missing"
has "$(cat "$scratch/missing")" "no section: gloo top"
result "a missing command is found"
if command -v groff >/dev/null; then
  groff -man -ww -Tutf8 -z "$2" >"$scratch/said" 2>&1 && [ ! -s "$scratch/said" ]
  result "groff has nothing to say" "$scratch/said"
else
  skipped "groff has nothing to say" "it is not installed"
fi
finish
