#!/bin/sh
# Each public header compiles alone, twice in one file, as C11 and as C++17.
# usage: headers.sh INCLUDE_DIRECTORY C_COMPILER CXX_COMPILER
# The compilers may be several words; the last may be empty.
set -u
include=$1 c=$2 cxx=$3
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
strict="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I$include"
number=0

compiles() { # name, compiler and flags...
  number=$((number + 1))
  name=$1
  shift
  if "$@" >"$work/messages" 2>&1; then
    echo "ok $number - $name"
  else
    sed 's/^/# /' "$work/messages"
    echo "not ok $number - $name"
  fi
}

for path in "$include"/gloo_c/*.h; do
  header=gloo_c/${path##*/}
  printf '#include "%s"\n#include "%s"\nextern int nothing;\n' \
    "$header" "$header" >"$work/alone.c"
  cp "$work/alone.c" "$work/alone.cc"
  # The flags and a compiler of several words are meant to be split.
  # shellcheck disable=SC2086
  compiles "$header as C11" $c -std=c11 $strict "$work/alone.c"
  if [ -n "$cxx" ]; then
    # shellcheck disable=SC2086
    compiles "$header as C++17" $cxx -std=c++17 $strict "$work/alone.cc"
  else
    number=$((number + 1))
    echo "ok $number - $header as C++17 # SKIP no C++ compiler (package g++)"
  fi
done
echo "1..$number"
