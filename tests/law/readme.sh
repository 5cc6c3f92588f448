#!/bin/sh
# The program in README.md is examples/hello.c, which compiles with the public headers and runs;
# and the commands that it names exist.
# usage: readme.sh PROJECT LIBRARY GLOO C_COMPILER
set -u
project=$1 library=$2 gloo=$3 c=$4
readme=$project/README.md
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

awk '/^```c$/ { on = 1; next } on && /^```$/ { exit } on' "$readme" >"$scratch/shown.c"
[ -s "$scratch/shown.c" ] && diff "$scratch/shown.c" "$project/examples/hello.c" >"$scratch/said"
result "README.md shows examples/hello.c" "$scratch/said"

# shellcheck disable=SC2086 # the compiler may have arguments
$c -std=c11 -Wall -Wextra -Werror -I"$project/include" "$scratch/shown.c" "$library" \
  -Wl,-rpath,"$(dirname "$library")" -o "$scratch/shown" >"$scratch/said" 2>&1
result "its program compiles without warnings" "$scratch/said"

env -u RANK -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT "$scratch/shown" >"$scratch/said" 2>&1 &&
  [ "$(cat "$scratch/said")" = "rank 0 of 1: 1 + ... + 1 = 1" ]
result "and runs as a job of one rank" "$scratch/said"

"$gloo" run -n 3 -- "$scratch/shown" >"$scratch/said" 2>&1 &&
  [ "$(grep -c 'of 3: 1 + ... + 3 = 6$' "$scratch/said")" -eq 3 ]
result "and as three, by gloo run" "$scratch/said"

# In code, at the begin of a line or after another word.
named() { # pattern
  grep -oE "(^    |\`)($1)" "$readme" | tr -d ' `' | sort -u
}

named '(scripts|\.ci)/[a-z-]+' >"$scratch/scripts"
: >"$scratch/said"
[ "$(wc -l <"$scratch/scripts")" -ge 3 ] || echo "there are few" >"$scratch/said"
while read -r script; do
  if [ ! -x "$project/$script" ]; then
    echo "$script is not there, or is no program" >>"$scratch/said"
  elif command -v bash >/dev/null; then
    bash "$project/$script" --help >"$scratch/help" 2>&1 </dev/null &&
      grep -q '^usage: ' "$scratch/help" || echo "$script --help says no usage" >>"$scratch/said"
  fi
done <"$scratch/scripts"
[ ! -s "$scratch/said" ]
result "the scripts that it names are there, and explain themselves" "$scratch/said"

named 'gloo [a-z]+' | sed 's/^gloo//' >"$scratch/commands"
: >"$scratch/said"
[ "$(wc -l <"$scratch/commands")" -ge 5 ] || echo "there are few" >"$scratch/said"
while read -r command; do
  "$gloo" "$command" --help >"$scratch/help" 2>&1 </dev/null ||
    echo "gloo $command --help fails" >>"$scratch/said"
done <"$scratch/commands"
[ ! -s "$scratch/said" ]
result "the commands that it names are there" "$scratch/said"

# The commands as root, in which a line that ends in a backslash continues.
installed() { # PAGE
  sed -n '/^    .*apt-get install/,/[^\\]$/p' "$1" | sed 's/.*apt-get install//' | tr -d '\134' | tr -s ' \n' '\n' |
    sed '/^$/d' | LC_ALL=C sort
}

bash -c '. "$1" && echo gcc libc6-dev ${build_packages[*]}' - "$project/scripts/lib.sh" | tr ' ' '\n' |
  LC_ALL=C sort >"$scratch/wanted"
[ "$(wc -l <"$scratch/wanted")" -ge 9 ] || echo "there are few" >>"$scratch/wanted"
for page in "$readme" "$project/docs/guide/start.md"; do
  installed "$page" | diff "$scratch/wanted" - >"$scratch/said"
  result "${page##*/} installs what scripts install for a build" "$scratch/said"
done
[ "$(wc -l <"$readme")" -le 100 ]
result "it is short" "$scratch/said"
finish
