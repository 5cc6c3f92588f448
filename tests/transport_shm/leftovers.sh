#!/usr/bin/env bash
# shellcheck disable=SC2317 # wait_until calls functions by name
# Names that killed ranks leave: of shared memory, and of sockets.
# usage: leftovers.sh GLOO ROUNDS TIMES
set -u
gloo=$1 rounds=$2 times=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
unset XDG_RUNTIME_DIR GLOO_TRANSPORT GLOO_OBSERVE
user=$(id -u)

# start: a job of four ranks, each of which notes its process, and that of `gloo run`.
start() {
  : > "$scratch/ranks"
  # shellcheck disable=SC2016
  "$gloo" run -n 4 -- sh -c 'echo $$ $PPID >> "$0"; exec "$@"' "$scratch/ranks" "$rounds" 600000 \
    > "$scratch/output" 2>&1 &
  job=$!
  wait_until all_begun && sleep "0.$((RANDOM % 6 + 1))" # they connect, work, or part
}

all_begun() {
  [ "$(wc -l < "$scratch/ranks")" -eq 4 ]
}

# end LAST: kills all ranks, after `gloo run` if LAST is not "ranks".
end() {
  local process parent
  while read -r process parent; do
    [ "$1" = ranks ] || kill -9 "$job" "$parent"
    kill -9 "$process"
  done < "$scratch/ranks" 2> /dev/null
  wait "$job" 2> /dev/null
  while read -r process parent; do
    wait_until gone "$process"
  done < "$scratch/ranks"
}

# left: prints the sockets of the killed ranks.
left() {
  local process place file
  while read -r process _; do
    for place in /run/user/"$user"/gloo_c /tmp/gloo_c-"$user"; do
      for file in "$place"/*-pid"$process".sock; do
        [ ! -e "$file" ] || echo "$file"
      done
    done
  done < "$scratch/ranks"
}

none_left() {
  [ -z "$(left)" ]
}

# Other jobs may make memory at this moment, and remove its name at once.
no_memory_left() {
  ! ls /dev/shm/gloo_c* > /dev/null 2>&1
}

status=0
for ((i = 0; i < times; i++)); do
  start && end ranks
  none_left || { status=1 && left; }
  wait_until no_memory_left || { status=1 && ls /dev/shm; }
done > "$scratch/names"
[ $status -eq 0 ]
result "$times times all ranks are killed, and leave no name" "$scratch/names"

# A rank may have been between two contexts, without a socket.
for ((i = 0; i < 10; i++)); do
  start && end all
  none_left || break
done
! none_left
result "ranks that are killed after gloo run leave sockets"
"$gloo" run -n 2 -- "$rounds" 300 > "$scratch/output" 2>&1
equal $? 0 && wait_until none_left && wait_until no_memory_left
result "the next job removes them" "$scratch/output"
finish
