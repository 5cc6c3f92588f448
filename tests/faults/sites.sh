#!/bin/sh
# Networks as sites have them: one network of several that all hosts share, a firewall that opens a range of
# ports, translated addresses, hosts with IPv6 only, replies that take another route, and proxies. A job works,
# or fails before its deadline with what an administrator must know.
# usage: sites.sh GLOO SANITIZERS
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
# shellcheck source=tests/tools/networks.sh
. "$(dirname "$0")/../tools/networks.sh"
enter_network 280 "$0" "$@"
command -v python3 > /dev/null || skip "the command python3 is missing"

# ---- hosts, and this router between them -------------------------------------

# host K: 10.214.K.2 on eth0 and 10.215.K.2 on eth1, both by this router, and 192.168.K.1 on own0, which no other
# host reaches. All routes lead through eth0. The process is $host_K.
host() {
  another_network && eval "host_$1=$other" &&
    link_networks "n$1" "10.214.$1.1/24" eth0 "10.214.$1.2/24" &&
    link_networks "m$1" "10.215.$1.1/24" eth1 "10.215.$1.2/24" &&
    link_networks "o$1" "198.51.100.$1/32" own0 "192.168.$1.1/24" &&
    nsenter -t "$other" -n ip route add default via "10.214.$1.1"
}

# in_host K COMMAND...
in_host() {
  eval "inside=\$host_$1"
  shift
  # shellcheck disable=SC2154
  nsenter -t "$inside" -n "$@"
}

sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward' 2> /dev/null || skip "this system does not let namespaces route"
# A reply may leave by another interface, unless a test forbids it.
# shellcheck disable=SC2016
loose() { # COMMAND PREFIX...
  "$@" sh -c 'for each in all default; do echo 0 > /proc/sys/net/ipv4/conf/$each/rp_filter; done'
}
loose env
# A link is up a moment after both of its ends.
# shellcheck disable=SC2317 # wait_until calls it
links_are_up() { # K
  [ "$(in_host "$1" ip -o link show | grep -c 'state UP')" -eq 3 ]
}
made=0
for k in 1 2 3 4 5 6; do
  host $k && loose in_host $k && made=$((made + 1))
done
for k in 1 2 3 4 5 6; do
  wait_until links_are_up $k || made=0
done
equal $made 6
result "six hosts are joined by a router"
[ $made -eq 6 ] || finish

# Hosts 3 and 4 are behind a firewall that knows no connections: it lets ports 28800 to 28809 and those of stores
# pass in both directions, rejects 28900 to 28909, and drops all else.
rules=yes
firewall() { # IPV4 OR IPV6 RULE...
  ip rule add "$@" 2> /dev/null || rules=
}
for k in 3 4; do
  for port in 28800-28809 21000-21099; do
    for side in sport dport; do
      firewall pref 1$k iif n$k ipproto tcp $side $port lookup main
    done
  done
  for side in sport dport; do
    firewall pref 2$k iif n$k ipproto tcp $side 28900-28909 prohibit
  done
  firewall pref 3$k iif n$k ipproto tcp blackhole
done
# Host 5 has IPv6 alone.
in_host 5 ip addr flush dev eth0 && in_host 5 ip addr flush dev eth1 && in_host 5 ip addr flush dev own0
six=
if [ -e /proc/sys/net/ipv6/conf/all/forwarding ]; then
  ip addr add fd00:214:5::1/64 dev n5 nodad && in_host 5 ip addr add fd00:214:5::2/64 dev eth0 nodad && six=yes
fi
# Host 6 is behind a translation of addresses: others reach it at 192.0.2.50 alone, and it reaches no other.
firewall pref 16 to 10.214.6.0/24 iif n1 blackhole
firewall pref 17 to 10.214.6.0/24 iif n2 blackhole
firewall pref 18 to 10.214.0.0/16 iif n6 blackhole

# Programs at addresses of this router.
middles=0
middle() { # KIND ADDRESS...
  middles=$((middles + 1))
  python3 "$(dirname "$0")/middle.py" "$@" > "$scratch/middle.$middles" 2>&1 &
  networks="$networks $!"
}
for address in 192.0.2.50 192.0.2.60 192.0.2.61; do
  ip addr add $address/32 dev lo
