#!/bin/sh
# gloo doctor --selftest: its report, and what it finds.
# usage: selftest.sh GLOO WRONG_GLOO JSON_CHECK
# The second program goes wrong as the variable WRONG says.
gloo=$1 wrong=$2 json=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
unset GLOO_TRANSPORT GLOO_STORE GLOO_SECURITY RANK WORLD_SIZE

# secrets COMMAND...: runs it with variables whose values must not appear.
secrets() {
  env GLOO_JOB_SECRET=0123456789abcdef0123456789abcdef GLOO_JOB_ID=job-5e1f7e57 \
    GLOO_TRANSPORT=nonsense MY_PASSWORD=hunter-5e1f7e57 "$@"
}

# shows_none FILE: is none of them there? Prints those lines otherwise.
shows_none() {
  ! grep -E '0123456789abcdef|5e1f7e57|nonsense' "$1"
}

# ---- a build that is well ----------------------------------------------------

secrets "$gloo" doctor --selftest --report "$scratch/file" > "$scratch/report"
status=$?
report=$(cat "$scratch/report")
equal $status 0 && has "$report" "
result: " && ! grep -q failed "$scratch/report" && grep -qE '^result: [1-9][0-9]* checks passed in [0-9]+ s$' "$scratch/report"
result "every check passes" "$scratch/report"
for part in "gloo_c     " "system     " "processor  " "compiler   " "build      " "transports " \
  "3 threads over inproc: " "3 processes over tcp: " "3 processes over tcp, one is killed: " \
  "passed collectives: " "passed algorithms: " "passed messages: " "passed windows: " \
  "passed stores: memory, files and TCP" "passed killed rank: rank 1 named rank 2 after " \
  "info   times: allreduce of float32: 4B "; do
  has "$report" "$part" || break
done
has "$report" "$part"
result "the report has all parts"

# A transport that works here is tested, and with a killed rank.
transports=$("$gloo" info | sed -n '/^transports/,/^[^ ]/s/^  \([a-z]*\)  *yes.*/\1/p' | grep -v inproc)
for transport in $transports; do
  if ! has "$report" "3 processes over $transport: " || ! has "$report" "3 processes over $transport, one is killed: "; then break; fi
done
has "$report" "3 processes over $transport, one is killed: "
result "over each transport that works here"

shows_none "$scratch/report" && has "$report" "variables  left out: GLOO_"
result "no value of a variable is shown, and the names of those that the jobs lack"
sed 's/ [0-9.]* s$//' "$scratch/report" > "$scratch/a" && sed 's/ [0-9.]* s$//' "$scratch/file" > "$scratch/b" &&
  cmp "$scratch/a" "$scratch/b"
result "--report writes the same to a file" "$scratch/file"

out=$("$gloo" run -n 2 -- "$gloo" doctor --selftest)
equal $? 0 && has "$out" "passed collectives: " && has "$out" "passed stores: files and TCP" && ! has "$out" failed > /dev/null
result "in a job it tests the ranks of the job"

# ---- builds that are not -----------------------------------------------------

WRONG=data secrets "$wrong" doctor --selftest --json --report "$scratch/file" > "$scratch/report"
status=$?
report=$(cat "$scratch/report")
equal $status 1 && has "$report" '{"state": "failed", "what": "collectives", "text": "rank 1: wrong result of scan, int8 ' &&
  has "$report" ' bytes: element 0 of the output is ' && has "$report" '{"state": "passed", "what": "messages"' &&
  "$json" gloo_selftest version system processor compiler build transports variables_left_out jobs checks_passed \
    checks_failed seconds < "$scratch/report" > /dev/null
result "a wrong result is found, and told in JSON" "$scratch/report"
has "$report" '{"state": "failed", "what": "windows", "text": "rank 0: a get differs from the put before it"}' &&
  has "$report" '{"state": "failed", "what": "windows", "text": "rank 1: the put of another rank is missing"}'
result "a shortened put is found" "$scratch/report"
# Which rank: the one that serves the TCP store may end before the others have looked.
for kind in "store in memory" "TCP store"; do
  has "$report" ", $kind: an addition was lost\"}" || break
done
has "$report" ", $kind: an addition was lost\"}"
result "a lost addition to a store is found" "$scratch/report"
shows_none "$scratch/report" && shows_none "$scratch/file" && [ -s "$scratch/file" ]
result "without values of variables"

WRONG='kill' "$wrong" doctor --selftest > "$scratch/report"
status=$?
report=$(cat "$scratch/report")
equal $status 1 && has "$report" "failed end: the job ended with status 137" &&
  has "$report" "failed collectives: rank 0: " && has "$report" "rank 1" &&
  has "$report" "| gloo run: rank 1 (pid " && grep -qE '^result: [1-9][0-9]* checks failed, [1-9][0-9]* passed, in' "$scratch/report"
result "a rank that is killed is a failure" "$scratch/report"

# Of the 26 checks those before the end pass: nothing but statuses and missing lines tells.
WRONG=status "$wrong" doctor --selftest > "$scratch/report"
status=$?
equal $status 1 && [ "$(grep -c '^  failed' "$scratch/report")" = $((1 + $(echo "$transports" | wc -w))) ] &&
  has "$(cat "$scratch/report")" "  failed end: 0 of 1 ranks reported that they passed" &&
  [ "$(grep -c '^  failed end: the job ended with status 7$' "$scratch/report")" = "$(echo "$transports" | wc -w)" ]
result "jobs that end with another status, or too early, are failures" "$scratch/report"

out=$(WRONG=stop "$gloo" run -n 3 --grace-ms 100 -- "$wrong" doctor --selftest --part ranks --timeout 2 2> /dev/null)
equal $? 1 && has "$out" "failed collectives: rank 0: " && has "$out" "rank 1"
result "a rank that stops is named"

# ---- options -----------------------------------------------------------------

out=$("$gloo" doctor --selftest --report "$scratch/none/file" 2>&1)
equal $? 1 && equal "$out" "gloo doctor: cannot write the report to $scratch/none/file: No such file or directory"
result "a report that cannot be written"
out=$("$gloo" doctor --report x 2>&1)
equal $? 2 && equal "$out" "gloo doctor: --report requires --selftest"
result "--report without --selftest"
out=$("$gloo" doctor --selftest --part all 2>&1)
equal $? 2 && has "$out" "option --part: 'all' is none of threads, ranks, killed"
result "an unknown part"
out=$("$gloo" doctor --selftest --part threads --json 2>&1)
equal $? 2 && has "$out" "--json requires --selftest outside a job, without --part"
result "JSON of a part"
finish
