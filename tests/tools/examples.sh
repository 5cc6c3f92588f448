#!/bin/sh
# The examples: hello, groups, a custom operation, and training that ends with the same
# weights on all ranks.
# usage: examples.sh GLOO HELLO DIGITS GROUPS CUSTOM_OP EVENT_LOOP
gloo=$1 hello=$2 digits=$3 groups=$4 custom_op=$5 event_loop=$6 elastic=$7 show_elastic=$8
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

out=$("$gloo" run -n 6 -- "$groups" | sort)
equal "$out" "rank 0 is (0, 0) of 2 x 3: its row adds up to 3, its column to 3
rank 1 is (0, 1) of 2 x 3: its row adds up to 3, its column to 5
rank 2 is (0, 2) of 2 x 3: its row adds up to 3, its column to 7
rank 3 is (1, 0) of 2 x 3: its row adds up to 12, its column to 3
rank 4 is (1, 1) of 2 x 3: its row adds up to 12, its column to 5
rank 5 is (1, 2) of 2 x 3: its row adds up to 12, its column to 7"
result "groups adds along rows and columns"

out=$(env -u RANK -u WORLD_SIZE "$groups")
equal "$out" "rank 0 is (0, 0) of 1 x 1: its row adds up to 0, its column to 0"
result "groups runs alone"

for ranks in 1 3 5; do
  out=$("$gloo" run -n $ranks -- "$custom_op")
  equal "$(echo "$out" | grep -c ': 12 values, mean 1e9 + 1.5, variance 1.25$')" $ranks
  result "custom_op: $ranks ranks have the mean and variance of all"
done

for ranks in 1 2 3; do
  for transport in auto tcp shm; do
    out=$(GLOO_TRANSPORT=$transport "$gloo" run -n $ranks -- "$event_loop")
    equal "$(echo "$out" | grep -c ': 100 rounds on each of 3 contexts$')" $ranks
    result "event_loop: $ranks ranks wait for three contexts at once, $transport"
  done
done

for ranks in 1 2 3 4; do
  out=$("$gloo" run -n $ranks -- "$digits" 2>&1)
  equal $? 0 && has "$out" "weights are bitwise the same on all ranks"
  result "digits learns on $ranks ranks"
  hashes=$(echo "$out" | sed -n 's/^weights of rank [0-9]*: \([0-9a-f]\{16\}\)$/\1/p')
  equal "$(echo "$hashes" | grep -c .) $(echo "$hashes" | sort -u | grep -c .)" "$ranks 1"
  result "$ranks hashes, all the same"
done

out=$(bash "$show_elastic" "$gloo" "$elastic" 2>&1)
equal $? 0 && has "$out" ", 3 ranks: loss" && has "$out" "epoch 25, 4 ranks" && has "$out" "held-out accuracy with 4 ranks"
result "elastic goes on when a rank is killed, and takes a new one in"

out=$("$digits" "$scratch/absent.csv" 2>&1)
equal $? 1 && has "$out" "absent.csv" && has "$out" "name the file"
result "a file that is not there is said"

echo 1,2,3 > "$scratch/short.csv"
out=$("$digits" "$scratch/short.csv" 2>&1)
equal $? 1 && has "$out" "line 1 is not 64 pixels and a label"
result "a line that is no image is said"

finish
