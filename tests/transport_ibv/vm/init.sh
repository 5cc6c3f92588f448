#!/bin/busybox sh
# shellcheck shell=dash
# The first program of the machine: loads the modules, and mounts the host's files
# at "/". Writes go to memory, except in the folders that the host lists in rw.
export PATH=/bin
/bin/busybox --install -s /bin
mkdir /proc /sys /host /memory /new /share
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs -o mode=755 dev /dev

# Kernel messages have the time, and show how far the machine has come.
say() { echo "<3>vm: $*" >/dev/kmsg; }

fail() { # what
  say "no $*"
  echo "failed no $*" >/share/status
  umount /share
  reboot -f
}

while read -r module; do
  insmod "/modules/$module.ko" || fail "module $module"
done </modules/order
say "modules"

plan9=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $plan9,cache=none share /share || fail "folder of the run"
mount -t 9p -o ro,$plan9,cache=loose root /host || fail "files of the host"
mount -t tmpfs -o mode=755,size=90% memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work root /new ||
  fail "overlay"
mkdir -p /new/proc /new/sys /new/dev /new/run /new/tmp
mount -t tmpfs -o mode=755 run /new/run
mkdir /new/run/vm /new/run/lock
cp /bin/busybox /new/run/
i=0
while IFS= read -r folder; do
  mount -t 9p -o $plan9,cache=mmap,access=any rw$i "/new$folder" || fail "folder $folder"
  i=$((i + 1))
done </share/rw
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
mount --move /share /new/run/vm
cd /new || fail "root"
mount --move . /
exec chroot . /run/busybox sh /run/vm/scripts/machine.sh
