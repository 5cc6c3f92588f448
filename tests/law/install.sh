#!/bin/sh
# The files that `meson install` installs: headers, library, command, its completion, man pages, and
# files for pkg-config, CMake, Prometheus and Grafana. A program builds and runs with these alone.
# usage: install.sh PROJECT BUILD C_COMPILER LIBRARIES(shared|static|both)
set -u
project=$1 build=$2 c=$3 kinds=$4
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

# The meson that made the build directory, which may not be first in PATH.
install=$(sed -n 's/^ *COMMAND = \(.* install --no-rebuild\)$/\1/p' "$build/build.ninja")

(cd "$build" && DESTDIR=$scratch/root sh -c "$install") >"$scratch/messages" 2>&1
result "meson install works" "$scratch/messages"

(cd "$scratch/root" && find . ! -type d) | sed 's|^.*/include/gloo_c/|include/gloo_c/|
  s|^.*/pkgconfig/|pkgconfig/|; s|^.*/cmake/gloo_c/|cmake/|; s|^.*/man1/|man1/|; s|^.*/man3/|man3/|; s|^.*/bin/|bin/|; s|^.*/share/gloo_c/|share/|
  s#^.*/\(bash-completion\|zsh\|fish\)/#\1/#; s|^.*/\(libgloo_c\.[^/]*\)$|lib/\1|' |
  LC_ALL=C sort >"$scratch/found"
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
  [ -f "$build/tools/gloo.1" ] && echo man1/gloo.1
  if [ -f "$build/tools/gloo.bash" ]; then
    printf '%s\n' bash-completion/completions/gloo.bash zsh/site-functions/_gloo fish/vendor_completions.d/gloo.fish
  fi
  echo pkgconfig/gloo_c.pc
  echo share/grafana-board.json
  echo share/prometheus.yml
} | LC_ALL=C sort >"$scratch/expected"
diff "$scratch/expected" "$scratch/found" >"$scratch/messages" 2>&1
result "nothing but headers, library, command, completion, man pages and files for other programs" "$scratch/messages"

pc=$(find "$scratch/root" -name gloo_c.pc)
lib=$(dirname "$(find "$scratch/root" -name 'libgloo_c.*' | head -n 1)")
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$scratch/root"
if [ "$kinds" = shared ]; then
  PKG_CONFIG_LIBDIR=${pc%/*} pkg-config --cflags --libs gloo_c >"$scratch/messages" 2>&1
  result "its flags need no other package" "$scratch/messages"
fi
cat >"$scratch/hello.c" <<'END'
#include <gloo_c/gloo_c.h>
#include <stdio.h>
int main(void) {
  printf("%s %s\n", gloo_version(), gloo_dtype_name(GLOO_FLOAT32));
  return 0;
}
END
# shellcheck disable=SC2046,SC2086
$c "$scratch/hello.c" -o "$scratch/hello" $(pkg-config --cflags --libs gloo_c) \
  >"$scratch/messages" 2>&1
result "a program builds with the flags of pkg-config" "$scratch/messages"

said=$(LD_LIBRARY_PATH=$lib "$scratch/hello" 2>"$scratch/messages")
[ "$said" = "$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --modversion gloo_c) float32" ]
result "it runs with the installed library" "$scratch/messages"
finish
