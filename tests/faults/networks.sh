#!/bin/sh
# Hosts with several networks, some of them without a route to the others; IPv6
# only; wrong choices of interfaces; and a host behind NAT. Four network namespaces
# act as hosts, and a fifth, in which this script runs, as the router.
# usage: networks.sh GLOO SANITIZERS
#
# As in ../tools/networks.sh the kernel removes the namespaces when the processes end.
gloo=$1 sanitizers=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

skip() {
  echo "1..0 # SKIP $*"
  exit 0
}

if [ "$3" != inside ]; then
  for tool in unshare nsenter ip timeout python3; do
    command -v $tool > /dev/null || skip "the command $tool is missing"
  done
  for flags in -n -rn; do
    unshare $flags sh -c "ip link add gc$$ type veth peer name gd$$ &&
      echo 1 > /proc/sys/net/ipv4/ip_forward" 2> /dev/null || continue
    unshare $flags timeout -k 5 280 sh "$0" "$gloo" "$sanitizers" inside
    exit
  done
  skip "network namespaces that route cannot be made here (root may)"
fi

# ---- four hosts and a router -------------------------------------------------

hosts="1 2 3 4"
pids=
for k in $hosts; do
  unshare -n sh -c 'echo ready; exec sleep 300' > "$scratch/ready.$k" &
  eval "host$k=$!"
  pids="$pids $!"
done
# shellcheck disable=SC2086
trap 'kill $pids; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

in_host() { # HOST COMMAND...
  eval "nsenter_pid=\$host$1"
  shift
  # shellcheck disable=SC2154
  nsenter -t "$nsenter_pid" -n "$@"
}

# eth0 reaches the router, and through it all other hosts. eth1 is in a network with
# the same prefix on all hosts, but without a connection to any.
make_host() {
  wait_until grep -q ready "$scratch/ready.$1" || return 1
  eval "pid=\$host$1"
  ip link add "n$1" type veth peer name eth0 netns "$pid" &&
    ip link add "m$1" type veth peer name eth1 netns "$pid" &&
    ip link set "n$1" up && ip link set "m$1" up &&
    ip addr add "10.213.$1.1/24" dev "n$1" &&
    in_host "$1" ip link set lo up && in_host "$1" ip link set eth0 up &&
    in_host "$1" ip link set eth1 up &&
    in_host "$1" ip addr add "10.213.$1.2/24" dev eth0 &&
    in_host "$1" ip addr add "10.99.0.$1/24" dev eth1 &&
    in_host "$1" ip route add default via "10.213.$1.1"
}

made=0
ip link set lo up && echo 1 > /proc/sys/net/ipv4/ip_forward
for k in $hosts; do
  make_host "$k" && made=$((made + 1))
done
[ "$made" -eq 4 ]
result "four hosts with two networks each, one of them dead"
[ "$made" -eq 4 ] || finish

# ---- jobs --------------------------------------------------------------------

# run_job "HOSTS OF THE RANKS" MASTER_ADDR COMMAND...: runs a rank on each listed host.
# Output goes to out.RANK, the log to log.RANK. Returns 0, or the exit status of a rank
# that failed. `settings` apply to all ranks; `settings_0` replace them for rank 0.
job=0
settings=''
settings_0=''
run_job() {
  job=$((job + 1))
  places=$1 master=$2 bad=0 rank=0 ranks=
  shift 2
  rm -f "$scratch"/out.* "$scratch"/log.*
  # shellcheck disable=SC2086
  size=$(echo $places | wc -w)
  begun=$(date +%s)
  for k in $places; do
    own=$settings
    [ -z "$settings_0" ] || [ $rank -ne 0 ] || own=$settings_0
    # shellcheck disable=SC2086
    in_host "$k" env RANK=$rank WORLD_SIZE="$size" MASTER_ADDR="$master" \
      MASTER_PORT=$((21000 + job)) GLOO_LOG_LEVEL=info $own \
      timeout -k 5 60 "$gloo" "$@" \
      > "$scratch/out.$rank" 2> "$scratch/log.$rank" < /dev/null &
    ranks="$ranks $!"
    rank=$((rank + 1))
  done
  for pid in $ranks; do
    wait "$pid" || bad=$?
  done
  took=$(($(date +%s) - begun))
  [ $bad -eq 0 ] || [ -n "$expect_bad" ] ||
    cat "$scratch"/out.* "$scratch"/log.* | sed 's/^/# /'
  return $bad
}
expect_bad=''

