#!/bin/sh
# Little memory: jobs use TCP instead and say why, or fail with a clear error.
# Nobody is ever killed by a signal.
# usage: memory.sh GLOO SANITIZER|none
gloo=$1 sanitizer=${2:-none}
unset MALLOC_PERTURB_ # it makes memory that is never used count as used
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

# run_ranks N TRANSPORT PREFIX...: collectives on N ranks, by $algorithm,
# verified. The log goes to $scratch/log. Results go through a pipe, for a limit on file sizes
# would hold for them as well.
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

# By whatever route, the results are right.
works() {
  { equal "$status" 0 && [ "$verified" -ge 3 ]; } || show
}

# It ended with an error of its own: no signal, no shell's status for one.
refuses() { # text that the error has
  { equal "$status" 1 && grep -q "gloo bench: .*$1" "$scratch/log" &&
    ! grep -q "killed by signal" "$scratch/log"; } || show
}

# ---- without limits ----------------------------------------------------------

run_ranks 3 auto env
works && equal "$shared $tcp" "6 0"
result "without limits all pairs share memory"

# ---- limits of a process -----------------------------------------------------

# Run a command under a limit of the shell.
# shellcheck disable=SC2016
limited='ulimit $0 && exec "$@"'

# A sanitizer writes files of its own.
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

# Too few to start with; few enough for some of the pairs to be declined.
for descriptors in 24 36 37 38; do
  run_ranks 6 auto sh -c "$limited" "-n $descriptors"
  works || refuses "rank "
  result "$descriptors descriptors: right results, or a clear error"
done

# ---- /dev/shm ----------------------------------------------------------------

# A /dev/shm of its own, of 4 KiB, that another file fills.
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

# A group below ours; it is removed in the end.
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

# The single quotes are meant: these are for a shell to come.
# shellcheck disable=SC2016
enter='echo $$ > "$0/cgroup.procs" && exec "$@"'
if [ "$sanitizer" != none ]; then
  skipped "memory control groups" "the sanitizer itself needs more memory than they allow"
elif make_group; then
  # in_group MIB RANKS TRANSPORT: what is left of the limit is what counts.
  in_group() {
    echo "$1M" > "$group/$limit"
    run_ranks "$2" "$3" sh -c "$enter" "$group"
    equal "$(killed)" 0
  }
  # One that needs no memory of its own: what the transports take is what counts.
  algorithm=ring
  in_group 512 8 auto && works && equal "$tcp" 0
  result "8 ranks in 512 MiB share memory"
  # Machines differ in how much it takes until some pairs go without.
  for mib in 128 112 96 80 72 64 56 52 48 45 42 40 38 36 34 32 30 29 28 27 26 25; do
    right=no
    in_group $mib 8 auto && works && equal $((shared + tcp)) 56 && right=yes
    if [ $right = no ] || [ "$tcp" -gt 0 ]; then break; fi
  done
  equal "$right" yes && [ "$shared" -gt 0 ] && [ "$tcp" -gt 0 ] &&
    has "$(cat "$scratch/log")" "too little memory is left"
  result "with less and less memory, at $mib MiB, some of 8 ranks do ($shared), the others ($tcp) say why not"
  in_group 15 2 auto && works && equal "$shared $tcp" "0 2"
  result "2 ranks in 15 MiB use TCP"
  in_group 20 8 shm && refuses "too little memory is left"
  result "8 ranks in 20 MiB, and only shared memory allowed: a clear error"
else
  skipped "memory control groups" "there is none that can be limited here (root may)"
fi

finish
