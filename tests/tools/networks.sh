# shellcheck shell=sh disable=SC2154
# Network namespaces that stand for hosts, for tests that have read tap.sh. All of them are made
# from one that the test runs in: the host's network is unaffected, and when the processes end, for
# whatever reason, the kernel removes namespaces and links.

skip() {
  echo "1..0 # SKIP $*"
  exit 0
}

# enter_network SECONDS SCRIPT ARGUMENT...: restarts the script, by bash if it runs there, in a separate
# network namespace, for at most SECONDS (0: without a limit), and exits with its status. Returns if the
# script already runs there.
enter_network() {
  [ -z "${inside_network-}" ] || return 0
  for tool in unshare nsenter ip timeout; do
    command -v $tool > /dev/null || skip "the command $tool is missing"
  done
  # As root, or in a user namespace of ours.
  for flags in -n -rn; do
    unshare $flags ip link add "gc$$" type veth peer name "gd$$" 2> /dev/null || continue
    seconds=$1
    shift
    inside_network=1 unshare $flags timeout -k 5 "$seconds" "${BASH:-sh}" "$@"
    exit
  done
  skip "network namespaces with veth links cannot be made here (root may)"
}

# another_network: makes one more; its process is $other until the test ends.
another_network() { make_namespaces -n; }

# make_namespaces FLAGS: makes a network and namespaces of the other kinds that these flags of unshare
# name; its process is $other until the test ends.
networks=
make_namespaces() {
  : > "$scratch/ready"
  unshare "$@" sh -c 'echo ready; exec sleep 100000' > "$scratch/ready" &
  other=$!
  networks="$networks $other"
  # shellcheck disable=SC2064,SC2086
  trap "kill $networks; rm -rf \"$scratch\"" EXIT
  trap 'exit 1' INT TERM
  wait_until grep -q ready "$scratch/ready" && ip link set lo up && nsenter -t $other -n ip link set lo up
}

# link_networks NAME ADDRESS NAME ADDRESS: joins this one to $other by a veth pair; addresses
# include prefix lengths.
link_networks() {
  ip link add "$1" type veth peer name "$3" netns "$other" &&
    ip addr add "$2" dev "$1" && ip link set "$1" up &&
    nsenter -t "$other" -n ip addr add "$4" dev "$3" && nsenter -t "$other" -n ip link set "$3" up
}

# make_bridge NAME ADDRESS...: makes a switch for several networks in this one, with these addresses. Its own Ethernet
# address is fixed: otherwise it would be the lowest of the ports', and change with them.
make_bridge() {
  bridge=$1
  shift
  ip link add "$bridge" address 02:00:00:00:00:01 type bridge && add_addresses "$bridge" ip "$@" && ip link set "$bridge" up
}

# join_bridge PORT ADDRESS...: joins $other to $bridge by a veth pair, which is PORT here and eth0 there.
join_bridge() {
  port=$1
  shift
  ip link add "$port" type veth peer name eth0 netns "$other" && ip link set "$port" master "$bridge" up &&
    add_addresses eth0 "nsenter -t $other -n ip" "$@" && nsenter -t "$other" -n ip link set eth0 up
}

# add_addresses LINK IP ADDRESS...: IP is the command. Addresses of IPv6 can be used at once.
add_addresses() {
  link=$1 ip=$2
  shift 2
  for address; do
    nodad=
    case $address in *:*) nodad=nodad ;; esac
    $ip addr add "$address" dev "$link" $nodad || return
  done
}
