#!/bin/sh
# shellcheck disable=SC1003,SC2015,SC2046,SC2317
# gloo run on one host, under wine.
# usage: run.sh WINE GLOO CHILD
wine=$1 gloo=$2 child=$3
# shellcheck source=tests/wine/lib.sh
. "$(dirname "$0")/lib.sh"

run() { # options and program
  win "$gloo" run "$@"
}

# ---- what ranks get ---------------------------------------------------------

out=$(run -n 3 -- "$child" variables RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR | sort)
equal "$out" "RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 
RANK=1 WORLD_SIZE=3 LOCAL_RANK=1 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 
RANK=2 WORLD_SIZE=3 LOCAL_RANK=2 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 "
result "each rank gets its rank and the size"

out=$(export WORDS='grün → 水' RANK=7; run -n 1 -- "$child" variables WORDS RANK)
equal "$out" "WORDS=grün → 水 RANK=0 "
result "variables are passed on in UTF-8, and those of an outer job are replaced"

# Blanks, quotes, backslashes before quotes and at the end, nothing, wildcards, words of other languages.
out=$(run -n 1 -- "$child" arguments 'a b' 'c"d' 'e\' 'f\"g' 'h i\' 'j \\"k' '' '*' '%PATH%' 'ä水' '--prefix')
equal "$out" '[a b][c"d][e\][f\"g][h i\][j \\"k][][*][%PATH%][ä水][--prefix]'
result "arguments arrive as they are"

out=$(run -n 2 --prefix -- "$child" variables RANK | sort)
equal "$out" "[0] RANK=0 
[1] RANK=1 "
result "--prefix names the rank of each line"

printf 'one\ntwo' > "$scratch/input"
"$wine" "$gloo" run -n 2 --prefix -- "$child" copy < "$scratch/input" > "$scratch/out" 2> "$scratch/err"
equal "$(tr -d '\r' < "$scratch/out")" "[0] one
[0] two" && equal "$(tr -d '\r' < "$scratch/err" | sort)" "[0] on standard error
[1] on standard error"
result "rank 0 reads the standard input, and both outputs are forwarded" "$scratch/err"

seq 1 20000 > "$scratch/input"
"$wine" "$gloo" run -n 1 --prefix -- "$child" copy < "$scratch/input" > "$scratch/out" 2> /dev/null
sed 's/^/[0] /' "$scratch/input" | cmp - "$scratch/out"
result "long output arrives whole, byte for byte"

# ---- how ranks end ----------------------------------------------------------

run -n 3 -- "$child" status 9 9
equal $? 0
result "status 0 if all ranks end so"

run -n 3 -- "$child" status 1 7 2> "$scratch/said"
equal $? 7 && has "$(cat "$scratch/said")" "rank 1 (pid " && has "$(cat "$scratch/said")" "failed: exit status 7"
result "the status is that of the rank that failed"

run -n 2 --grace-ms 100 -- "$child" crash 2> "$scratch/said"
status=$?
[ $status -ne 0 ] && has "$(cat "$scratch/said")" "failed: exit status "
result "a rank that crashes is a failure" "$scratch/said"

run -n 3 --grace-ms 100 -- "$child" fail 1 > "$scratch/pids" 2> "$scratch/said"
equal $? 5 && has "$(cat "$scratch/said")" "stopping ranks 0, 2" &&
  equal "$(win "$child" running $(sed -n 's/^pid //p' "$scratch/pids"))" 0
result "when a rank fails, the others are ended after the grace" "$scratch/said"

# pids N: the ids of N processes that have begun.
pids() {
  sed -n 's/^pid \([0-9]*\).*/\1/p' "$scratch/stays"
}
begun() {
  [ "$(pids | wc -l)" -eq "$1" ]
}
# Waits for less time than wait_until, as each look starts a program.
none_runs() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ "$(win "$child" running $(pids))" != 0 ] || return 0
    sleep 1
  done
  return 1
}

"$wine" "$gloo" run -n 1 -- "$child" stay-with-child > "$scratch/stays" 2>&1 &
outer=$!
wait_until begun 2 && equal "$(win "$child" running $(pids))" 2
result "a rank and a process that it started run"
# Ends the launcher by no handler of its own.
kill -KILL $outer
wait $outer 2> /dev/null
none_runs
result "both end when the launcher is killed" "$scratch/stays"

"$wine" "$child" spawn "$gloo" run -n 2 -- "$child" stay-with-child > "$scratch/stays" 2>&1 &
outer=$!
wait_until begun 4 && win "$child" kill "$(sed -n 's/^started //p' "$scratch/stays" | tr -d '\r')"
result "TerminateProcess ends the launcher" "$scratch/stays"
none_runs
result "two ranks, and the processes that they started, end with it" "$scratch/stays"
wait $outer

# ---- Ctrl-C -----------------------------------------------------------------

# The terminal of script is the console. By wine's default, processes end with status 0.
script -qec "'$wine' '$child' interrupt '$gloo' run -n 2 -- '$child' stay > '$scratch/stays' 2> '$scratch/said'" \
  /dev/null > /dev/null 2>&1 < /dev/null
begun 2 && none_runs
result "Ctrl-C at the console ends ranks and launcher" "$scratch/said"

# ---- errors -----------------------------------------------------------------

run -n 1 -- nosuchprogram 2> "$scratch/said"
equal $? 127 && has "$(cat "$scratch/said")" "cannot run 'nosuchprogram': not found in PATH"
result "a program that does not exist is reported"

run -n 2 --hosts a,b -- "$child" status 0 0 2> "$scratch/said"
equal $? 2 && has "$(cat "$scratch/said")" "one host only on Windows"
result "other hosts are refused"

for command in top trace metrics 'bench limits' 'bench start'; do
  # shellcheck disable=SC2086
  win "$gloo" $command 2> "$scratch/said"
  equal $? 2 && has "$(cat "$scratch/said")" "gloo $command: Does not exist on Windows" || break
done
equal "$command" "bench start" && has "$(cat "$scratch/said")" "gloo bench start: Does not exist"
result "commands that need what Windows lacks say so"
finish
