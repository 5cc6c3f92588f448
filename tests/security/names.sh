#!/bin/sh
# Prints the ports that `gloo run` takes if the ephemeral range has eight ports, and
# another user holds the names of the local sockets for two of them. Run it in a new
# network namespace. Status 77: the range cannot be set.
# usage: unshare -n names.sh GLOO PYTHON
gloo=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/tools/tap.sh
. "$here/../tools/tap.sh"
ip link set lo up && echo "40200 40207" > /proc/sys/net/ipv4/ip_local_port_range || exit 77
"$python" "$here/stranger.py" take 40201,40203 socket > "$scratch/taken" &
stranger=$!
wait_until grep -q taken "$scratch/taken" || exit 1
for _ in 1 2 3 4 5 6 7 8 9 10; do
  # shellcheck disable=SC2016 # of the rank
  "$gloo" run -n 1 -- sh -c 'echo $MASTER_PORT' || exit 1
done
kill $stranger
