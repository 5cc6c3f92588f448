#!/usr/bin/env bash
# Runs test programs in one virtual machine (vm.sh), one after the other, and prints
# their results as one TAP stream.
# usage: run_tests.sh [--limit S] [option of vm.sh run...] BUILD_DIR LIST_FILE
#
# A line of the list is "NAME: COMMAND", or "NAME@S: COMMAND" for a command with a
# limit of S seconds instead of that of --limit (120); others are empty, or begin with
# "#". sh runs COMMAND in BUILD_DIR. Its cases are printed as "NAME: CASE"; a command
# that prints none is one case, by its status (77: skipped). If the machine fails, the
# current command and all later ones fail.
set -u
here=$(cd "$(dirname "$0")" && pwd)
mark='@@ run_tests.sh:'

# In the machine: name, seconds and command in turn. Output is printed between marks,
# and stderr after the name.
if [ "${1:-}" = inside ]; then
  shift
  while [ $# -gt 0 ]; do
    printf '\n%s begin\n' "$mark"
    echo "# $1" >&2
    timeout -k 5 "$2" sh -c "$3" </dev/null
    printf '\n%s end %s\n' "$mark" $?
    shift 3
  done
  exit 0
fi

die() { # text
  echo "Bail out! $0: $1"
  exit 99
}

limit=120 options=()
while [[ ${1:-} = --* ]] && [ $# -gt 2 ]; do
  if [ "$1" = --limit ]; then limit=$2; else options+=("$1" "$2"); fi
  shift 2
done
[ $# -eq 2 ] || die "it takes a build directory and a list"
names=() commands=() seconds=0
while IFS= read -r line; do
  case $line in '' | '#'*) continue ;; esac
  [[ $line =~ ^([^:@]+)(@([0-9]+))?:\ *(.+)$ ]] || die "$2: what is '$line'?"
  names+=("${BASH_REMATCH[1]}")
  commands+=("${BASH_REMATCH[1]}" "${BASH_REMATCH[3]:-$limit}" "${BASH_REMATCH[4]}")
  seconds=$((seconds + ${BASH_REMATCH[3]:-$limit}))
done <"$2"
[ ${#names[@]} -gt 0 ] || die "$2 has no commands"
cd "$1" || die "there is no $1"

said=$(bash "$here/kernel.sh" 2>&1)
case $? in
  0) ;;
  77)
    echo "1..0 # SKIP ${said##*$'\n'}"
    exit 0
    ;;
  *) die "$said" ;;
esac

# ---- TAP -------------------------------------------------------------------------

number=0 failed=0 # cases of all commands
current=-1 running='' # the command
cases=0 failures=0 plan='' why='' # of it

passes() { # text
  number=$((number + 1))
  echo "ok $number - $1"
}

fails() { # text
  number=$((number + 1)) failed=$((failed + 1))
  echo "not ok $number - $1"
}

# The text after the number of a case. cmocka prints "not ok 7 # SKIP name".
read_case() { # "ok" or "not ok", text
  local name=${names[current]} what
  cases=$((cases + 1))
  if [[ $2 =~ ^(.*)#\ *[Ss][Kk][Ii][Pp][^\ ]*\ *(.*)$ ]]; then
    what=${BASH_REMATCH[1]% }
    if [ -n "$what" ]; then
      passes "$name: $what # SKIP ${BASH_REMATCH[2]}"
    else
      passes "$name: ${BASH_REMATCH[2]} # SKIP"
    fi
  elif [ "$1" = ok ]; then
    passes "$name: $2"
  else
    failures=$((failures + 1))
    fails "$name: $2"
  fi
}

end_command() { # status
  local name=${names[current]}
  running=''
  case $1 in
    0)
      if [ "$plan" = 0 ]; then
        passes "$name # SKIP $why"
      elif [ -n "$plan" ] && [ "$plan" -ne "$cases" ]; then
        fails "$name: of $plan cases there were $cases"
      elif [ "$cases" -eq 0 ]; then
        passes "$name"
      fi
      ;;
    124) fails "$name: it has not ended after ${commands[3 * current + 1]} s" ;;
    *)
      if [ "$1" -eq 77 ] && [ "$cases" -eq 0 ]; then
        passes "$name # SKIP"
      elif [ "$failures" -eq 0 ]; then
        fails "$name: its status is $1"
      fi
      ;;
  esac
}

export CMOCKA_MESSAGE_OUTPUT=TAP
while IFS= read -r line; do
  if [ "$line" = "$mark begin" ]; then
    current=$((current + 1)) running=yes cases=0 failures=0 plan='' why=''
  elif [[ $line =~ ^"$mark end "([0-9]+)$ ]]; then
    end_command "${BASH_REMATCH[1]}"
  elif [[ $line =~ ^(not )?ok(\ +[0-9]+)?(\ +-\ *|\ +|$)(.*)$ ]]; then
    read_case "${BASH_REMATCH[1]}ok" "${BASH_REMATCH[4]}"
  elif [[ $line =~ ^1\.\.([0-9]+)\ *(#\ *SKIP[^\ ]*\ *(.*))?$ ]]; then
    plan=${BASH_REMATCH[1]} why=${BASH_REMATCH[3]}
  elif [ -n "$line" ]; then
    echo "# ${line#\# }"
  fi
done < <(bash "$here/vm.sh" run --timeout $((seconds + 120)) ${options[@]+"${options[@]}"} \
  -- bash "$here/run_tests.sh" inside "${commands[@]}")
wait $!
status=$?
[ -z "$running" ] || fails "${names[current]}: the machine has failed"
for name in "${names[@]:current+1}"; do fails "$name: not run, for the machine has failed"; done
[ $status -eq 0 ] || [ $failed -gt 0 ] || fails "the machine: its status is $status"
echo "1..$number"
[ $failed -eq 0 ]
