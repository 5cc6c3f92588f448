#!/bin/sh
# Ranks that start before their network is up, and before the name of rank 0's
# host resolves, wait for both.
# usage: later.sh GLOO
#
# The test runs in private network and mount namespaces, with the loopback interface
# down at first, and with another /etc/hosts.
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

skip() {
  echo "1..0 # SKIP $*"
  exit 0
}

if [ "$2" != inside ]; then
  for tool in unshare ip mount timeout; do
    command -v $tool > /dev/null || skip "the command $tool is missing"
  done
  # As root, or as root of a new user namespace.
  for flags in -nm -rnm; do
    unshare $flags sh -c 'mount --bind /etc/hosts /etc/hosts' 2> /dev/null || continue
    unshare $flags timeout -k 5 200 sh "$0" "$gloo" inside
    exit
  done
  skip "network and mount namespaces cannot be made here (root may)"
fi

echo "127.0.0.1 localhost" > "$scratch/hosts"
mount --bind "$scratch/hosts" /etc/hosts || exit 99

# start_ranks HOST: starts three ranks. Their output goes to log.RANK.
start_ranks() {
  ranks=
  for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=$1 MASTER_PORT=20001 GLOO_JOB_ID=later \
      timeout -k 5 60 "$gloo" info > "$scratch/log.$rank" 2>&1 < /dev/null &
    ranks="$ranks $!"
  done
}

# Returns 0 if all ranks have logged that they wait.
# shellcheck disable=SC2317
all_wait() {
  for rank in 0 1 2; do
    grep -q "still waiting" "$scratch/log.$rank" || return 1
  done
}

end_ranks() {
  bad=0
  for pid in $ranks; do
    wait "$pid" || bad=$?
  done
  [ $bad -eq 0 ] || cat "$scratch"/log.? | sed 's/^/# /'
  return $bad
}

start_ranks 127.0.0.1
wait_until all_wait && grep -q unreachable "$scratch/log.1" && ip link set lo up && end_ranks
result "ranks wait for a network that is not up"

start_ranks master.later
wait_until all_wait && grep -q "does not resolve" "$scratch/log.1" &&
  echo "127.0.0.1 master.later" >> "$scratch/hosts" && end_ranks
result "ranks wait for a name that is not known"

# /etc/hosts of Debian, and of a pod in the host's network, map the host's own name
# to loopback; on other hosts it resolves to another address.
echo "127.0.0.1 localhost head" > "$scratch/hosts"
echo "10.213.79.1 head" > "$scratch/elsewhere"
ip addr add 10.213.79.1/32 dev lo
RANK=0 WORLD_SIZE=2 MASTER_ADDR=head MASTER_PORT=20002 GLOO_JOB_ID=own \
  timeout -k 5 60 "$gloo" info > "$scratch/log.0" 2>&1 < /dev/null &
ranks=$!
# shellcheck disable=SC2016 # of the other shell
RANK=1 WORLD_SIZE=2 MASTER_ADDR=head MASTER_PORT=20002 GLOO_JOB_ID=own unshare -m sh -c '
  mount --bind "$1/elsewhere" /etc/hosts && exec timeout -k 5 60 "$2" info' sh "$scratch" "$gloo" \
  > "$scratch/log.1" 2>&1 < /dev/null &
ranks="$ranks $!"
end_ranks
result "rank 0 listens where others find its name, though that is loopback to itself"

finish
