#!/bin/sh
# The RDMA port that is chosen: by the network of TCP, then speed, then distance. Run with
# the stand-in in LD_LIBRARY_PATH, in a network namespace of its own.
# usage: ports.sh GLOO
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
# shellcheck source=tests/tools/networks.sh
. "$(dirname "$0")/../tools/networks.sh"
enter_network 120 "$0" "$gloo"
unset GLOO_TRANSPORT GLOO_RDMA GLOO_IBV_DEVICE GLOO_SOCKET_IFNAME GLOO_BIND_ADDR
ip link set lo up
for at in a:1 b:2; do
  ip link add "g${at%:*}0" type veth peer name "g${at%:*}9" &&
    ip link set "g${at%:*}0" up && ip link set "g${at%:*}9" up &&
    ip addr add "10.71.${at#*:}.1/24" dev "g${at%:*}0" || exit 99
done
ip addr add 10.71.1.2/24 dev ga0 || exit 99

# chosen PORT INDEX PORTS [VARIABLE...]: is it this port, with this GID?
chosen() {
  port=$1 gid=$2 ports=$3
  shift 3
  equal "$(env "$@" STANDIN_PORTS="$ports" GLOO_LOG_LEVEL=info "$gloo" info 2>&1 |
    sed -n 's/.*RDMA device \([^ ]*\):1: .* GID index \([0-9]*\)$/\1 \2/p' | head -n 1)" "$port $gid"
}

three="lo0:speed=64;a0:gid=10.71.1.1/ga0,speed=32;b0:gid=10.71.2.1/gb0,speed=16"
chosen a0 1 "$three" GLOO_BIND_ADDR=10.71.1.1 && chosen b0 1 "$three" GLOO_BIND_ADDR=10.71.2.1 &&
  chosen lo0 1 "$three" GLOO_BIND_ADDR=127.0.0.1
result "the port has the address that TCP binds"
chosen a0 1 "$three" GLOO_SOCKET_IFNAME=ga0 && chosen b0 1 "$three" GLOO_SOCKET_IFNAME=gb0 &&
  chosen lo0 1 "$three" GLOO_SOCKET_IFNAME=lo
result "it is on the interface that is chosen"
chosen a0 1 "$three" GLOO_SOCKET_IFNAME=ga0,gb0 && chosen a0 1 "$three" GLOO_SOCKET_IFNAME=gb0,ga0 && chosen a0 1 "$three"
result "of several it is the fastest, but none that TCP does not use"
if ip addr add fd71::1/64 dev gb0 nodad 2> /dev/null; then
  chosen b0 1 "$three" GLOO_BIND_ADDR=fd71::1
  result "it is on the interface of the address, if it has another one"
else
  skipped "an address of the interface that the port does not have" "no IPv6"
fi
chosen b0 1 "$three" GLOO_SOCKET_IFNAME=ga0 GLOO_IBV_DEVICE=b0,none
result "GLOO_IBV_DEVICE takes precedence"

chosen c0 2 "c0:gid=10.71.1.1/ga0,gid=10.71.1.2/ga0" GLOO_BIND_ADDR=10.71.1.2 &&
  chosen c0 1 "c0:gid=10.71.1.1/ga0,gid=10.71.1.2/ga0" GLOO_BIND_ADDR=10.71.1.1
result "of the GIDs of a port it is that of the address"
chosen c0 2 "c0:gid=192.0.2.7/ga0,gid=10.71.1.1/ga0" GLOO_SOCKET_IFNAME=ga0 &&
  chosen b0 1 "c0:gid=192.0.2.7/gb0,speed=64;b0:gid=10.71.2.1/gb0" GLOO_SOCKET_IFNAME=gb0
result "GIDs of other network namespaces are left out"
has "$(STANDIN_PORTS=c0:gid=192.0.2.7/ga0 "$gloo" info)" "c0:1 has no RoCE v2 GID with an address of this host" &&
  chosen c0 1 "c0:gid=192.0.2.7/ga0" GLOO_IBV_GID_INDEX=1
result "unless GLOO_IBV_GID_INDEX names one"

mkdir -p "$scratch/far0/device" "$scratch/near0/device" "$scratch/ib1/device/net/gb0"
echo 900-901 > "$scratch/far0/device/local_cpulist"
echo 0-3,4-899 > "$scratch/near0/device/local_cpulist"
chosen near0 1 "far0:sysfs=$scratch;near0:sysfs=$scratch" && chosen near0 1 "near0:sysfs=$scratch;far0:sysfs=$scratch"
result "of equally fast ones it is the nearest"
chosen far0 1 "near0:sysfs=$scratch;far0:sysfs=$scratch,speed=64" && chosen far0 1 "near0:sysfs=$scratch;far0:sysfs=$scratch,width=8"
result "of others the fastest"
two="ib0:link=infiniband,lid=1,speed=64;ib1:link=infiniband,lid=2,speed=32,sysfs=$scratch"
chosen ib1 0 "$two" GLOO_SOCKET_IFNAME=gb0 && chosen ib0 0 "$two" GLOO_SOCKET_IFNAME=ga0
result "on InfiniBand it is that of the interface for IP"
finish
