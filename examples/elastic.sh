#!/usr/bin/env bash
# Show elastic.c: four ranks train, one of them is killed, and a new one joins.
# usage: elastic.sh GLOO ELASTIC
set -u
gloo=$1 elastic=$2
scratch=$(mktemp -d)
processes=()
trap 'kill "${processes[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT

wait_for() { # text, file: until it is there, for a minute at most
  local i
  for ((i = 0; i < 600; i++)); do
    grep -q "$1" "$2" && return
    sleep 0.1
  done
  echo "elastic: '$1' did not come" >&2
  exit 1
}

# Those of one job, and nobody else, may come in.
GLOO_JOB_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export GLOO_JOB_SECRET
"$gloo" store --port 0 >"$scratch/store" 2>&1 &
processes+=($!)
wait_for 'tcp://' "$scratch/store"
GLOO_STORE=$(grep -o 'tcp://[^ ]*' "$scratch/store" | head -n 1)
export GLOO_STORE

: >"$scratch/job"
"$gloo" run -n 4 --min-ranks 1 -- "$elastic" >>"$scratch/job" 2>&1 &
job=$!
processes+=("$job")
tail -n +1 -f "$scratch/job" &
processes+=($!)

wait_for 'epoch  5' "$scratch/job"
victim=$(sed -n 's/^process \([0-9]*\) is rank 2 of 4.*/\1/p' "$scratch/job" | tail -n 1)
echo "== killing process $victim, which is rank 2"
kill -9 "$victim"
wait_for ', 3 ranks: loss' "$scratch/job"
echo "== starting a new one"
GLOO_JOIN=1 "$elastic" >>"$scratch/job" 2>&1 &
new=$!
processes+=("$new")
wait "$job"
status=$?
wait "$new" || status=1
sleep 0.5 # for tail
grep -q 'epoch 25, 4 ranks' "$scratch/job" || status=1
exit "$status"
