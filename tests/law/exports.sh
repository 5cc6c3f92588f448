#!/bin/sh
# The library exports what gloo_c.map lists, and that is what the headers declare.
# usage: exports.sh PROJECT LIBRARY
set -u
project=$1 library=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

if ! command -v nm >/dev/null; then
  echo "1..0 # SKIP nm (package binutils) is not installed"
  exit 0
fi

# Every symbol except the version node itself.
case $library in
  *.dll) x86_64-w64-mingw32-objdump -p "$library" | awk '/Ordinal\/Name Pointer/ { on = 1 } on && /^[ \t]*\[ *[0-9]+\]/ { print $NF }' ;;
  *) nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' ;;
esac | LC_ALL=C sort >"$scratch/library"

awk '/local:/ { exit } /^ *[A-Za-z_0-9]+;/ { sub(/;.*/, ""); print $1 }' \
  "$project/gloo_c.map" | LC_ALL=C sort >"$scratch/map"

# GLOO_API, then up to the opening parenthesis, perhaps lines later.
for header in "$project"/include/gloo_c/*.h; do
  awk '
    /^[ \t]*#/ { next }
    { text = text " " $0 }
    END {
      while ((at = index(text, "/*")) > 0) {
        rest = substr(text, at + 2)
        text = substr(text, 1, at - 1) substr(rest, index(rest, "*/") + 2)
      }
      while ((at = index(text, "GLOO_API")) > 0) {
        text = substr(text, at + 8)
        name = substr(text, 1, index(text, "(") - 1)
        gsub(/[ \t]+$/, "", name)
        sub(/.*[ \t*]/, "", name)
        print name
      }
    }' "$header"
done | LC_ALL=C sort >"$scratch/headers"

same() { # name, file, file
  diff -u "$scratch/$2" "$scratch/$3" >"$scratch/diff" && [ -s "$scratch/$2" ]
  result "$1" "$scratch/diff"
}

same "the library exports what gloo_c.map lists" library map
same "gloo_c.map lists what the headers declare" map headers
grep -v '^gloo_' "$scratch/library" >"$scratch/strays"
[ $? -eq 1 ]
result "every exported name starts with gloo_" "$scratch/strays"
finish
