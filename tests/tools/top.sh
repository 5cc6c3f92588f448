#!/bin/sh
# gloo top: the ranks of a running job, and directories without one.
# usage: top.sh GLOO TRACE_RANK
gloo=$1 rank=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

mkdir "$scratch/s"
out=$("$gloo" top "$scratch/s" 2>&1)
equal $? 1 && has "$out" "no rank answers"
result "a directory without ranks"
out=$("$gloo" top "$scratch/none" 2>&1)
equal $? 2 && has "$out" "No such file"
result "a directory that is not there"
out=$("$gloo" top --pid 1 "$scratch/s" 2>&1)
equal $? 2 && has "$out" "only one of DIRECTORY, --pid and --job"
result "a directory and a process"

GLOO_METRICS=$scratch/s "$gloo" run -n 3 -- "$rank" busy 1 > "$scratch/said" 2>&1 &
job=$!
# shellcheck disable=SC2317 # called by wait_until
there() {
  [ "$(find "$scratch/s" -name '*.sock' | wc -l)" -eq 3 ]
}
wait_until there
out=$("$gloo" top --once --interval 1 "$scratch/s")
equal $? 0 && has "$out" "waited most for" && has "$out" "rank 1, " && equal "$(echo "$out" | wc -l)" 5
result "a line for each rank, and who is waited for" "$scratch/said"
kill $job
wait $job
# The files of a killed rank do not count as a rank.
out=$("$gloo" top "$scratch/s" 2>&1)
equal $? 1 && has "$out" "no rank answers"
result "sockets that nobody serves"
finish
