#!/bin/sh
# gloo trace: its reports on healthy jobs and others, and on invalid files.
# usage: trace.sh GLOO JSON_CHECK TRACE_RANK
gloo=$1 json=$2 rank=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

export GLOO_LOG_LEVEL=warn
# job DIRECTORY WORDS...: its ranks write their files there.
job() {
  mkdir "$scratch/$1"
  GLOO_TRACE_DIR=$scratch/$1 "$gloo" run -n 3 -- "$rank" "$2" "$3" > "$scratch/said" 2>&1
}

# ---- jobs ----

job late late 2
has "$(cat "$scratch/said")" "wrote a trace of its last operations to $scratch/late/gloo-trace-rank" &&
  has "$(cat "$scratch/said")" "(read it with 'gloo trace $scratch/late/gloo-trace-rank"
result "the log names the file and the command that reads it"
out=$("$gloo" trace "$scratch"/late/*)
equal $? 1 && has "$out" "3 of 3 ranks" && has "$out" "rank 2 is behind: ranks 0 and 1 wait in allreduce #6 (1 x int32, sum)" &&
  has "$out" "its last one there is barrier #5" && has "$out" "error on rank "
result "a rank that is late is named, and its last call"

rm "$scratch"/late/*rank2*
out=$("$gloo" trace "$scratch"/late/*)
equal $? 1 && has "$out" "2 of 3 ranks" && has "$out" "no file from rank 2" &&
  case $out in # depending on the algorithm, rank 1 waits for rank 2 or for rank 0
    *"rank 2 has no file, and ranks 0 and 1 wait for it in allreduce #6"*) ;;
    *) has "$out" "rank 2 has no file, and rank 0 waits for it in allreduce #6" ;;
  esac
result "so is one that has no file"

job other other 1
out=$("$gloo" trace "$scratch"/other/*)
equal $? 1 && has "$out" "rank 1 called barrier #6" && has "$out" "called allreduce #6 (1 x int32, sum)"
result "a rank that called something else is named"

job message message 0
out=$("$gloo" trace "$scratch"/message/*)
equal $? 1 && has "$out" "rank 0 waits for rank 1 in receive #0 (1 x int32), tag 9, which has not sent it"
result "a message that was not sent is named"

job well well 0
out=$("$gloo" trace --timeline "$scratch/timeline" "$scratch"/well/*)
equal $? 1 && has "$out" "error on rank " && has "$out" "gave up: done" && has "$out" "started last in" &&
  case $out in *behind*) false ;; esac
result "where no rank is behind, none is said to be"

# ---- the timeline ----

# in_one_line FILE
in_one_line() {
  printf '%s\n' "$(tr '\n' ' ' < "$1" | sed 's/ $//')"
}
lines=$(in_one_line "$scratch/timeline" | "$json" displayTimeUnit traceEvents)
equal "$lines" 1 && has "$(cat "$scratch/timeline")" '"name": "allreduce #6 (1 x int32, sum)", "cat": "collective", "pid": 2' &&
  equal "$(grep -c '"process_name"' "$scratch/timeline")" 3
result "a timeline has events of all ranks" "$scratch/timeline"

lines=$(in_one_line "$scratch"/other/*rank1* | "$json" gloo_trace library reason job rank size host process transport wall_ns \
  monotonic_ns ended error groups routes operations)
equal "$lines" 1
result "a rank's file is one JSON object"

cp "$scratch/timeline" "$scratch/before"
out=$("$gloo" trace --timeline "$scratch/timeline" "$scratch"/well/* 2>&1)
equal $? 2 && has "$out" "exists" && cmp -s "$scratch/before" "$scratch/timeline"
result "a timeline takes the place of no file"

# ---- files ----

# refused TEXT PART [WHAT]: is a file with this text refused, with these words?
refused() {
  printf '%s' "$1" > "$scratch/file"
  out=$("$gloo" trace "$scratch/file" 2>&1)
  equal $? 2 && has "$out" "$2"
  result "refused: ${3:-$2}"
}
head='{"gloo_trace": 1, "rank": 0, "size": 2, "wall_ns": 5, "monotonic_ns": 5'
refused '' "line 1, column 0: '[' or '{' expected near end of file" "nothing"
refused 'hello' "line 1, column 5: '[' or '{' expected near 'hello'"
refused '{}' "not a trace"
refused '[1, 2]' "not a trace" "a list"
refused '{"gloo_trace": 2}' "newer than this command"
refused "$head" "'}' expected near end of file"
refused "$head}" '"operations" is missing'
refused "$head, \"operations\": []} x" "end of file expected near 'x'"
refused "$head, \"operations\": [{}]}" 'without a "call"'
refused "$head, \"operations\": [{\"call\": \"barrier\"}]}" 'without a "state"'
refused "$head, \"operations\": [{\"call\": \"barrier\", \"state\": \"started\"}]}" "without a time"
refused "$head, \"operations\": [{\"call\": \"send\", \"peer\": 2, \"state\": \"started\", \"started_ns\": 1}]}" "rank that does not exist"
refused "$head, \"operations\": [{\"call\": \"send\", \"waits_for\": [-1], \"state\": \"started\", \"started_ns\": 1}]}" \
  "rank that does not exist" "waiting for a rank below 0"
refused '{"gloo_trace": 1, "rank": 2, "size": 2}' '"rank" or "size"'
refused '{"gloo_trace": 1, "rank": 0, "size": 70000}' '"rank" or "size"' "too many ranks"
refused '{"gloo_trace": 1, "rank": 0, "size": 1, "wall_ns": 9223372036854775807, "monotonic_ns": 0}' '"wall_ns"'
refused "$(printf '%4000s' '' | tr ' ' '[')" "maximum parsing depth reached"
refused "$head, \"rank\": 1, \"operations\": []}" "duplicate object key"
refused "$head, \"host\": \"$(printf '\377')\", \"operations\": []}" "unable to decode byte 0xff"
out=$("$gloo" trace "$scratch/none" 2>&1)
equal $? 2 && has "$out" "No such file"
result "refused: a file that is not there"
out=$("$gloo" trace 2>&1)
equal $? 2 && has "$out" "no files"
result "refused: no files"

# Every prefix of a real file.
whole=$(echo "$scratch"/other/*rank0*) bad=0
size=$(wc -c < "$whole")
for cut in 1 2 50 100 500 $((size / 2)) $((size - 3)) $((size - 2)); do
  head -c "$cut" "$whole" > "$scratch/file"
  "$gloo" trace "$scratch/file" > "$scratch/said" 2>&1
  [ $? -eq 2 ] || bad=$((bad + 1))
done
equal $bad 0
result "a file that is cut off is refused, wherever that is" "$scratch/said"

printf '{"gloo_trace": 1, "rank": 0, "size": 2, "wall_ns": 5, "monotonic_ns": 5, "operations": []}' > "$scratch/two"
out=$("$gloo" trace "$whole" "$scratch/two" 2>&1)
equal $? 2 && has "$out" "is of a job of 2 ranks"
result "refused: files of two jobs"

sed 's/"wall_ns": 1/"wall_ns": 2/' "$whole" > "$scratch/newer"
out=$("$gloo" trace "$whole" "$scratch/newer")
has "$out" "which is older than $scratch/newer" && has "$out" "1 of 3 ranks"
result "of two files of a rank the newer counts"

printf '{"gloo_trace": 1, "rank": 0, "size": 1, "wall_ns": 5, "monotonic_ns": 5, "operations": [],
"error": {"message": "\\u001b[2Jboo\\u0007\\u009b"}}' > "$scratch/file"
out=$("$gloo" trace "$scratch/file")
equal $? 1 && has "$out" "error on rank 0:  [2Jboo   "
result "what a file has for the terminal is not obeyed"

finish
