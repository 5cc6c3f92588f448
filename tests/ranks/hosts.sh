#!/bin/sh
# shellcheck disable=SC2016  # the shell of each rank expands the commands
# Processes that GLOO_HOST_ID assigns to several hosts. `gloo bench` checks
# every result.
gloo=$1
n=0 failed=0

# expect STATUS TEXT HOSTS RANKS: HOSTS is shell code that prints a rank's host,
# or nothing for a rank without one.
expect() {
  out=$("$gloo" run -n "$4" -- sh -c '
    id=$('"$3"')
    if [ -n "$id" ]; then GLOO_HOST_ID=$id; export GLOO_HOST_ID; fi
    for collective in allreduce broadcast reduce_scatter allgather; do
      "$0" bench $collective --algorithm two_level --sizes 8,64K,1M \
        --iterations 3 --warmup 1 || exit
    done' "$gloo" 2>&1)
  got=$?
  n=$((n + 1))
  case $out in *"$2"*) found=0 ;; *) found=1 ;; esac
  if [ "$got" -eq "$1" ] && [ "$found" -eq 0 ]; then
    printf '%s\n' "ok $n - $4 ranks, hosts '$3': status $1"
  else
    printf '%s\n' "not ok $n - $4 ranks, hosts '$3': status $got, not $1 with '$2'"
    printf '%s\n' "$out" | sed 's/^/# /'
    failed=1
  fi
}

echo 1..4
expect 0 'two_level' 'echo host$((RANK / 2))' 4
expect 0 'two_level' 'echo host$((RANK % 2))' 5
expect 0 'two_level' '[ "$RANK" != 1 ] || echo alone' 4
expect 1 'control characters' '[ "$RANK" != 1 ] || printf "a\001b"' 2
exit $failed
