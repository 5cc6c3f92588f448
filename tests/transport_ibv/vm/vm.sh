#!/usr/bin/env bash
# Runs a command in a small virtual machine that has software RDMA devices
# (soft-RoCE, the kernel's rdma_rxe). It uses QEMU without acceleration, and needs
# neither root nor /dev/kvm. All files of this host are visible at their paths;
# writes are lost with the machine, except in the folders of --rw.
#
# usage: vm.sh build                            make what it boots: see kernel.sh
#        vm.sh run [option...] [--] COMMAND...  as root, with this environment
#   --cpus N        processors (2)
#   --mem MIB       memory (1024)
#   --timeout S     seconds for all of it, the boot included (120)
#   --rw FOLDER     what is written there stays; may be repeated
#   --rxe WHAT      which devices (lo); each has its IPv4 address as GID 1
#                     lo: rxe_lo, 127.0.0.1, without rdma_cm and netem
#                     veth: rxe_veth0, 10.98.0.1, and rxe_veth1, 10.98.0.2, which
#                       packets cross for real
#                     all: the three; none
#   --peer PATH,ID  rxe_eth0 as well, 10.99.0.1 for ID 0 and 10.99.0.2 for ID 1: the
#                   ends of an Ethernet between two machines, sockets PATH.0 and PATH.1
#   --console FILE  where to write what the kernel says
#
# The status is the command's, 128 + N when signal N ended it; 124 when the time was
# up; 125 when the machine failed, and there is none; 77 when there is no machine,
# because QEMU or a kernel cannot be had.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
. "$here/../../../scripts/lib.sh"

usage() {
  sed -n '/^# usage:/,/^#$/s/^# \?//p' "$0" >&2
  die 125 "$1"
}

case ${1:-} in
  build) exec bash "$here/kernel.sh" ;;
  run) shift ;;
  *) usage "it is 'build' or 'run'" ;;
esac
cpus=2 mem=1024 limit=120 rxe=lo peer='' console='' rw=()
while [ $# -gt 1 ]; do
  case $1 in
    --cpus) cpus=$2 ;;
    --mem) mem=$2 ;;
    --timeout) limit=$2 ;;
    --rw) rw+=("$(realpath -e "$2")") || usage "there is no $2" ;;
    --rxe) rxe=$2 ;;
    --peer) peer=$2 ;;
    --console) console=$2 ;;
    --)
      shift
      break
      ;;
    -*) usage "unknown option $1" ;;
    *) break ;;
  esac
  shift 2
done
[[ ${1:--} != -* ]] || usage "which command?"
[[ $rxe =~ ^(lo|veth|all|none)$ ]] || usage "--rxe $rxe"
[[ ,$peer =~ ,[01]?$ ]] || usage "--peer $peer"
kernel=$(bash "$here/kernel.sh") || exit $(($? == 77 ? 77 : 125))

# ---- what the machine gets -----------------------------------------------------

dir=$(mktemp -d) || exit 125
trap 'rm -rf "$dir"' EXIT
: "${console:=$dir/console}"
mkfifo "$dir/out" "$dir/err"
mkdir "$dir/share"
ln -s "$here" "$dir/share/scripts"
{
  export -p
  printf 'PATH+=:/usr/local/sbin:/usr/sbin:/sbin\ncd %q || exit 125\nexec' "$PWD"
  printf ' %q' "$@"
} >"$dir/share/command"

devices=()
add_folder() { # name, folder, [options]
  devices+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap${3:-}"
    -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}
add_port() { # number, name
  devices+=(-chardev "file,id=$2,path=${dir//,/,,}/$2"
    -device "virtserialport,chardev=$2,nr=$1,name=$2")
}
add_folder root / ,readonly=on
add_folder share "$dir/share"
for i in "${!rw[@]}"; do
  add_folder "rw$i" "${rw[i]}"
  printf '%s\n' "${rw[i]}"
done >"$dir/share/rw"
devices+=(-device virtio-serial-pci)
add_port 1 out
add_port 2 err
if [ -n "$peer" ]; then
  link=${peer%,*} id=${peer##*,}
  peer=$id
  devices+=(-device "virtio-net-pci,netdev=link,mac=52:54:00:99:00:0$id" -netdev
    "dgram,id=link,local.type=unix,local.path=$link.$id,remote.type=unix,remote.path=$link.$((1 - id))")
fi
# Faster than QEMU's default firmware.
[ ! -f /usr/share/qemu/qboot.rom ] || devices+=(-bios qboot.rom)
# The first line ends the machine when its kernel fails or reboots; the next ones save
# time; the last is the environment of its first program.
append="console=ttyS0 net.ifnames=0 reboot=t panic=-1 oops=panic quiet loglevel=4
  mitigations=off nopti nokaslr random.trust_cpu=on tsc=reliable no_timer_check apparmor=0
  audit=0 nowatchdog rcupdate.rcu_expedited=1 cryptomgr.notests=1 8250.nr_uarts=1
  rxe=$rxe peer=$peer"

# ---- the run -------------------------------------------------------------------

# If the caller stops reading, the second cat continues, so that the machine does
# not block.
{ cat; cat >/dev/null; } <"$dir/out" &
readers=("$!")
{ cat; cat >/dev/null; } <"$dir/err" >&2 &
readers+=("$!")
# Opens writers here, because otherwise the readers would wait forever if the machine
# fails early.
exec 8<>"$dir/out" 9<>"$dir/err"
SECONDS=0
# q35, not microvm: without its HPET a kernel on a busy host may find no clock. A
# processor without AVX boots faster.
setpriv --pdeathsig TERM timeout --foreground -k 5 "$limit" qemu-system-x86_64 \
  -M q35,graphics=off,smbus=off,sata=off,usb=off,vmport=off -accel tcg,thread=multi,tb-size=256 \
  -cpu Nehalem,+rdrand -smp "$cpus" -m "$mem" -nodefaults -no-user-config -no-reboot \
  -display none -monitor none -nic none -kernel "$kernel/vmlinux" -initrd "$kernel/initramfs" \
  -append "${append//$'\n'/}" -chardev "file,id=console,path=${console//,/,,}" \
  -serial chardev:console "${devices[@]}" </dev/null >"$dir/qemu" 2>&1 8>&- 9>&- &
machine=$!
trap 'kill $machine' TERM INT HUP
while
  wait "$machine"
  status=$?
  kill -0 "$machine" 2>/dev/null
do :; done
trap '' TERM INT HUP
exec 8>&- 9>&-
wait "${readers[@]}"

word='' rest=''
[ ! -s "$dir/share/status" ] || read -r word rest <"$dir/share/status"
[ "$word" != ended ] || exit "$rest"
tail -n 60 "$console" "$dir/qemu" >&2
[ "$SECONDS" -lt "$limit" ] || die 124 "the time is up: $limit s"
die 125 "the machine failed: ${rest:-no status came back} (QEMU's is $status)"
