#!/bin/sh
# The second stage of init.sh, as process 1 among the host's files: makes the
# devices, runs the command, stores its status for vm.sh in /run/vm, and stops the
# machine.
# shellcheck disable=SC2154  # rxe and peer, from vm.sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

say() { echo "<3>vm: $*" >/dev/kmsg; }

stop() { # "ended STATUS" or "failed WHY"
  say "$*"
  echo "$*" >/run/vm/status
  /run/busybox umount /run/vm
  /run/busybox reboot -f
}

mount_at() { # type, folder, options
  mkdir -p "$2" && /run/busybox mount -t "$1" -o "$3" "$1" "$2"
}
mount_at devpts /dev/pts mode=620,ptmxmode=666
mount_at tmpfs /dev/shm mode=1777,size=90%
mount_at cgroup2 /sys/fs/cgroup rw
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
echo 0 >/proc/sys/kernel/yama/ptrace_scope
# As many packets as a large message has, so that a fast sender loses none.
echo 65536 >/proc/sys/net/core/netdev_max_backlog

say "root"
/bin/sh /run/vm/scripts/network.sh "$rxe" "$peer" >/run/network 2>&1 || {
  cat /run/network >/dev/console
  stop failed "no RDMA devices"
}
say "devices"
# Each stream has a port.
for port in /sys/class/virtio-ports/*; do
  [ ! -s "$port/name" ] || ln -s "/dev/${port##*/}" "/run/$(cat "$port/name")"
done
[ -c /run/err ] || stop failed "no ports"
say "command"
unset rxe peer
# In a subshell, because this shell's messages about a signal are not output of the
# command.
(exec /run/busybox setsid /bin/bash /run/vm/command </dev/null >/run/out 2>/run/err)
stop ended $?