done
# shellcheck disable=SC2046
middle relay 192.0.2.50 10.214.6.2 21020 21040 $(seq 28820 28829)
middle drop 192.0.2.60 21041 28840 28841
middle mute 192.0.2.61 21042 28842 28843
# shellcheck disable=SC2064,SC2086
trap "kill $networks; rm -rf \"$scratch\"" EXIT
# shellcheck disable=SC2317 # wait_until calls it
middles_ready() {
  equal "$(cat "$scratch"/middle.* | grep -c ready)" "$middles"
}
wait_until middles_ready
result "programs stand between hosts" "$scratch/middle.1"

# ---- jobs --------------------------------------------------------------------

# rank NAME RANK HOST MASTER_ADDR MASTER_PORT SETTING...: runs one of two ranks; its output goes to NAME.RANK.
rank() {
  out=$scratch/$1.$2 rank=$2 where=$3 master=$4 port=$5
  shift 5
  in_host "$where" env RANK="$rank" WORLD_SIZE=2 MASTER_ADDR="$master" MASTER_PORT="$port" GLOO_TRANSPORT=tcp \
    GLOO_LOG_LEVEL=error GLOO_TIMEOUT=20 GLOO_START_TIMEOUT=20 "$@" timeout -k 5 100 \
    "$gloo" bench allreduce --sizes 8,100000 --iterations 3 --warmup 1 > "$out" 2>&1 < /dev/null
  echo $? > "$out.end"
}

# job NAME HOSTS MASTER_ADDR MASTER_PORT SETTING...: starts rank 0 on the first and rank 1 on the second host. An
# argument 0:SETTING is for rank 0 alone, 1:SETTING for rank 1.
started=
job() {
  name=$1 hosts=$2 master=$3 port=$4 own_0='' own_1='' both=''
  shift 4
  for setting; do
    case $setting in
      0:*) own_0="$own_0 ${setting#0:}" ;;
      1:*) own_1="$own_1 ${setting#1:}" ;;
      *) both="$both $setting" ;;
    esac
  done
  # shellcheck disable=SC2086
  rank "$name" 0 "${hosts% *}" "$master" "$port" $both $own_0 &
  started="$started $!"
  # shellcheck disable=SC2086
  rank "$name" 1 "${hosts#* }" "$master" "$port" $both $own_1 &
  started="$started $!"
}

ended() { # waits for all jobs
  for pid in $started; do
    wait "$pid"
  done
  started=
}

works() { # NAME TEXT
  cat "$scratch/$1".? > "$scratch/$1"
  equal "$(cat "$scratch/$1".?.end | tr '\n' ' ')$(grep -c ' yes$' "$scratch/$1.0")" "0 0 2"
  result "$2" "$scratch/$1"
}

# says NAME TEXT PART...: each rank has failed, and one of them prints all parts.
says() {
  name=$1 text=$2 wrong=
  shift 2
  cat "$scratch/$name".? > "$scratch/$name"
  equal "$(cat "$scratch/$name".?.end | tr '\n' ' ')" "1 1 " || wrong=yes
  for part; do
    has "$(cat "$scratch/$name")" "$part" || wrong=yes
  done
  [ -z "$wrong" ]
  result "$text" "$scratch/$name"
}

# ---- what works --------------------------------------------------------------

job shared "1 2" 10.214.1.2 21010
job block "1 2" 10.214.1.2 21011 GLOO_SOCKET_IFNAME=10.214.0.0/16
job oneway "1 2" 10.214.1.2 21012 GLOO_SOCKET_IFNAME=eth1
[ -z "$rules" ] || job range "3 4" 10.214.3.2 21013 GLOO_PORT_RANGE=28800-28809
[ -z "$rules" ] || job translated "6 1" 192.0.2.50 21020 0:GLOO_BIND_ADDR=0.0.0.0 0:GLOO_PUBLISH_ADDR=192.0.2.50 \
  0:GLOO_PORT_RANGE=28820-28829
ended
works shared "of three networks the only common one is found"
works block "an address block selects it on all hosts, whatever the interfaces are called"
works oneway "replies may take another route"
no_rules="this system has no routing rules for ports"
if [ -n "$rules" ]; then
  works range "a firewall that lets GLOO_PORT_RANGE and the store's port pass is enough"
  works translated "a host behind NAT publishes the address that others see"
else
  skipped "a firewall that lets GLOO_PORT_RANGE and the store's port pass is enough" "$no_rules"
  skipped "a host behind NAT publishes the address that others see" "$no_rules"
fi

# ---- what fails, and what is said --------------------------------------------

for k in 1 2; do
  in_host $k sh -c 'echo 1 > /proc/sys/net/ipv4/conf/eth1/rp_filter'
