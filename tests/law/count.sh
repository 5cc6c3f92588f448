#!/bin/sh
# scripts/count-tests counts as documented.
# usage: count.sh PROJECT
set -u
project=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

case_of() { # name, expected last line, expected status, log lines
  printf '%s\n' "$4" >"$scratch/log.json"
  "$project/scripts/count-tests" "$scratch/log.json" >"$scratch/said" 2>&1
  status=$?
  echo "status $status" >>"$scratch/said"
  [ "$(tail -n 2 "$scratch/said")" = "$2
status $3" ]
  result "$1" "$scratch/said"
}

line() { # result, returncode, stdout
  printf '{"name": "t", "stdout": "%s", "result": "%s", "returncode": %s}\n' "$3" "$1" "$2"
}

case_of "cases are counted, not programs" "3 passed, 0 failed, 0 skipped" 0 \
  "$(line OK 0 '1..2\nok 1 - a\nok 2 - b\n'; line OK 0 'ok 1 - c\n1..1\n')"
case_of "a program without cases is one" "1 passed, 0 failed, 0 skipped" 0 \
  "$(line OK 0 'hello\n')"
case_of "a failing program without cases is one" "0 passed, 1 failed, 0 skipped" 1 \
  "$(line FAIL 1 '')"
case_of "failed cases are counted" "1 passed, 2 failed, 0 skipped" 1 \
  "$(line FAIL 1 'ok 1 - a\nnot ok 2 - b\nnot ok 3 - c\n')"
case_of "a crash after passed cases is a failure" "1 passed, 1 failed, 0 skipped" 1 \
  "$(line ERROR -11 '1..2\nok 1 - a\n')"
case_of "running out of time is a failure" "1 passed, 1 failed, 0 skipped" 1 \
  "$(line TIMEOUT -15 '1..2\nok 1 - a\n')"
case_of "what a sanitizer found is a failure" "1 passed, 1 failed, 0 skipped" 1 \
  "$(line ERROR 66 'ok 1 - a\nWARNING: ThreadSanitizer: data race (pid=1)\nSUMMARY: ThreadSanitizer: data race a.c:1 in f\n')"
grep -q '^failed: t (error: data race a.c:1 in f)$' "$scratch/said"
result "and is told"
case_of "so is undefined behaviour" "0 passed, 1 failed, 0 skipped" 1 \
  "$(line FAIL 1 'a.c:1:2: runtime error: null pointer\n')"
grep -q '^failed: t (fail: a.c:1:2: runtime error: null pointer)$' "$scratch/said"
result "which is told as well"
case_of "skipped cases are counted" "1 passed, 0 failed, 1 skipped" 0 \
  "$(line OK 0 'ok 1 - a\nok 2 - b # SKIP no network\n')"
case_of "a skipped program is one" "0 passed, 0 failed, 1 skipped" 0 \
  "$(line SKIP 0 '1..0 # SKIP no strace\n')"
case_of "the other way of skipping a program" "0 passed, 0 failed, 1 skipped" 0 \
  "$(line SKIP 77 '')"
case_of "skips as cmocka writes them" "1 passed, 0 failed, 1 skipped" 0 \
  "$(line FAIL 0 '1..2\nok 1 - a\nnot ok 2 # SKIP b\n')"
# ---- programs that ran again, by themselves ----

failed_log=$(line FAIL 1 'ok 1 - a\nnot ok 2 - b\n')
again_of() { # name, expected last line, expected status, first log, second log
  printf '%s\n' "$4" >"$scratch/log.json"
  printf '%s\n' "$5" >"$scratch/second.json"
  "$project/scripts/count-tests" "$scratch/log.json" "$scratch/second.json" >"$scratch/said" 2>&1
  status=$?
  echo "status $status" >>"$scratch/said"
  [ "$(tail -n 2 "$scratch/said")" = "$2
status $3" ]
  result "$1" "$scratch/said"
}
again_of "what passes then has passed" "2 passed, 0 failed, 0 skipped" 0 \
  "$failed_log" "$(line OK 0 'ok 1 - a\nok 2 - b\n')"
grep -q '^unsteady: t: b$' "$scratch/said"
result "and is told" "$scratch/said"
again_of "what fails then has failed" "1 passed, 1 failed, 0 skipped" 1 "$failed_log" "$failed_log"
again_of "what did not run then has failed" "1 passed, 1 failed, 0 skipped" 1 "$failed_log" ''
printf '%s\n' "$failed_log" "$(line FAIL 1 'not ok 1 - a\nWARNING: ThreadSanitizer: data race')" >"$scratch/log.json"
[ "$("$project/scripts/count-tests" --failed "$scratch/log.json")" = t ]
result "what a sanitizer found does not run again"

case_of "no test at all is a failure" "0 passed, 1 failed, 0 skipped" 1 ''
finish
