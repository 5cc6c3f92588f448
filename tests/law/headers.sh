#!/bin/sh
# Each public header compiles alone, twice in one file, as C11 and as C++17.
# usage: headers.sh INCLUDE_DIRECTORY C_COMPILER CXX_COMPILER
# The compilers may be several words; the last may be empty.
set -u
include=$1 c=$2 cxx=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
strict="-Wall -Wextra -Wpedantic -Werror -c -o $scratch/alone.o -I$include"

compiles() { # name, compiler and flags...
  name=$1
  shift
  "$@" >"$scratch/messages" 2>&1
  result "$name" "$scratch/messages"
}

for path in "$include"/gloo_c/*.h; do
  header=gloo_c/${path##*/}
  printf '#include "%s"\n#include "%s"\nextern int nothing;\n' \
    "$header" "$header" >"$scratch/alone.c"
  cp "$scratch/alone.c" "$scratch/alone.cc"
  # The flags and a compiler of several words are meant to be split.
  # shellcheck disable=SC2086
  compiles "$header as C11" $c -std=c11 $strict "$scratch/alone.c"
  if [ -n "$cxx" ]; then
    # shellcheck disable=SC2086
    compiles "$header as C++17" $cxx -std=c++17 $strict "$scratch/alone.cc"
  else
    skipped "$header as C++17" "no C++ compiler (package g++)"
  fi
done
finish
