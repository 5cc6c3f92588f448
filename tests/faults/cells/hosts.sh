#!/bin/sh
# The matrix over two hosts: network namespaces that a veth pair joins, shared
# memory inside one, TCP across.
# usage: hosts.sh FAULT_CELLS OPTION...
#
# As in ../netns.sh all is in namespaces that the kernel removes when the processes end.
program=$1
shift
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../../tools/tap.sh"

skip() {
  echo "1..0 # SKIP $*"
  exit 0
}

if [ "$1" != inside ]; then
  for tool in unshare nsenter ip; do
    command -v $tool > /dev/null || skip "the command $tool is missing"
  done
  for flags in -n -rn; do
    unshare $flags ip link add "gc$$" type veth peer name "gd$$" 2> /dev/null || continue
    unshare $flags sh "$0" "$program" inside "$@"
    exit
  done
  skip "network namespaces with veth links cannot be made here (root may)"
fi
shift

# The names and addresses are those of network.c.
unshare -n sh -c 'echo ready; exec sleep 100000' > "$scratch/ready" &
other=$!
trap 'kill $other; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
there="nsenter -t $other -n"
# shellcheck disable=SC2086
join_hosts() {
  wait_until grep -q ready "$scratch/ready" &&
    ip link add here type veth peer name there netns $other &&
    ip addr add 10.213.78.1/24 dev here && ip link set here up && ip link set lo up &&
    $there ip addr add 10.213.78.2/24 dev there && $there ip link set there up &&
    $there ip link set lo up
}
join_hosts || skip "network namespaces cannot be joined here"
"$program" --over hosts --other $other "$@"
