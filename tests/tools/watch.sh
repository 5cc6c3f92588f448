#!/bin/sh
# gloo top and gloo trace on jobs that were started without a variable for them.
# usage: watch.sh GLOO TRACE_RANK READER
gloo=$1 rank=$2 reader=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

unset GLOO_TRACE_DIR GLOO_TRACE_SIGNAL GLOO_METRICS GLOO_OBSERVE GLOO_LOG_LEVEL
# A stopped rank fails the job after this time: long enough to look at it on a busy machine.
export GLOO_HEARTBEAT=300
mkdir -m 700 "$scratch/run"
export XDG_RUNTIME_DIR="$scratch/run"
sockets=$scratch/run/gloo_c

# start WORDS...: starts a job of three ranks; $job is its process.
start() {
  "$gloo" run -n 3 -- "$rank" "$@" > "$scratch/said" 2>&1 &
  job=$!
  wait_until there
}
# The ranks of the job have met.
# shellcheck disable=SC2317 # called by wait_until
there() {
  [ "$(find "$sockets" -name 'job-*[1-9a-f]*-rank*.sock' ! -name 'job-000000000000-*' | wc -l)" -eq 3 ]
}
# process_of RANK
process_of() {
  find "$sockets" -name "*-rank$1-pid*.sock" | sed 's/.*-pid\([0-9]*\)\.sock/\1/'
}
end() {
  kill "$job"
  wait "$job" 2> /dev/null
}
# says COMMAND PART...: its output eventually contains all parts; it is kept in $scratch/out.
# shellcheck disable=SC2086,SC2317 # a command and its options; called by wait_until
says() {
  "$gloo" $1 --pid "$job" > "$scratch/out" 2>&1
  shift
  for part; do
    grep -q -e "$part" "$scratch/out" || return 1
  done
}

# ---- a rank that is stopped ----

start busy 1
equal "$(stat -c %a "$sockets")" 700 && equal "$(find "$sockets" -name '*.sock' -perm 600 | wc -l)" 3
result "each rank has a socket that its user alone can open" "$scratch/said"

stopped=$(process_of 2)
kill -STOP "$stopped"
wait_until says trace "2 of 3 ranks answer" "^rank 2 is stopped (process $stopped)\$" \
  "rank 2 is stopped (process $stopped), and rank.* for it in allreduce #[0-9]* (1 x int32, sum)"
result "gloo trace names the rank that is stopped, and the call" "$scratch/out"
wait_until says "top --once" " 2 *$stopped *is stopped: rank.* for it in allreduce #[0-9]* (1 x int32, sum)"
result "so does gloo top" "$scratch/out"
"$gloo" trace --pid "$stopped" > "$scratch/out"
equal $? 1 && grep -q "2 of 3 ranks answer" "$scratch/out"
result "the job of a rank is found by the rank's process, too" "$scratch/out"
name=$(sed -n 's/^job \([0-9a-f]*\):.*/\1/p' "$scratch/out")
for tool in "trace" "top --once"; do
  # shellcheck disable=SC2086  # words of a command
  ! out=$("$gloo" $tool --job zzz 2>&1) && equal "${out%% runs on*}" "gloo ${tool%% *}: no such job of this user"
  result "gloo $tool of a job that does not exist fails"
done
"$gloo" trace --job "$(echo "$name" | cut -c 1-6)" > "$scratch/out"
equal $? 1 && grep -q "^job $name: 2 of 3 ranks answer" "$scratch/out"
result "and by its name" "$scratch/out"

kill -CONT "$stopped"
# shellcheck disable=SC2317 # called by wait_until
well() {
  says trace "3 of 3 ranks answer" "no rank is behind"
}
wait_until well
result "a job that runs has no rank that is behind" "$scratch/out"
"$gloo" trace --pid "$job" --timeline "$scratch/timeline" > "$scratch/out"
grep -q '"process_name"' "$scratch/timeline"
result "a timeline of it is made" "$scratch/out"

# ---- other readers ----

mkfifo "$scratch/hold"
"$reader" - "$(find "$sockets" -name '*-rank0-*')" - < "$scratch/hold" > "$scratch/held" &
holds=$!
exec 3> "$scratch/hold"
wait_until grep -q held "$scratch/held"
"$gloo" trace --wait 60 --pid "$job" > "$scratch/out"
grep -q "3 of 3 ranks answer" "$scratch/out"
result "readers that say nothing keep others waiting for a limited time" "$scratch/out"
exec 3>&-
wait "$holds"

what="another user gets no answer"
if [ "$(id -u)" -eq 0 ]; then
  socket=$(find "$sockets" -name '*-rank0-*')
  "$reader" 65534 "$socket" /now > "$scratch/out" 2>&1
  equal $? 3 && grep -q "Permission denied" "$scratch/out"
  result "another user cannot connect" "$scratch/out"
  # Not even if the modes are lost.
  chmod 755 "$scratch" "$scratch/run" "$sockets" && chmod 666 "$socket"
  "$reader" 65534 "$socket" /now > "$scratch/out" 2>&1
  equal "$? $(wc -c < "$scratch/out")" "0 0"
  result "$what" "$scratch/out"
  chmod 700 "$scratch" "$scratch/run" "$sockets" && chmod 600 "$socket"
  "$reader" - "$socket" /now > "$scratch/out" 2>&1
  has "$(cat "$scratch/out")" '"reason": "reader"'
  result "its own user does"
