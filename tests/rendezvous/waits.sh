#!/bin/sh
# Waits at the start of a job: each is logged once, after 3 s, and its error suggests
# the remedy.
# usage: waits.sh GLOO with|without (Redis)
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
unset GLOO_LOG_LEVEL LOCAL_RANK LOCAL_WORLD_SIZE
# Ports on which no program listens: a job of one rank serves no store.
# shellcheck disable=SC2016
port=$("$gloo" run -n 1 -- sh -c 'echo "$MASTER_PORT"')
# shellcheck disable=SC2016
free=$("$gloo" run -n 1 -- sh -c 'echo "$MASTER_PORT"')
export GLOO_START_TIMEOUT=5 GLOO_SECURITY=off

# begin NAME [VARIABLE=VALUE...]: runs `gloo info` in the background, as rank 1 of 3.
begin() {
  name=$1
  shift
  env RANK=1 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$@" \
    "$gloo" info > "$scratch/$name" 2>&1 &
}

# waited NAME TEXT: its log has one line on the wait, with TEXT and the time left.
waited() {
  line=$(grep "still waiting, for at most" "$scratch/$1")
  equal "$(grep -c "still waiting" "$scratch/$1")" 1 && has "$line" "WARN" && has "$line" "$2"
}

begin refused
begin apart LOCAL_RANK=0
begin near LOCAL_RANK=1
begin elsewhere MASTER_ADDR=localhost
begin directory GLOO_STORE="file://$scratch/store"
begin quick GLOO_START_TIMEOUT=1
begin silent GLOO_LOG_LEVEL=error
begin first RANK=0 MASTER_PORT="$free"
begin redis GLOO_STORE="redis://127.0.0.1:$port"
wait

waited refused "cannot connect to the TCP store at 127.0.0.1:$port: connection refused"
result "a store that does not answer" "$scratch/refused"
has "$(cat "$scratch/refused")" \
  "MASTER_ADDR is 127.0.0.1, which is this host itself: if rank 0 runs on another host, set it to an address of that host"
result "the error names MASTER_ADDR if it is loopback"
has "$(cat "$scratch/elsewhere")" "MASTER_ADDR is localhost, which is this host itself"
result "and by name"
has "$(cat "$scratch/apart")" "which is this host itself, and rank 0 runs on another host: set it"
result "it is sure if the local rank shows that rank 0 is elsewhere"
! has "$(cat "$scratch/near")" "this host itself" > /dev/null
result "but not if rank 0 is on this host"

waited directory "ranks 0, 2 of 3 did not connect to the file store in $scratch/store"
result "ranks missing in a file store" "$scratch/directory"

waited first "ranks 1-2 of 3 did not connect to the TCP store at"
result "ranks missing at the server" "$scratch/first"
has "$(cat "$scratch/first")" "this host itself: if ranks run on another host, set it to an address of this host"
result "its error names MASTER_ADDR, too"

if [ "$2" = with ]; then
  waited redis "cannot connect to the Redis store at 127.0.0.1:$port"
  result "a Redis server that does not answer" "$scratch/redis"
fi

equal "$(grep -c "still waiting" "$scratch/quick")" 0
result "a short wait is not logged"
equal "$(grep -c "still waiting" "$scratch/silent")" 0
result "the level of the log holds for these lines"

# Of several ranks that wait for the same one, the lowest says so.
# shellcheck disable=SC2016
"$gloo" run -n 3 -- sh -c '[ $RANK -eq 1 ] || exec "$0" info' "$gloo" > "$scratch/some" 2>&1
waited some "rank 1 of 3 did not connect"
result "one of several waiting ranks logs the wait" "$scratch/some"

finish
