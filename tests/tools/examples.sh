#!/bin/sh
# The examples: hello, and training that ends with the same weights everywhere.
# usage: examples.sh GLOO HELLO DIGITS
gloo=$1 hello=$2 digits=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

out=$("$gloo" run -n 3 -- "$hello" | sort)
equal "$out" "rank 0 of 3: 1 + ... + 3 = 6
rank 1 of 3: 1 + ... + 3 = 6
rank 2 of 3: 1 + ... + 3 = 6"
result "hello adds up the ranks"

out=$(env -u RANK -u WORLD_SIZE "$hello")
equal "$out" "rank 0 of 1: 1 + ... + 1 = 1"
result "hello runs alone"

for ranks in 1 2 3 4; do
  out=$("$gloo" run -n $ranks -- "$digits" 2>&1)
  equal $? 0 && has "$out" "weights are bitwise the same on all ranks"
  result "digits learns on $ranks ranks"
  hashes=$(echo "$out" | sed -n 's/^weights of rank [0-9]*: \([0-9a-f]\{16\}\)$/\1/p')
  equal "$(echo "$hashes" | grep -c .) $(echo "$hashes" | sort -u | grep -c .)" "$ranks 1"
  result "$ranks hashes, all the same"
done

out=$("$digits" "$scratch/absent.csv" 2>&1)
equal $? 1 && has "$out" "absent.csv" && has "$out" "name the file"
result "a file that is not there is said"

echo 1,2,3 > "$scratch/short.csv"
out=$("$digits" "$scratch/short.csv" 2>&1)
equal $? 1 && has "$out" "line 1 is not 64 pixels and a label"
result "a line that is no image is said"

finish
