#!/bin/sh
# shellcheck disable=SC1003,SC2015,SC2046,SC2317
# Jobs of two to four processes over TCP, under wine.
# usage: jobs.sh WINE GLOO RANK HELLO GROUPS CUSTOM_OP
wine=$1 gloo=$2 rank=$3 hello=$4 groups=$5 custom_op=$6
# shellcheck source=tests/wine/lib.sh
. "$(dirname "$0")/lib.sh"

for n in 2 3 4; do
  out=$(win "$gloo" run -n $n -- "$rank" check)
  equal "$? $(echo "$out" | wc -l) $(echo "$out" | sed 's/.*hash //' | sort -u | wc -l)" "0 $n 1"
  result "$n ranks get the same sums, and broadcasts"
done

out=$(win "$gloo" run -n 3 --min-ranks 2 -- "$rank" killed 1)
equal "$(echo "$out" | grep -c 'names rank 1: ')" 2
result "a rank that ends by TerminateProcess is named by the others"
for end in 0 3; do
  out=$(win "$gloo" run -n 4 --min-ranks 3 -- "$rank" killed $end)
  equal "$(echo "$out" | grep -c "names rank $end: ")" 3
  result "rank $end of 4, likewise"
done

# Ended from outside, in a collective.
"$wine" "$gloo" run -n 3 --min-ranks 2 -- "$rank" killed -1 > "$scratch/job" 2>&1 &
job=$!
three() {
  [ "$(grep -c ready "$scratch/job")" -eq 3 ]
}
wait_until three
kill_by=$(dirname "$rank")/wine_child.exe
win "$kill_by" kill "$(sed -n 's/^rank 2: ready, pid \([0-9]*\).*/\1/p' "$scratch/job")"
wait $job
equal "$(grep -c 'names rank 2: ' "$scratch/job")" 2
result "also one that another process ends" "$scratch/job"

# The server of the store is a program of its own.
"$wine" "$gloo" store --port 0 > "$scratch/store" 2>&1 &
server=$!
served() {
  grep -q tcp:// "$scratch/store"
}
wait_until served
store=$(tr -d '\r' < "$scratch/store" | sed -n 's/^GLOO_STORE=//p')
for r in 0 1; do
  GLOO_STORE=$store GLOO_JOB_ID=own GLOO_RANK=$r GLOO_SIZE=2 "$wine" "$rank" check > "$scratch/rank$r" 2>&1 &
done
wait_both() {
  grep -q hash "$scratch/rank0" && grep -q hash "$scratch/rank1"
}
wait_until wait_both
result "ranks meet at the server of gloo store" "$scratch/rank0"
kill -KILL $server
wait $server 2> /dev/null

out=$(win "$gloo" run -n 4 -- "$hello")
equal $? 0 && equal "$(echo "$out" | wc -l)" 4
result "examples/hello"
out=$(win "$gloo" run -n 4 -- "$groups")
equal $? 0 && [ -n "$out" ]
result "examples/groups"
out=$(win "$gloo" run -n 3 -- "$custom_op")
equal $? 0 && [ -n "$out" ]
result "examples/custom_op"

out=$(win "$gloo" run -n 2 -- gloo bench allreduce --sizes 4K --time 0.1)
equal $? 0 && has "$out" " 4096 " && has "$out" "  yes"
result "gloo bench measures and verifies"
out=$(win "$gloo" info)
equal $? 0 && has "$out" "tcp "
result "gloo info"
out=$(win "$gloo" run -n 2 -- gloo doctor 2> /dev/null)
has "$out" "2 ranks on 1 host met within " && has "$out" "findings  "
result "gloo doctor in a job"
finish