done
job apart "1 2" 10.214.1.2 21030 GLOO_SOCKET_IFNAME=own0
job strict "1 2" 10.214.1.2 21031 GLOO_SOCKET_IFNAME=eth1
[ -z "$rules" ] || job dropped "3 4" 10.214.3.2 21032
[ -z "$rules" ] || job soon "3 4" 10.214.3.2 21033 GLOO_TIMEOUT=4 GLOO_START_TIMEOUT=4
[ -z "$rules" ] || job rejected "3 4" 10.214.3.2 21034 GLOO_PORT_RANGE=28900-28909
[ -z "$rules" ] || job hidden "6 1" 192.0.2.50 21040 0:GLOO_BIND_ADDR=0.0.0.0
job closes "1 2" 10.214.1.2 21035 0:GLOO_PORT_RANGE=28840 1:GLOO_PORT_RANGE=28841 GLOO_BIND_ADDR=0.0.0.0 \
  GLOO_PUBLISH_ADDR=192.0.2.60
job silent "1 2" 10.214.1.2 21036 0:GLOO_PORT_RANGE=28842 1:GLOO_PORT_RANGE=28843 GLOO_BIND_ADDR=0.0.0.0 \
  GLOO_PUBLISH_ADDR=192.0.2.61 GLOO_TIMEOUT=4 GLOO_START_TIMEOUT=4
# Rank 0 of these is elsewhere, if anywhere.
for each in "store_drops 2 192.0.2.60 21041" "store_mute 2 192.0.2.61 21042" "store_lost 4 10.214.1.2 22000" \
  "store_nowhere 1 203.0.113.1 21043" "store_four 5 10.214.1.2 21044"; do
  # shellcheck disable=SC2086
  set -- $each
  rank "$1" 1 "$2" "$3" "$4" GLOO_START_TIMEOUT=8 &
  started="$started $!"
  cp /dev/null "$scratch/$1.0"
  echo 1 > "$scratch/$1.0.end"
done
ended

says apart "networks that no other host reaches: both ends, the interface and the variable" \
  "cannot connect to rank" "(192.168." " on eth0: " "set GLOO_SOCKET_IFNAME"
says strict "replies by another route are dropped: the probable cause" \
  "cannot connect to rank" "(10.215." " on eth0: no answer within 10 s" "rp_filter"
if [ -n "$rules" ]; then
  says dropped "a firewall drops other ports: the port, and what opens it" \
    "cannot connect to rank" "(10.214." "no answer within 10 s" "a firewall drops" "GLOO_PORT_RANGE"
  says soon "a deadline before that: how long no packet has come" "it is not connected (10.214." "no answer for " \
    "GLOO_PORT_RANGE"
  says rejected "a firewall rejects them: the same" "cannot connect to rank" "(10.214." "a firewall rejects" \
    "GLOO_PORT_RANGE"
  says hidden "a host behind NAT publishes its own address: the variable" "cannot connect to rank" \
    "GLOO_PUBLISH_ADDR"
else
  for what in "a firewall drops other ports: the port, and what opens it" \
    "a deadline before that: how long no packet has come" "a firewall rejects them: the same" \
    "a host behind NAT publishes its own address: the variable"; do
    skipped "$what" "$no_rules"
  done
fi
says closes "a proxy drops connections of ranks" "192.0.2.60:2884" "closed the connection instead of answering" \
  "a proxy" "GLOO_PUBLISH_ADDR"
says silent "a proxy accepts them and says nothing" "192.0.2.61:2884" "accepted the connection, but sent nothing" \
  "a proxy" "GLOO_PUBLISH_ADDR"
says store_drops "a proxy drops connections to the store" "192.0.2.60:21041 closed the connection" "a proxy"
says store_mute "a proxy accepts them and says nothing, too" "192.0.2.61:21042 did not answer" "a proxy"
if [ -n "$rules" ]; then
  says store_lost "a firewall drops packets to the store" "10.214.1.2:22000 did not answer" "10.214.4.2 on eth0" \
    "a firewall"
else
  skipped "a firewall drops packets to the store" "$no_rules"
fi
says store_nowhere "no network has the store's address" "203.0.113.1:21043" "10.214.1.2 on eth0"
if [ -n "$six" ]; then
  says store_four "the store has an IPv4 address, and this host none" "reaches '10.214.1.2'" "this host has no IPv4 network" \
    "eth0 fd00:214:5::2"
else
  skipped "the store has an IPv4 address, and this host none" "this kernel has no IPv6"
fi
finish
