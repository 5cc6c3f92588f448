#!/bin/sh
# shellcheck disable=SC2016,SC2046
# Jobs of ranks of Linux and of Windows (under wine) together, and the same training on both.
# usage: mixed.sh WINE GLOO RANK DIGITS SOURCE BUILD
# Builds the library for this system in BUILD/linux.
wine=$1 gloo=$2 rank=$3 digits=$4 source=$5 build=$6
# shellcheck source=tests/wine/lib.sh
. "$(dirname "$0")/lib.sh"

native=$build/linux
if [ ! -f "$native/build.ninja" ]; then
  meson setup "$native" "$source" -Dtests=false -Dbuildtype=debug -Doptimization=g > "$scratch/log" 2>&1 || rm -f "$native/build.ninja"
fi
ninja -C "$native" tools/gloo examples/digits examples/data/digits.csv > "$scratch/log" 2>&1 &&
  ${CC:-cc} -o "$native/wine_rank" "$source/tests/wine/rank.c" -I"$source/include" -L"$native" -lgloo_c \
    -Wl,-rpath,"$native" $(pkg-config --cflags --libs libuv) > "$scratch/log" 2>&1
result "the library is built for this system" "$scratch/log"

port=$("$native/tools/gloo" run -n 1 -- sh -c 'echo $MASTER_PORT')
# begin RANK RANKS PROGRAM...: a rank of the job, in the background.
begin() {
  r=$1 n=$2
  shift 2
  RANK=$r WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port GLOO_TRANSPORT=tcp GLOO_SECURITY=off "$@" > "$scratch/rank$r" 2>&1 &
}
# job ARGUMENT...: two ranks; rank $windows is one of Windows.
job() {
  port=$((port + 1))
  if [ "$windows" = 0 ]; then
    begin 0 2 "$wine" "$rank" "$@"
    begin 1 2 "$native/wine_rank" "$@"
  else
    begin 0 2 "$native/wine_rank" "$@"
    begin 1 2 "$wine" "$rank" "$@"
  fi
  wait
  tr -d '\r' < "$scratch/rank0" > "$scratch/all"
  tr -d '\r' < "$scratch/rank1" >> "$scratch/all"
}

port=$((port + 1))
begin 0 2 "$native/wine_rank" check
begin 1 2 "$native/wine_rank" check
wait
right=$(sed -n 's/.*hash //p' "$scratch/rank0")
for windows in 0 1; do
  job check
  equal "$(cat "$scratch/all")" "rank 0 of 2: hash $right
rank 1 of 2: hash $right"
  result "allreduce, broadcast and barrier with rank $windows on Windows give the bits of Linux alone" "$scratch/all"
  for victim in 0 1; do
    job killed $victim
    equal "$(grep -c "rank $((1 - victim)): .* names rank $victim: " "$scratch/all")" 1
    result "with rank $windows on Windows, rank $victim is killed and named" "$scratch/all"
  done
done

# trained FILE: the lines without times.
trained() {
  tr -d '\r' < "$1" | sed 's/ %  .*/ %/'
}
data=$native/examples/data/digits.csv
GLOO_TRANSPORT=tcp "$native/tools/gloo" run -n 4 -- "$native/examples/digits" "$data" > "$scratch/linux" 2>&1
equal $? 0
result "four ranks of Linux train" "$scratch/linux"
GLOO_TRANSPORT=tcp "$wine" "$gloo" run -n 4 -- "$digits" "$data" > "$scratch/wine" 2> "$scratch/err" < /dev/null
equal $? 0 && grep -q "^weights of rank 3: " "$scratch/wine"
result "four ranks of Windows train" "$scratch/err"
trained "$scratch/linux" > "$scratch/a"
trained "$scratch/wine" | diff "$scratch/a" - > "$scratch/difference"
result "both print the same losses, and hashes of the weights" "$scratch/difference"
finish
