#!/bin/sh
# The library exports what gloo_c.map lists, and that is what the headers declare.
# usage: exports.sh PROJECT LIBRARY
set -u
project=$1 library=$2
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

if ! command -v nm >/dev/null; then
  echo "1..0 # SKIP nm (package binutils) is not installed"
  exit 0
fi

# Every symbol but the version's own name.
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
  LC_ALL=C sort >"$work/library"

awk '/local:/ { exit } /^ *[A-Za-z_0-9]+;/ { sub(/;.*/, ""); print $1 }' \
  "$project/gloo_c.map" | LC_ALL=C sort >"$work/map"

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
done | LC_ALL=C sort >"$work/headers"

same() { # number, name, file, file
  if [ -s "$work/$3" ] && diff "$work/$3" "$work/$4" >"$work/diff"; then
    echo "ok $1 - $2"
  else
    echo "# < $3, > $4"
    sed 's/^/# /' "$work/diff"
    echo "not ok $1 - $2"
  fi
}

echo 1..3
same 1 "the library exports what gloo_c.map lists" library map
same 2 "gloo_c.map lists what the headers declare" map headers
if grep -v '^gloo_' "$work/library" >"$work/strays"; then
  sed 's/^/# /' "$work/strays"
  echo "not ok 3 - every exported name starts with gloo_"
else
  echo "ok 3 - every exported name starts with gloo_"
fi