# Succeeds if the results are right and the job took at most SECONDS.
worked() { # SECONDS
  [ "$(grep -c ' yes$' "$scratch/out.0")" -eq 2 ] || return 1
  [ "$sanitizers" = none ] || return 0
  [ "$took" -le "$1" ] || { echo "# it took $took s" && return 1; }
}

bench="bench allreduce --sizes 8,100000 --iterations 3 --warmup 1"

for transport in auto tcp; do
  settings=GLOO_TRANSPORT=$transport
  # shellcheck disable=SC2086
  run_job "1 2 3 4 1 2 3 4" 10.213.1.2 $bench && worked 15
  result "eight ranks on four hosts meet by the network that works: $transport"
done
has "$(cat "$scratch/log.1")" "publishes 10.213.2.2:"
result "the address that reaches rank 0 is the first that others are told"
has "$(cat "$scratch/log.1")" ", 10.99.0.2:"
result "others are told the one that does not as well"

# The dead network is tried first, which costs each pair a moment.
settings="GLOO_TRANSPORT=tcp GLOO_SOCKET_IFNAME=eth1,eth0"
# shellcheck disable=SC2086
run_job "1 2 3 4" 10.213.1.2 $bench && worked 15
result "a dead network that comes first is passed by"

# Alternative names of the live interface: a short one, and one of the maximum length.
long=$(printf '%0127d' 0 | tr 0 a)
named=0
for k in 1 2; do
  for name in other0 "$long"; do
    in_host $k ip link property add dev eth0 altname "$name" 2> /dev/null && named=$((named + 1))
  done
done
for name in other0 "=$long"; do
  what="an alternative name means its interface: $(echo "$name" | cut -c1-12)"
  if [ $named -ne 4 ]; then
    skipped "$what" "this system has no alternative names"
    continue
  fi
  settings="GLOO_TRANSPORT=tcp GLOO_SOCKET_IFNAME=$name"
  # shellcheck disable=SC2086
  run_job "1 2" 10.213.1.2 $bench && ! grep -q '10\.99\.0\.' "$scratch"/log.?
  result "$what"
done

settings="GLOO_TRANSPORT=tcp GLOO_PORT_RANGE=28800-28810"
# shellcheck disable=SC2086
run_job "1 1 2 3" 10.213.1.2 $bench && worked 15 &&
  [ "$(grep -hoE 'told .*' "$scratch"/log.? | grep -oE ':[0-9]+' | sort -u |
    grep -cvE ':(2880[0-9]|28810)$')" -eq 0 ]
result "with GLOO_PORT_RANGE all ports are of the range"

# ---- wrong choices -----------------------------------------------------------

expect_bad=yes
settings_0=''
settings="GLOO_TRANSPORT=tcp GLOO_SOCKET_IFNAME=eth9"
# shellcheck disable=SC2086
run_job "1 2" 10.213.1.2 $bench
bad=$?
[ $bad -ne 0 ] && has "$(cat "$scratch/log.0")" 'no network interface "eth9" with an address (from GLOO_SOCKET_IFNAME)' &&
  has "$(cat "$scratch/log.0")" "available: lo 127.0.0.1" &&
  has "$(cat "$scratch/log.0")" "eth0 10.213.1.2" && has "$(cat "$scratch/log.0")" "eth1 10.99.0.1"
result "an interface that is not there: the error has its name, and those that are" "$scratch/log.0"

settings="GLOO_TRANSPORT=tcp GLOO_SOCKET_IFNAME=eth1"
# shellcheck disable=SC2086
run_job "1 2" 10.213.1.2 $bench
bad=$?
[ $bad -ne 0 ] && [ "$took" -lt 25 ] && has "$(cat "$scratch"/log.?)" "(10.99.0." &&
  has "$(cat "$scratch"/log.?)" "cannot connect to rank"
result "an interface that reaches nobody: the error has the address" "$scratch/log.1"

settings="GLOO_TRANSPORT=tcp GLOO_SOCKET_IFNAME=eth1,lo"
# shellcheck disable=SC2086
run_job "1 2" 10.213.1.2 $bench
bad=$?
[ $bad -ne 0 ] && [ "$took" -lt 25 ] && has "$(cat "$scratch"/log.?)" "; 127.0.0.1:" &&
  has "$(cat "$scratch"/log.?)" "10.99.0."
result "several that reach nobody: the error has each address and what it said" "$scratch/log.1"

