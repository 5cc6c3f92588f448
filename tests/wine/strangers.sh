#!/bin/sh
# Jobs of two to four processes over TCP, under wine, and a program of Linux that sends to their ports what
# no rank sends. The jobs go on, and name no rank.
# usage: strangers.sh WINE GLOO RANK PYTHON
wine=$1 gloo=$2 rank=$3 python=$4
# shellcheck source=tests/wine/lib.sh
. "$(dirname "$0")/lib.sh"
intruder=$(dirname "$0")/intruder.py
export PYTHONDONTWRITEBYTECODE=1 GLOO_TRANSPORT=tcp

# beside RANKS PASSES WORD: runs a job whose store and ranks have known ports, until the intruder has ended.
beside() {
  n=$1
  rm -f "$scratch/end"
  port=$("$python" "$intruder" ports $((n + 1))) || return 1
  "$python" "$intruder" try "$scratch/end" "$2" "$port" $((n + 1)) > "$scratch/tried" 2>&1 &
  other=$!
  GLOO_PORT_RANGE=$((port + 1))-$((port + n)) win "$gloo" run -n "$n" --port "$port" -- "$rank" "$3" "$scratch/end" \
    > "$scratch/job" 2> "$scratch/said"
  status=$?
  wait $other
  left=$?
  cat "$scratch/said" "$scratch/tried" >> "$scratch/job"
  [ $status -eq 0 ] && [ $left -eq 0 ]
}

# tried KIND LEAST: the intruder did that as often.
tried() {
  times=$(sed -n "s/^tried $1: //p" "$scratch/tried")
  [ "${times:-0}" -ge "$2" ] || equal "$1: ${times:-0}" "at least $2"
}

named=' names rank \|rank [0-9] fails\|GLOO_ERR\|ERROR'

# Long contexts: connections are made once, and all listeners stay.
beside 4 3 steady
equal "$? $(grep -c '^rank [0-3] of 4: hash ' "$scratch/job")" "0 4" && ! grep -q "$named" "$scratch/job"
result "four ranks go on beside a stranger" "$scratch/job"
tried garbage 80 && tried "hellos that end early" 20 && tried "halves, then silence" 30 && tried "announced lengths" 10 &&
  tried "hellos of another job to a rank" 40 && tried "hellos of another job to the store" 10 && tried "silent connections" 2000
result "it reached their ports, and was refused" "$scratch/tried"

# Each round has new contexts, so that ranks connect while the stranger does. The store stays.
for n in 2 3; do
  beside $n 2 again
  equal "$? $(grep -c ': well, in [0-9]* rounds' "$scratch/job")" "0 $n" && ! grep -q "$named" "$scratch/job"
  result "$n ranks meet again and again beside a stranger" "$scratch/job"
  tried garbage 16 && tried "hellos of another job to the store" 2 && tried "silent connections" 500
  result "it reached the ports of these, too" "$scratch/tried"
done
finish
