#!/bin/sh
# What README.md shows: its program is examples/hello.c, which compiles with the
# public headers and runs; and the commands that it names are there.
# usage: readme.sh PROJECT LIBRARY GLOO C_COMPILER
set -u
project=$1 library=$2 gloo=$3 c=$4
readme=$project/README.md
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
number=0

report() { # name, status; what was said is in $work/said
  number=$((number + 1))
  if [ "$2" -eq 0 ]; then
    echo "ok $number - $1"
  else
    sed 's/^/# /' "$work/said"
    echo "not ok $number - $1"
  fi
}

awk '/^```c$/ { on = 1; next } on && /^```$/ { exit } on' "$readme" >"$work/shown.c"
[ -s "$work/shown.c" ] && diff "$work/shown.c" "$project/examples/hello.c" >"$work/said"
report "README.md shows examples/hello.c" $?

# shellcheck disable=SC2086 # the compiler may have arguments
$c -std=c11 -Wall -Wextra -Werror -I"$project/include" "$work/shown.c" "$library" \
  -Wl,-rpath,"$(dirname "$library")" -o "$work/shown" >"$work/said" 2>&1
report "its program compiles without warnings" $?

env -u RANK -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT "$work/shown" >"$work/said" 2>&1 &&
  [ "$(cat "$work/said")" = "rank 0 of 1: 1 + ... + 1 = 1" ]
report "and runs as a job of one rank" $?

"$gloo" run -n 3 -- "$work/shown" >"$work/said" 2>&1 &&
  [ "$(grep -c 'of 3: 1 + ... + 3 = 6$' "$work/said")" -eq 3 ]
report "and as three, by gloo run" $?

# In code, at the begin of a line or after another word.
named() { # pattern
  grep -oE "(^    |\`)($1)" "$readme" | tr -d ' `' | sort -u
}

named '(scripts|\.ci)/[a-z-]+' >"$work/scripts"
: >"$work/said"
[ "$(wc -l <"$work/scripts")" -ge 3 ] || echo "there are few" >"$work/said"
while read -r script; do
  if [ ! -x "$project/$script" ]; then
    echo "$script is not there, or is no program" >>"$work/said"
  elif command -v bash >/dev/null; then
    bash "$project/$script" --help >"$work/help" 2>&1 </dev/null &&
      grep -q '^usage: ' "$work/help" || echo "$script --help says no usage" >>"$work/said"
  fi
done <"$work/scripts"
[ ! -s "$work/said" ]
report "the scripts that it names are there, and explain themselves" $?

named 'gloo [a-z]+' | sed 's/^gloo//' >"$work/commands"
: >"$work/said"
[ "$(wc -l <"$work/commands")" -ge 5 ] || echo "there are few" >"$work/said"
while read -r command; do
  "$gloo" "$command" --help >"$work/help" 2>&1 </dev/null ||
    echo "gloo $command --help fails" >>"$work/said"
done <"$work/commands"
[ ! -s "$work/said" ]
report "the commands that it names are there" $?

packages=$(sed -n 's/^    apt-get install //p' "$readme")
: >"$work/said"
for package in gcc libc6-dev meson ninja-build pkg-config libuv1-dev libcmocka-dev; do
  case " $packages " in
    *" $package "*) ;;
    *) echo "$package is not named" >>"$work/said" ;;
  esac
  grep -qw -e "$package" "$project/scripts/lib.sh" || [ "$package" = gcc ] ||
    echo "$package is not what scripts/lib.sh installs" >>"$work/said"
done
[ ! -s "$work/said" ]
report "it names the packages that scripts install" $?
[ "$(wc -l <"$readme")" -le 100 ]
report "it is short" $?
echo "1..$number"
