#!/bin/sh
# Run one job's ranks in this network namespace and in that of another process.
# usage: on_hosts.sh PID RANKS_PER_HOST MASTER_ADDRESS OTHER_ADDRESS PROGRAM [ARGUMENT...]
# PID's namespaces are the other host. The exit status is the first bad one.
other=$1 each=$2 here=$3 there=$4
shift 4
rank=0 pids=
while [ $rank -lt $((2 * each)) ]; do
  enter='' address=$here
  if [ $rank -ge "$each" ]; then
    enter="nsenter -t $other -m -n -u --" address=$there
  fi
  # shellcheck disable=SC2086  # words of a command
  RANK=$rank WORLD_SIZE=$((2 * each)) MASTER_ADDR=$here MASTER_PORT=29500 \
    PEER_ADDRESS=$address $enter "$@" < /dev/null &
  pids="$pids $!"
  rank=$((rank + 1))
done
bad=0
for pid in $pids; do
  wait "$pid" || bad=$?
done
exit $bad
