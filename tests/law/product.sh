#!/bin/sh
# scripts/product runs each shard once, records what passed, and continues there.
# usage: product.sh PROJECT
set -u
project=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

# Replaces the matrix: each shard has ten cases, one of which fails for a while.
mkdir -p "$scratch/build/tests/matrix"
cat >"$scratch/build/tests/matrix/test_matrix" <<'END'
#!/bin/sh
if [ "$1" = --count ]; then echo "together 7200 cases over each transport"; exit; fi
echo "$*" >>"$0.ran"
echo "#   allreduce ring         10     0      10"
echo "# 10 cases over $1, and 0 calls that were refused; seed 1"
case $* in *"--ranks=5 --counts=0-1000 --shard=7/"*) [ -e "$0.repaired" ] ;; esac
END
chmod +x "$scratch/build/tests/matrix/test_matrix"
ran=$scratch/build/tests/matrix/test_matrix.ran

product() {
  "$project/scripts/product" --build "$scratch/build" --state "$scratch/state" --transports inproc \
    --counts 0-1000 --jobs 2 "$@" >"$scratch/said" 2>&1
}

lines() { sort -u "$ran" | wc -l; }

product --ranks 4,5 --minutes 0
[ ! -e "$ran" ] && grep -q '^0 passed, 0 failed' "$scratch/said"
result "without time nothing runs" "$scratch/said"
product --ranks 4,5 --shards 40
status=$?
[ $status -eq 1 ] && grep -q '^failed (1): inproc 5 0-1000 7' "$scratch/said"
result "a shard that fails is told" "$scratch/said"
grep -q 'allreduce ring  *[1-9]' "$scratch/said"
result "cases are counted by collective and algorithm" "$scratch/said"
product --ranks 4,5 --report
[ "$(lines)" -eq 40 ] && grep -q '390 of 7200 cases, 5.4 % of the product' "$scratch/said" &&
  grep -q 'failed: inproc 5 0-1000 7' "$scratch/said"
result "each shard ran, and what passed is written down" "$scratch/said"
touch "$scratch/build/tests/matrix/test_matrix.repaired"
rm "$ran"
product --ranks 3,4,5 --shards 60 --jobs 1
head -n 19 "$ran" | grep -vqe '--ranks=3 '
[ $? -eq 1 ]
result "the next run begins with those that have not run" "$scratch/said"
product --report --ranks 3
grep -q '600 of 7200 cases' "$scratch/said" && ! grep -q 'failed: ' "$scratch/said"
result "what is repaired counts" "$scratch/said"
finish
