#!/usr/bin/env bash
# Makes the files that vm.sh boots: Debian's kernel (vmlinux), and its modules with
# the first program (initramfs). They are made once for each version of the kernel
# and of this script, and kept. Prints the folder that has both. The status is 77 if
# one of them, or QEMU, is not available: then the machine cannot run.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
. "$here/../../../scripts/lib.sh"

# Each one also needs its dependencies.
modules=(virtio_pci virtio_console virtio_net 9pnet_virtio 9p overlay crc32_generic
  crc32c_generic ib_uverbs rdma_ucm rdma_rxe veth sch_netem sch_tbf sch_prio)

[ "$(uname -m)" = x86_64 ] || die 77 "the virtual machine is for x86-64, and this host is not"
for needed in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio xz:xz-utils \
  dpkg-deb:dpkg apt-get:apt setpriv:util-linux; do
  command -v "${needed%:*}" >/dev/null ||
    die 77 "there is no ${needed%:*}: apt-get install ${needed#*:}"
done
! ldd "$(command -v busybox)" >/dev/null 2>&1 ||
  die 77 "busybox is not a static one: apt-get install busybox-static"

# ---- which -----------------------------------------------------------------------

newest_image() {
  apt-cache depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
}

update_lists() { can_be_root && as_root apt-get update >&2; }

made() { [ -s "$1/initramfs" ]; } # made last

# Files of an older kernel are better than none.
cannot() { # why
  local older
  for older in "$cache"/linux-image-*-"$sum"; do
    made "$older" || continue
    say "$0: $1; ${older##*/} is there"
    echo "$older"
    exit 0
  done
  die 77 "$1"
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/gloo_c/vm
sum=$(cat "$here/kernel.sh" "$here/init.sh" | cksum | cut -d ' ' -f 1)
mkdir -p "$cache" || die 125 "$cache cannot be made"
exec 9>"$cache/lock"
flock 9
image=$(newest_image)
[ -n "$image" ] || { update_lists && image=$(newest_image); }
[ -n "$image" ] || cannot "apt knows no linux-image-amd64: apt-get update"
folder=$cache/$image-$sum
if made "$folder"; then
  touch "$folder"
  echo "$folder"
  exit 0
fi

# ---- its package -------------------------------------------------------------------

# Removes files that were not used for a month.
find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} +
work=$(mktemp -d "$cache/new.XXXXXX") || exit 125
trap 'rm -rf "$work"' EXIT
download() {
  (cd "$work" && apt-get -o APT::Sandbox::User=root download "$image") >"$work/log" 2>&1
}
say "downloading $image"
download || { update_lists && download; } ||
  cannot "$image cannot be downloaded: $(tail -n 1 "$work/log")"
mkdir -p "$work/package" "$work/made" "$work/root/modules" "$work/root/bin"
dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb |
  tar -x -C "$work/package" --wildcards './boot/vmlinuz-*' './lib/modules/*/kernel/*' \
    --exclude='*/drivers/gpu/*' --exclude='*/drivers/media/*' --exclude='*/sound/*' ||
  die 125 "$image cannot be unpacked"

# The kernel in the bzImage, which QEMU starts without unpacking it first. The header
# described in Documentation/x86/boot.rst has its position.
number() { od -An -tu"$2" -j"$1" -N"$2" "$work/bzImage" | tr -d ' '; } # offset, size
mv "$work"/package/boot/vmlinuz-* "$work/bzImage"
sectors=$(number 497 1) offset=$(number 584 4) length=$(number 588 4)
# The last four bytes are the unpacked size.
tail -c +$(((sectors + 1) * 512 + offset + 1)) "$work/bzImage" | head -c $((length - 4)) |
  xz -dc --single-stream >"$work/made/vmlinux" ||
  die 125 "the kernel in $image cannot be unpacked"

# ---- its modules -------------------------------------------------------------------

# Checking signatures would take the kernel a second. A signature ends with its
# length (4 bytes, big-endian) and a marker of 28 bytes.
drop_signature() { # file
  local length
  tail -c 28 "$1" | grep -q '^~Module signature appended~$' || return 0
  length=$(tail -c 32 "$1" | head -c 4 | od -An -tu4 --endian=big)
  truncate -s $(($(stat -c %s "$1") - 28 - 12 - length)) "$1"
}

# In loading order: each after its dependencies.
add_module() { # name
  local file need
  [ ! -e "$work/root/modules/$1.ko" ] || return 0
  file=$(find "$work/package/lib" -name "${1//_/[_-]}.ko*" | head -n 1)
  [ -n "$file" ] || return 0 # part of the kernel
  case $file in
    *.xz) xz -dc "$file" ;;
    *) cat "$file" ;;
  esac >"$work/root/modules/$1.ko"
  drop_signature "$work/root/modules/$1.ko"
  for need in $(tr '\0' '\n' <"$work/root/modules/$1.ko" | sed -n 's/^depends=//p' | tr ',-' ' _'); do
    add_module "$need"
  done
  echo "$1" >>"$work/root/modules/order"
}
for module in "${modules[@]}"; do add_module "$module"; done
grep -q '^rdma_rxe$' "$work/root/modules/order" || die 125 "$image has no rdma_rxe"

cp "$(command -v busybox)" "$work/root/bin/busybox"
cp "$here/init.sh" "$work/root/init"
chmod 755 "$work/root/init"
(cd "$work/root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$work/made/initramfs" ||
  die 125 "the initramfs cannot be made"
rm -rf "$folder"
mv "$work/made" "$folder"
echo "$folder"
