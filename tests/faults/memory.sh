#!/bin/sh
# With little memory, jobs use TCP and log the reason, or fail with a clear error.
# No rank is killed by a signal.
# usage: memory.sh GLOO SANITIZER|none
gloo=$1 sanitizer=${2:-none}
unset MALLOC_PERTURB_ # it touches memory that the program never uses
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

# run_ranks N TRANSPORT PREFIX...: runs collectives on N ranks by $algorithm and verifies
# them. The log goes to $scratch/log, through a pipe, since a limit on file sizes would
# apply to it as well.
algorithm=all
run_ranks() {
  n=$1 transport=$2
  shift 2
  { GLOO_LOG_LEVEL=info timeout -k 5 100 "$@" "$gloo" run -n "$n" -- gloo bench allgather \
    --transport "$transport" --algorithm "$algorithm" --sizes 4,70000,1100000 --iterations 2
    echo "status $?"; } 2>&1 < /dev/null | cat > "$scratch/log"
  status=$(sed -n 's/^status //p' "$scratch/log")
  verified=$(grep -c ' yes$' "$scratch/log")
  shared=$(grep -c 'talks to rank .* through shared memory' "$scratch/log")
  tcp=$(grep -c 'talks to rank .* through TCP' "$scratch/log")
}

show() {
  tail -n 40 "$scratch/log" | sed 's/^/# /'
  return 1
}

# Succeeds if the results are right, over any transport.
works() {
  { equal "$status" 0 && [ "$verified" -ge 3 ]; } || show
}

# Succeeds if the program ended with an error of its own, not by a signal.
refuses() { # TEXT of the error
  { equal "$status" 1 && grep -q "gloo bench: .*$1" "$scratch/log" &&
    ! grep -q "killed by signal" "$scratch/log"; } || show
}

# ---- without limits ----------------------------------------------------------

run_ranks 3 auto env
works && equal "$shared $tcp" "6 0"
result "without limits all pairs share memory"

# ---- limits of a process -----------------------------------------------------

# A shell script that runs a command under a limit of ulimit.
# shellcheck disable=SC2016
limited='ulimit $0 && exec "$@"'

# A sanitizer writes files, too.
blocks='4 100'
[ "$sanitizer" != none ] || blocks="0 $blocks"
for blocks in $blocks; do
  run_ranks 3 auto sh -c "$limited" "-f $blocks"
  works && equal "$shared $tcp" "0 6" &&
    has "$(cat "$scratch/log")" "through TCP, not shared memory: "
  result "files of at most $blocks blocks: TCP, and the log says why"
done

run_ranks 3 shm sh -c "$limited" "-f 4"
refuses "shared memory"
result "files of at most 4 blocks, and only shared memory allowed: a clear error"

# Too few descriptors to start, or too few for all pairs to share memory.
for descriptors in 24 36 37 38; do
  run_ranks 6 auto sh -c "$limited" "-n $descriptors"
  works || refuses "rank "
  result "$descriptors descriptors: right results, or a clear error"
done

# ---- /dev/shm ----------------------------------------------------------------

# A private /dev/shm of 4 KiB, first empty, then full.
if unshare -m mount --make-rprivate / 2> /dev/null; then
  small='mount --make-rprivate / && mount -t tmpfs -o size=4k tmpfs /dev/shm && '
  fill='head -c 4096 /dev/zero > /dev/shm/full && '
  # shellcheck disable=SC2016
  run_ranks 3 auto unshare -m sh -c "$small"'exec "$@"' sh
  works
  result "with a /dev/shm of one page"
  # shellcheck disable=SC2016
  run_ranks 3 auto unshare -m sh -c "$small$fill"'exec "$@"' sh
  works && equal "$shared $tcp" "6 0"
  result "with a full /dev/shm memory is shared all the same: it is not from there"
else
  skipped "a small /dev/shm" "file systems cannot be mounted here (root may)"
fi

# ---- memory control groups ---------------------------------------------------

# Creates a group below the current one, and removes it at exit.
make_group() {
  own=$(sed -n 's/.*:memory://p' /proc/self/cgroup)
  top=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
  events=memory.oom_control
  if [ -z "$own" ]; then
    own=$(sed -n 's/^0:://p' /proc/self/cgroup)
    top=/sys/fs/cgroup limit=memory.max
    events=memory.events
  fi
  group=$top${own%/}/gloo_c-test-$$
  mkdir "$group" 2> /dev/null || return 1
  # shellcheck disable=SC2064
  trap "sleep 0.1; rmdir '$group'; rm -rf '$scratch'" EXIT
  trap 'exit 1' INT TERM
  [ -w "$group/$limit" ] && echo 1G > "$group/$limit" 2> /dev/null
}

killed() {
  sed -n 's/^oom_kill //p' "$group/$events"
}

# The single quotes are intended: another shell expands the variables.
# shellcheck disable=SC2016
enter='echo $$ > "$0/cgroup.procs" && exec "$@"'
if [ "$sanitizer" != none ]; then
  skipped "memory control groups" "the sanitizer itself needs more memory than they allow"
elif make_group; then
  # in_group KIB RANKS TRANSPORT: runs the ranks in the group, limited to KIB.
  in_group() {
    echo "$1K" > "$group/$limit" || return 1
    before=$(killed)
    run_ranks "$2" "$3" sh -c "$enter" "$group"
    equal "$(killed)" "$before"
  }
  # Reduces the memory of RANKS until some of the ENDS of their pairs use TCP and, with more
  # than one pair, others still share memory. That limit differs between machines. Every run
  # on the way must work. Sets kib to the limit.
  in_less_and_less() { # RANKS ENDS
    kib=$((128 * 1024)) enough=$((512 * 1024)) too_little=0
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
      in_group $kib "$1" auto && works && equal $((shared + tcp)) "$2" || return 1
      if [ "$tcp" -eq 0 ]; then
        enough=$kib
      elif [ "$2" -eq 2 ] || [ "$shared" -gt 0 ]; then
        return 0
      else
        too_little=$kib
      fi
      kib=$((too_little ? (enough + too_little) / 2 : enough - enough / 8))
    done
    return 1
  }
  # The ring allocates no memory, so only that of the transports counts.
  algorithm=ring
  in_group $((512 * 1024)) 8 auto && works && equal "$tcp" 0
  result "8 ranks in 512 MiB share memory"
  in_less_and_less 8 "$shared" && has "$(cat "$scratch/log")" "too little memory is left"
  result "with less, in $kib KiB, some of them do ($shared), the others ($tcp) say why not"
  in_group $((kib * 5 / 8)) 8 shm && refuses "too little memory is left"
  result "with less than that, and only shared memory allowed: a clear error"
  in_less_and_less 2 2 && equal "$shared $tcp" "0 2"
  result "2 ranks use TCP in $kib KiB"
else
  skipped "memory control groups" "there is none that can be limited here (root may)"
fi

finish
