#!/bin/sh
# A path that drops long packets silently: hosts and a router have an MTU of 1500, and the last link takes 1000
# bytes, or 1280 with IPv6, although its host announces an MSS for 1500. Handshakes and short messages get
# through, so the error must say more than that the other rank does not answer.
# usage: path_mtu.sh GLOO [WITH_CERTIFICATES]: a program that creates certificates
gloo=$1 with_certificates=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
# shellcheck source=tests/tools/networks.sh
. "$(dirname "$0")/../tools/networks.sh"
enter_network 240 "$0" "$@"

# ---- hosts, and this router between them -------------------------------------

# host N: creates host 10.213.N.1 behind 10.213.N.2 of the router. Packets leave one by one, without offload.
host() {
  near=gr$1 far=gh$1 network=10.213.$1
  another_network && link_networks "$near" "$network.2/24" "$far" "$network.1/24" &&
    nsenter -t "$other" -n ip link set "$far" gso_max_segs 1 &&
    nsenter -t "$other" -n ip route add default via "$network.2" advmss 1460
}

# six N: gives that host fd00:213:N::1, too.
six() {
  ip addr add "fd00:213:$1::2/64" dev "gr$1" nodad &&
    nsenter -t "$other" -n ip addr add "fd00:213:$1::1/64" dev "gh$1" nodad &&
    nsenter -t "$other" -n ip route add default via "fd00:213:$1::2" advmss 1440
}
sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward' 2> /dev/null || skip "this system does not let namespaces route"
has_six=
sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/forwarding' 2> /dev/null && has_six=yes
host 81
joined=$?
first=$other
[ -z "$has_six" ] || six 81 || has_six=
host 82 && nsenter -t "$other" -n ip link set gh82 mtu 1000
equal "$? $joined" "0 0"
result "two hosts are joined by a router"
second=$other
host 83 && nsenter -t "$other" -n ip link set gh83 mtu 1280
[ -z "$has_six" ] || six 83 || has_six=
third=$other
[ -z "$has_six" ] || nsenter -t "$third" -n ip addr del 10.213.83.1/24 dev gh83

# job SIZE HOST MASTER_ADDR COMMAND...: runs the lower half of the ranks on the first host and the others on HOST, a
# process of it, and sets $ends to their statuses. Output goes to all.RANK, and that of all ranks to all.
port=20300
tls=''
job() {
  size=$1 last=$2 master=$3 rank=0 begun='' ends=''
  shift 3
  port=$((port + 1))
  rm -f "$scratch"/all*
  while [ $rank -lt "$size" ]; do
    place=$first
    [ $rank -lt $((size / 2)) ] || place=$last
    # shellcheck disable=SC2086
    nsenter -t "$place" -n env $tls RANK=$rank WORLD_SIZE="$size" MASTER_ADDR="$master" MASTER_PORT=$port \
      GLOO_TRANSPORT=auto GLOO_MEASURE=0 GLOO_HEARTBEAT=2 GLOO_START_TIMEOUT=15 GLOO_LOG_LEVEL=warn \
      timeout -k 5 100 "$@" > "$scratch/all.$rank" 2>&1 < /dev/null &
    begun="$begun $!"
    rank=$((rank + 1))
  done
  for pid in $begun; do
    wait "$pid"
    ends="$ends $?"
  done
  cat "$scratch"/all.* > "$scratch/all"
}

# ---- short and long messages -------------------------------------------------

job 2 "$second" 10.213.81.1 "$gloo" bench allreduce --sizes 4 --iterations 3
equal "$ends" " 0 0"
result "short messages get through" "$scratch/all"

job 2 "$second" 10.213.81.1 "$gloo" bench allreduce --sizes 100000 --iterations 3
equal "$ends" " 1 1" && has "$(cat "$scratch/all")" "short messages to rank" &&
  has "$(cat "$scratch/all")" " from 10.213.81.1 on gh81) were acknowledged" &&
  has "$(cat "$scratch/all")" "check the MTU of the path"
result "a long one does not, and the error says what to check" "$scratch/all"

job 2 "$second" 10.213.81.1 "$gloo" bench broadcast --sizes 100000 --iterations 3
equal "$ends" " 1 1" && has "$(cat "$scratch/all.0")" "check the MTU of the path" &&
  has "$(cat "$scratch/all.1")" "check the MTU of the path"
result "the rank that receives nothing learns it, too" "$scratch/all"

if [ -n "$has_six" ]; then
  job 2 "$third" fd00:213:81::1 "$gloo" bench allreduce --sizes 100000 --iterations 3 --transport tcp
  equal "$ends" " 1 1" && has "$(cat "$scratch/all")" " from fd00:213:81::1 on gh81) were acknowledged" &&
    has "$(cat "$scratch/all")" "check the MTU of the path"
  result "with IPv6 as well" "$scratch/all"
else
  skipped "with IPv6 as well" "this kernel has none"
fi

# ---- a long reply of the store -----------------------------------------------

job 16 "$second" 10.213.81.1 "$gloo" bench allreduce --sizes 4 --iterations 3
equal "$ends" " 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1" &&
  has "$(cat "$scratch/all.0")" "cannot deliver" && has "$(cat "$scratch/all.0")" "check the MTU of the path" &&
  has "$(cat "$scratch/all.9")" "the path drops long packets"
result "while ranks meet, rank 0 and those that wait for a reply say so" "$scratch/all"

what="a certificate is too long for the path as well"
if [ -n "$with_certificates" ]; then
  # The certificates exist as long as this test.
  "$with_certificates" DNS:job.example /bin/sh -c \
    "env | grep ^GLOO_TLS > '$scratch/tls'; while [ -d '$scratch' ]; do sleep 0.2; done" &
  wait_until grep -q GLOO_TLS_NAME "$scratch/tls"
  tls=$(cat "$scratch/tls")
  job 2 "$second" 10.213.81.1 "$gloo" bench allreduce --sizes 4 --iterations 3
  equal "$ends" " 1 1" && has "$(cat "$scratch/all.0")" "cannot deliver" &&
    has "$(cat "$scratch/all.1")" "the path drops long packets"
  result "$what" "$scratch/all"
else
  skipped "$what" "this build has no TLS"
fi
finish
