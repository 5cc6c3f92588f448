#!/bin/sh
# A path that drops long packets silently: two hosts and a router have an MTU of 1500, and the last link
# takes 1000 bytes, although its host announces an MSS of 1460. Handshakes and short messages get through,
# so the error must say more than that the other rank does not answer.
# usage: path_mtu.sh GLOO
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
# shellcheck source=tests/tools/networks.sh
. "$(dirname "$0")/../tools/networks.sh"
enter_network 240 "$0" "$@"

# ---- two hosts, and this router between them ---------------------------------

# host N: creates host 10.213.N.1 behind 10.213.N.2 of the router. Packets leave one by one, without offload.
host() {
  near=gr$1 far=gh$1 network=10.213.$1
  another_network && link_networks "$near" "$network.2/24" "$far" "$network.1/24" &&
    nsenter -t "$other" -n ip link set "$far" gso_max_segs 1 &&
    nsenter -t "$other" -n ip route add default via "$network.2" advmss 1460
}
sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward' 2> /dev/null || skip "this system does not let namespaces route"
host 81
joined=$?
first=$other
host 82 && nsenter -t "$other" -n ip link set gh82 mtu 1000
equal "$? $joined" "0 0"
result "two hosts are joined by a router"
second=$other

# on PID RANK COMMAND...: runs a rank in the namespace of PID.
on() {
  pid=$1 rank=$2
  shift 2
  nsenter -t "$pid" -n env RANK="$rank" WORLD_SIZE=2 MASTER_ADDR=10.213.81.1 MASTER_PORT=20301 GLOO_TRANSPORT=tcp \
    GLOO_MEASURE=0 GLOO_HEARTBEAT=2 GLOO_LOG_LEVEL=error timeout -k 5 100 "$@" > "$scratch/all.$rank" 2>&1
}

# job COMMAND...: runs both ranks and sets $ends to their statuses.
job() {
  on "$first" 0 "$@" &
  begun=$!
  on "$second" 1 "$@"
  ends=$?
  wait $begun
  ends="$? $ends"
}

# ---- short and long messages -------------------------------------------------

job "$gloo" bench allreduce --sizes 4 --iterations 3
equal "$ends" "0 0"
result "short messages get through" "$scratch/all.0"

job "$gloo" bench allreduce --sizes 100000 --iterations 3
cat "$scratch"/all.? > "$scratch/all"
equal "$ends" "1 1" && has "$(cat "$scratch/all")" "short messages to rank" &&
  has "$(cat "$scratch/all")" "check the MTU of the path"
result "a long one does not, and the error says what to check" "$scratch/all"
finish
