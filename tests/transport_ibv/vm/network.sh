#!/bin/sh
# The machine's networks and RDMA devices.
# usage: network.sh lo|veth|all|none [0|1]
set -e
what=$1 peer=$2 links='' devices=''
add_rxe() { devices="${devices}link add rxe_$1 type rxe netdev $1
"; }

case $what in lo | all) add_rxe lo ;; esac
# Two ends of one cable in one kernel: with these rules a packet from one end's
# address to the other's goes through the cable, not through lo. So it arrives at
# a device with rxe, and passes a queueing discipline.
case $what in veth | all)
  links="
    link add veth0 mtu 4200 type veth peer name veth1 mtu 4200
    rule add pref 200 lookup local
    rule del pref 0"
  for i in 0 1; do
    own=10.98.0.$((i + 1)) other=10.98.0.$((2 - i)) table=$((101 + i))
    links="$links
      addr add $own/32 dev veth$i
      link set veth$i up
      route add $other dev veth$i src $own table $table
      rule add pref 10$i oif veth$i to $other lookup $table
      rule add pref 11$i iif lo from $own to $other lookup $table"
    add_rxe veth$i
  done
  ;;
esac
if [ -n "$peer" ]; then
  links="$links
    addr add 10.99.0.$((peer + 1))/24 dev eth0
    link set eth0 up"
  add_rxe eth0
fi
echo 1 >/proc/sys/net/ipv4/conf/default/accept_local
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter
echo "link set lo up $links" | ip -batch -
[ -z "$devices" ] || printf %s "$devices" | rdma -b -
for device in /dev/infiniband/*; do
  [ ! -c "$device" ] || chmod 666 "$device"
done