else
  skipped "$what" "it takes root to be another user"
fi

# ---- processes that are gone ----

ranks="$(process_of 0) $(process_of 1) $(process_of 2)"
# gloo run is two processes, and the second, the parent of the ranks, sweeps when they have ended.
first=$(process_of 0)
leader=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$first/status" 2> /dev/null || ps -o ppid= -p "$first")
# shellcheck disable=SC2086 # several
kill -KILL "$job" $leader $ranks
wait "$job" 2> /dev/null
equal "$(find "$sockets" -name '*.sock' | wc -l)" 3
result "a job that is killed leaves its sockets behind"
out=$("$gloo" top --once --pid "$job" 2>&1)
equal $? 1 && has "$out" "no such job"
result "a job that has ended is none"
"$gloo" top --once > /dev/null 2>&1
equal "$(find "$sockets" -name '*.sock' | wc -l)" 0
result "a reader removes what they have left"

start busy 1
# shellcheck disable=SC2046 # several
kill -KILL $(process_of 0) $(process_of 1) $(process_of 2)
wait "$job" 2> /dev/null
equal "$(find "$sockets" -name '*.sock' | wc -l)" 0
result "gloo run removes those of ranks that were killed"

start busy 1
# shellcheck disable=SC2046 # several
kill -KILL "$job" $(process_of 0) $(process_of 1) $(process_of 2)
wait "$job" 2> /dev/null
# shellcheck disable=SC2317 # called by wait_until
swept() {
  "$gloo" run -n 1 -- "$rank" well 0 > "$scratch/said" 2>&1
  [ "$(find "$sockets" -name '*.sock' | wc -l)" -eq 0 ]
}
wait_until swept
result "so does the next job" "$scratch/said"

# ---- children ----

start forks 1
wait_until grep -q "^.*child [0-9]*" "$scratch/said"
# shellcheck disable=SC2317 # called by wait_until
three_children() {
  [ "$(grep -c 'child [0-9]' "$scratch/said")" -eq 3 ]
}
wait_until three_children
wait_until says trace "3 of 3 ranks answer"
result "a forked child that ends leaves its parent's socket there" "$scratch/out"
children=$(sed -n 's/.*child \([0-9]*\)$/\1/p' "$scratch/said")
for number_of in 0 1 2; do
  parent=$(process_of $number_of)
  kill -KILL "$parent"
  wait_until gone "$parent"
done
"$gloo" top --once > /dev/null 2>&1
# shellcheck disable=SC2086 # several
kill -0 $children && equal "$(find "$sockets" -name '*.sock' | wc -l)" 0
result "a forked child that stays does not stand for a parent that is gone" "$scratch/said"
# shellcheck disable=SC2086 # several
kill $children
wait "$job" 2> /dev/null

# ---- without ----

GLOO_OBSERVE=0 "$gloo" run -n 2 -- sh -c "ls $sockets; exec $rank well 0" > "$scratch/said" 2>&1
equal "$? $(grep -c sock "$scratch/said")" "0 0" && GLOO_OBSERVE=0 "$gloo" run -n 1 -- "$rank" busy 1 > "$scratch/said" 2>&1 &
job=$!
# shellcheck disable=SC2317 # called by wait_until
runs() {
  pgrep -P "$job" > /dev/null
}
wait_until runs
out=$("$gloo" trace --pid "$job" 2>&1)
equal $? 2 && has "$out" "GLOO_OBSERVE=0" && equal "$(find "$sockets" -name '*.sock' | wc -l)" 0
result "GLOO_OBSERVE=0 keeps a job to itself" "$scratch/said"
end
has "$("$gloo" info --local)" "observed at          $sockets" && has "$(GLOO_OBSERVE=0 "$gloo" info --local)" "observed at          off"
result "gloo info says where sockets are"
out=$(GLOO_OBSERVE=maybe "$rank" well 0 2>&1)
has "$out" "GLOO_OBSERVE"
result "another value is an error"

what="a job runs where no directory is to be had, and says why at level info"
if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
  # shellcheck disable=SC2016 # for the inner shell
  GLOO_LOG_LEVEL=info unshare -m sh -c 'mount -t tmpfs -o ro none /tmp && unset XDG_RUNTIME_DIR &&
    { [ ! -d /run/user ] || mount -t tmpfs -o ro none /run/user; } && "$@"' sh \
    "$gloo" run -n 2 -- "$rank" well 0 > "$scratch/said" 2>&1
  equal $? 0 && has "$(cat "$scratch/said")" "cannot be observed by gloo top: cannot create a socket in /tmp/gloo_c-0"
  result "$what" "$scratch/said"
else
  skipped "$what" "it takes root to have none"
fi
finish
