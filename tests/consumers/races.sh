#!/bin/sh
# A program of another project, built with the thread sanitizer, has no races in its
# memory. The library must be built with it as well, as this build is: otherwise the
# sanitizer does not see how its threads synchronise, and reports ordered accesses as
# races. The test uses this build, installed into a temporary folder.
# usage: races.sh PROJECT BUILD C_COMPILER
set -u
project=$1 build=$2 c=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
export TSAN_OPTIONS="halt_on_error=1:exitcode=66:suppressions=$project/tests/thread.supp"

# The meson that made the build directory, which may not be first in PATH.
install=$(sed -n 's/^ *COMMAND = \(.* install --no-rebuild\)$/\1/p' "$build/build.ninja")
(cd "$build" && DESTDIR=$scratch/root sh -c "$install --tags runtime,devel --skip-subprojects") \
  >"$scratch/messages" 2>&1
result "the library is installed" "$scratch/messages"

pc=$(find "$scratch/root" -name gloo_c.pc)
lib=$(dirname "$(find "$scratch/root" -name 'libgloo_c.*' | head -n 1)")
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$scratch/root"
# shellcheck disable=SC2046,SC2086
$c -g -O1 -fsanitize=thread "$project/tests/consumers/races.c" -o "$scratch/races" \
  $(pkg-config --cflags --libs gloo_c) -pthread >"$scratch/messages" 2>&1
result "a program builds with it" "$scratch/messages"

export LD_LIBRARY_PATH="$lib"
"$scratch/races" >"$scratch/messages" 2>&1
result "no race is found" "$scratch/messages"

"$scratch/races" race >"$scratch/messages" 2>&1
[ $? -eq 66 ] && grep -q 'data race.*races.c' "$scratch/messages"
result "but one that is there" "$scratch/messages"
finish
