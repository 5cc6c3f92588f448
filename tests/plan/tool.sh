#!/bin/sh
# The output of `gloo plan`, and its errors for bad arguments.
gloo=$1
n=0 failed=0

report() {
  n=$((n + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $n - $2"
  else
    echo "not ok $n - $2"
    printf '%s\n' "$out" | sed 's/^/# /'
    failed=1
  fi
}

# expect STATUS TEXT ARGUMENTS...: exits with STATUS and prints TEXT.
expect() {
  status=$1 text=$2
  shift 2
  out=$("$gloo" plan "$@" 2>&1)
  got=$?
  case $out in *"$text"*) found=0 ;; *) found=1 ;; esac
  [ "$got" -eq "$status" ] && [ "$found" -eq 0 ]
  report $? "gloo plan $* exits with $status and says '$text'"
}

echo 1..46
expect 0 'recursive_doubling' --list
expect 0 'rank 3 of 8, count 1024' allreduce --ranks 8 --rank 3
expect 0 '(chosen)' allreduce --ranks 8 --rank 3
expect 0 'OUT[0..25) = incoming op IN[0..25)' allreduce -a ring -n 4 -r 1 -c 100
expect 0 'in place' allgather -n 4 --in-place
expect 0 'root 2' broadcast -n 4 --root 2
expect 0 'TOKEN[' barrier -n 4
expect 0 'TOKEN[' allreduce -n 4 -c 0
expect 0 'RECV         from 3' reduce -n 4 -r 1 --root 1 -c 0 -a binomial
expect 0 'longest chain of messages: 3' allgather -n 5 -c 0 -a ring --check
expect 0 '8 bytes each' allreduce -n 4 --dtype float64
expect 0 'segments of 128 bytes' allreduce -n 4 --segment 128
expect 0 '4 plans' allreduce -n 4 --check
expect 0 'all correct' --check-all --ranks 1-9
expect 0 'all correct' --check-all --ranks 7
expect 0 'bytes across' allreduce -n 16 --hosts 4 --simulate --alpha-us 20 --beta-gbps 1
expect 0 '<- chosen' allreduce -n 16 --simulate
expect 0 'usage: gloo plan' --help
expect 2 'unknown collective' all2all -n 4
expect 2 'barrier, broadcast, allreduce' sendrecv -n 4
expect 2 'recursive_doubling, ring, ' allreduce -n 4 -a best
expect 2 'unknown type' allreduce -n 4 --dtype float128
expect 2 'option --ranks is required' allreduce
expect 2 'whole number from 1 to' allreduce -n 0
expect 2 'whole number from 1 to' allreduce -n 1-4
expect 2 'neither a number nor a range' --check-all -n 9-2
expect 2 '--rank: 4 is out of range' allreduce -n 4 -r 4
expect 2 'exceed the address space' allgather -n 4 -c 9223372036854775807
expect 2 'only one of' allreduce -n 4 --check --simulate
expect 2 'beta-gbps' allreduce -n 4 --simulate --beta-gbps fast
expect 0 'algorithm two_level (chosen)' allreduce -n 8 --hosts 4x2
expect 0 'algorithm two_level (chosen)' allgather -n 5 --hosts 2+3
expect 0 'peer 3' broadcast -n 4 -r 1 -c 4096 --hosts 0,0,1,1 -a two_level
expect 0 '6 plans' allreduce -n 6 --hosts 0,1,0,1,2,1 -a two_level --check
expect 0 '16 ranks on 4 hosts' allreduce -n 16 --hosts 4 --simulate
expect 2 'does not place 8 ranks on hosts' allreduce -n 8 --hosts 4x3
expect 2 'does not place 5 ranks on hosts' allreduce -n 5 --hosts 2+2
expect 2 'does not place 4 ranks on hosts' allreduce -n 4 --hosts 0,1,2
expect 2 'does not place 2 ranks on hosts' allreduce -n 2 --hosts 3
expect 2 'does not place 2 ranks on hosts' allreduce -n 2 --hosts many
expect 0 'bootstrap of 1 rank on 1 host' bootstrap --simulate -n 1
expect 0 'bytes in, 11360 out' bootstrap --simulate -n 32
expect 2 'bootstrap has no plan' bootstrap -n 8
expect 2 'option --ranks is required' bootstrap --simulate
expect 2 'does not place 8 ranks on hosts' bootstrap --simulate -n 8 --hosts 3+2

# The cost of a start with ranks in a tree grows with the number of its steps.
out=$("$gloo" plan bootstrap --simulate -n 100000 --hosts 2500)
printf '%s\n' "$out" | awk '
  /of a rank at most/ { links = $2; bound = substr($NF, 1, length($NF) - 1) }
  /bytes in/ { asked = $9 }
  END { exit !(links > 0 && links <= bound && asked > 0 && asked < 1500) }'
report $? "no rank of 100000 has more than 2 log2 N links, or reads all records"
exit $failed
