#!/bin/sh
# What `meson install` leaves behind: the headers, the library, the command, the
# man pages, and the files of pkg-config and CMake; and a program builds and runs with these alone.
# usage: install.sh PROJECT BUILD C_COMPILER LIBRARIES(shared|static|both)
set -u
project=$1 build=$2 c=$3 kinds=$4
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

report() { # number, name, status
  if [ "$3" -eq 0 ]; then
    echo "ok $1 - $2"
  else
    sed 's/^/# /' "$work/messages"
    echo "not ok $1 - $2"
  fi
}

# The very meson that made the build directory, which may not be first in PATH.
install=$(sed -n 's/^ *COMMAND = \(.* install --no-rebuild\)$/\1/p' "$build/build.ninja")

echo 1..4
(cd "$build" && DESTDIR=$work/root sh -c "$install") >"$work/messages" 2>&1
report 1 "meson install works" $?

(cd "$work/root" && find . ! -type d) | sed 's|^.*/include/gloo_c/|include/gloo_c/|
  s|^.*/pkgconfig/|pkgconfig/|; s|^.*/cmake/gloo_c/|cmake/|; s|^.*/man3/|man3/|; s|^.*/bin/|bin/|; s|^.*/\(libgloo_c\.[^/]*\)$|lib/\1|' |
  LC_ALL=C sort >"$work/found"
{
  echo bin/gloo
  echo cmake/gloo_c-config-version.cmake
  echo cmake/gloo_c-config.cmake
  (cd "$project" && ls -d include/gloo_c/*.h)
  [ "$kinds" = shared ] || echo lib/libgloo_c.a
  if [ "$kinds" != static ]; then
    echo lib/libgloo_c.so
    echo lib/libgloo_c.so.0
    echo "lib/libgloo_c.so.$(sed -n "s/^ *version: '\([0-9.]*\)',.*/\1/p" "$project/meson.build")"
  fi
  [ -d "$build/docs/man3" ] &&
    sed -n 's|^ *\(gloo_[a-z_0-9]*\);$|man3/\1.3|p' "$project/gloo_c.map"
  echo pkgconfig/gloo_c.pc
} | LC_ALL=C sort >"$work/expected"
diff "$work/expected" "$work/found" >"$work/messages" 2>&1
report 2 "nothing but headers, library, command, man pages and files that help to find them" $?

pc=$(find "$work/root" -name gloo_c.pc)
lib=$(dirname "$(find "$work/root" -name 'libgloo_c.*' | head -n 1)")
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$work/root"
cat >"$work/hello.c" <<'END'
#include <gloo_c/gloo_c.h>
#include <stdio.h>
int main(void) {
  printf("%s %s\n", gloo_version(), gloo_dtype_name(GLOO_FLOAT32));
  return 0;
}
END
# shellcheck disable=SC2046,SC2086
$c "$work/hello.c" -o "$work/hello" $(pkg-config --cflags --libs gloo_c) \
  >"$work/messages" 2>&1
report 3 "a program builds with the flags of pkg-config" $?

said=$(LD_LIBRARY_PATH=$lib "$work/hello" 2>"$work/messages")
[ "$said" = "$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --modversion gloo_c) float32" ]
report 4 "it runs with the installed library" $?
