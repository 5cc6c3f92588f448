#!/bin/sh
# The pages for users of Gloo, MPI or NCCL: their programs are the examples, which
# work as described, and no page uses a name that does not exist.
# usage: migration.sh GLOO FROM_GLOO FROM_MPI FROM_NCCL
gloo=$1 from_gloo=$2 from_mpi=$3 from_nccl=$4
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
project=$(dirname "$0")/../..

for from in gloo mpi nccl; do
  page=$project/docs/migrate/from-$from.md
  awk '/^```c$/ { on = 1; next } on && /^```$/ { exit } on' "$page" > "$scratch/shown"
  diff "$scratch/shown" "$project/examples/from_$from.c" > "$scratch/diff" ||
    { sed 's/^/# /' "$scratch/diff"; false; }
  result "from-$from.md shows examples/from_$from.c"

  # Our names are all gloo_... names, and the GLOO_... names in a table's second
  # column.
  { grep -o 'gloo_[a-z0-9_]*[a-z0-9]' "$page"
    awk -F'|' '/^\|/ { print $3 }' "$page" | grep -o 'GLOO_[A-Z0-9_]*[A-Z0-9]'
  } | sort -u > "$scratch/names"
  absent=$(while read -r name; do
    grep -rqw "$name" "$project/include" || grep -rqw "\"$name\"" "$project/src" "$project/python" ||
      echo "$name"
  done < "$scratch/names")
  [ "$(grep -c . "$scratch/names")" -gt 20 ] && equal "$absent" ""
  result "from-$from.md names only what there is"
done

for ranks in 1 2 3; do
  # shellcheck disable=SC2016
  out=$("$gloo" run -n $ranks -- sh -c 'exec "$0" "$RANK" "$WORLD_SIZE" "$1"' \
    "$from_gloo" "$scratch/store.$ranks" | sort)
  case $ranks in
    1) expected="all ranks together: loss 0.000
rank 0: weights 0.000 1.000 2.000 3.000" ;;
    2) expected="all ranks together: loss 1.000
rank 0: weights 0.500 1.500 2.500 3.500
rank 1: weights 0.500 1.500 2.500 3.500" ;;
    3) expected="all ranks together: loss 4.000
rank 0: weights 1.000 2.000 3.000 4.000
rank 1: weights 1.000 2.000 3.000 4.000
rank 2: weights 1.000 2.000 3.000 4.000" ;;
  esac
  equal "$out" "$expected"
  result "from_gloo: $ranks ranks meet in a directory and agree on the average"
done

out=$("$from_gloo" 2 2 "$scratch/store" 2>&1)
equal $? 1 && has "$out" "rank 2 is out of range for a context of size 2"
result "from_gloo: a rank that is none is said"

alone=$(env -u RANK -u WORLD_SIZE "$from_mpi")
equal "$(echo "$alone" | wc -l)" 8 && has "$alone" "point  0: "
result "from_mpi runs alone"
for ranks in 2 3 4; do
  out=$("$gloo" run -n $ranks -- "$from_mpi")
  equal "$out" "$alone"
  result "from_mpi: $ranks ranks get the same numbers as one"
done

out=$("$gloo" run -n 3 -- "$from_nccl" | sort)
equal "$out" "rank 0: weights 1.000 2.000 3.000
rank 1: weights 1.000 2.000 3.000
rank 2: weights 1.000 2.000 3.000"
result "from_nccl: three ranks agree"

out=$("$gloo" run --grace-ms 20000 -n 3 -- "$from_nccl" 1 2> /dev/null)
equal $? 3 && equal "$(echo "$out" | sort)" "rank 0: rank 1 is at fault
rank 2: rank 1 is at fault"
result "from_nccl: the others name the rank that left"

finish
