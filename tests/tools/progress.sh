#!/bin/sh
# A long command says on the terminal how far it is; a short one, or one without a terminal, is silent.
# usage: progress.sh GLOO
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

if ! script -qec true /dev/null > "$scratch/said" 2>&1; then
  skipped "progress" "there is no 'script' to make a terminal: $(cat "$scratch/said")"
  finish
fi

# says TEXT COMMAND: is a line with TEXT, a regular expression, written to the terminal?
escape=$(printf '\033')
says() {
  text=$1
  shift
  script -qec "$*" /dev/null < /dev/null 2>&1 | tr '\r' '\n' > "$scratch/said"
  grep -qE "^$text${escape}\[K" "$scratch/said"
  result "$text" "$scratch/said"
}

# The last thing said is removed from the terminal.
removed() {
  grep -F "${escape}[K" "$scratch/said" | tail -n 1 | grep -q "^${escape}\[K"
  result "and removed" "$scratch/said"
}

says "gloo bench: allreduce (4|4K|64K) ring, [0-2] of 3 done, [0-9]+ s" "$gloo" bench allreduce --ranks 2 --threads --sizes 4,4K,64K --algorithm ring --time 1.5
removed
says "gloo bench limits: [a-z_ ]+, [0-9]+ of [0-9]+ done, [0-9]+ s" timeout 8 "$gloo" bench limits --time 0.7
says "gloo bench start: [0-9]+ of 1000 done, [0-9]+ s" timeout 8 "$gloo" bench start -n 3 --repeat 1000
says "gloo plan: checking up to 64 ranks, [0-9]+ of [0-9]+ done, [0-9]+ s" timeout 8 "$gloo" plan --check-all
says "gloo tune: [a-z]+ [0-9]+K?, [0-9]+ of [0-9]+ done, [0-9]+ s" "$gloo" run -n 2 -- gloo tune --time 3 --max 1K --output "$scratch/tuning"
removed
says "gloo doctor: waiting for 2 ranks, [0-9]+ s" env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$gloo" doctor --timeout 4
removed

script -qec "$gloo bench allreduce --ranks 2 --threads --sizes 4 --iterations 2" /dev/null < /dev/null > "$scratch/said" 2>&1
! grep -q "done" "$scratch/said"
result "a short command says nothing" "$scratch/said"
"$gloo" bench allreduce --ranks 2 --threads --sizes 4,4K,64K --time 1.2 > /dev/null 2> "$scratch/said" && [ ! -s "$scratch/said" ]
result "without a terminal nothing is said" "$scratch/said"
finish