settings="GLOO_TRANSPORT=auto GLOO_SOCKET_IFNAME=lo"
# shellcheck disable=SC2086
run_job "1 2" 10.213.1.2 $bench
bad=$?
[ $bad -ne 0 ] && has "$(cat "$scratch"/log.?)" "listens on loopback only"
result "loopback of two namespaces of one host is not taken for one" "$scratch/log.1"
expect_bad=''

# ---- NAT ---------------------------------------------------------------------

# The other hosts cannot reach rank 0 at 10.213.1.2, but at 192.0.2.50 of the router.
ip addr add 192.0.2.50/32 dev lo
for k in 2 3 4; do
  in_host $k ip route add unreachable 10.213.1.0/24
done
behind="GLOO_TRANSPORT=tcp GLOO_BIND_ADDR=0.0.0.0 GLOO_PUBLISH_ADDR=192.0.2.50"
settings="GLOO_TRANSPORT=tcp"
settings_0="$behind GLOO_PORT_RANGE=28820-28829"

if nft add table ip gloo_nat 2> /dev/null &&
  nft 'add chain ip gloo_nat before { type nat hook prerouting priority -100; }' 2> /dev/null &&
  nft 'add chain ip gloo_nat after { type nat hook postrouting priority 100; }' &&
  nft add rule ip gloo_nat before ip daddr 192.0.2.50 dnat to 10.213.1.2 &&
  nft add rule ip gloo_nat after ip saddr 10.213.1.2 masquerade; then
  # shellcheck disable=SC2086
  run_job "1 2 3 4" 192.0.2.50 $bench && worked 15
  result "rank 0 is behind a translation of addresses"
  nft delete table ip gloo_nat
else
  skipped "rank 0 is behind a translation of addresses" "no nft, or a kernel without"
fi

# Only connections to that address, on a few ports, are forwarded. Rank 0 cannot
# connect to other hosts.
# shellcheck disable=SC2046
python3 "$(dirname "$0")/middle.py" relay 192.0.2.50 10.213.1.2 $((21000 + job + 1)) \
  $(seq 28820 28829) > "$scratch/forwarding" 2>&1 &
forwarder=$!
pids="$pids $forwarder"
echo 0 > /proc/sys/net/ipv4/conf/n1/forwarding
wait_until grep -q ready "$scratch/forwarding"
# shellcheck disable=SC2086
run_job "1 2 3 4" 192.0.2.50 $bench && worked 15
result "rank 0 is behind a program that forwards connections" "$scratch/forwarding"
kill $forwarder
wait $forwarder 2> /dev/null
pids=$(echo "$pids" | sed "s/ $forwarder\$//")
echo 1 > /proc/sys/net/ipv4/conf/n1/forwarding
settings_0=''

# ---- IPv6 only ---------------------------------------------------------------

if [ -e /proc/sys/net/ipv6/conf/all/forwarding ]; then
  echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
  six=0
  for k in $hosts; do
    in_host "$k" ip addr flush dev eth0 && in_host "$k" ip addr flush dev eth1 &&
      ip addr add "fd00:213:$k::1/64" dev "n$k" nodad &&
      in_host "$k" ip addr add "fd00:213:$k::2/64" dev eth0 nodad &&
      in_host "$k" ip addr add "fd00:99::$k/64" dev eth1 nodad &&
      in_host "$k" ip route add default via "fd00:213:$k::1" && six=$((six + 1))
  done
  [ $six -eq 4 ]
  result "the hosts have IPv6 addresses alone"
  for transport in auto tcp; do
    settings=GLOO_TRANSPORT=$transport
    # shellcheck disable=SC2086
    run_job "1 2 3 4 1 2" "[fd00:213:1::2]" $bench && worked 15
    result "six ranks meet over IPv6, rank 0's address in brackets: $transport"
  done

  # A cable between two hosts, with link-local addresses only.
  # shellcheck disable=SC2154
  ip link add eth2 netns "$host1" type veth peer name eth2 netns "$host2" &&
    in_host 1 ip link set eth2 up && in_host 2 ip link set eth2 up &&
    in_host 1 ip addr add fe80::77/64 dev eth2 nodad &&
    in_host 2 ip addr add fe80::78/64 dev eth2 nodad
  settings="GLOO_TRANSPORT=tcp GLOO_SOCKET_IFNAME=eth2"
  # shellcheck disable=SC2086
  run_job "1 2 2" "fe80::77%eth2" $bench && worked 15
  result "ranks meet over link-local addresses"
else
  skipped "ranks meet over IPv6" "this kernel has none"
fi

finish
