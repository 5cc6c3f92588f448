#!/bin/sh
# gloo bench: every collective, verified on every rank with every algorithm.
# usage: bench.sh GLOO RANKS...
gloo=$1
shift
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
sizes=1,4,1000,4100,70000,1100000

# verifies WHAT COMMAND...: succeeds, with at least one verified line.
verifies() {
  what=$1
  shift
  out=$("$@" 2>&1)
  equal $? 0 && [ "$(echo "$out" | grep -c ' yes$')" -gt 0 ]
  status=$?
  [ $status -eq 0 ] || echo "$out" | sed 's/^/# /'
  [ $status -eq 0 ]
  result "$what"
}

for ranks in "$@"; do
  for collective in barrier broadcast allreduce reduce_scatter allgather alltoall scan exscan \
    allgatherv alltoallv reduce_scatterv sendrecv; do
    set -- --iterations 3 --warmup 1 --sizes $sizes
    [ $collective = sendrecv ] || set -- "$@" --algorithm all
    verifies "$collective, $ranks threads, inproc" \
      "$gloo" bench $collective --ranks "$ranks" --threads --transport inproc "$@"
    verifies "$collective, $ranks processes, tcp" \
      "$gloo" run -n "$ranks" -- gloo bench $collective --transport tcp "$@"
    case $collective in barrier | sendrecv) continue ;; esac
    verifies "$collective, $ranks threads, inproc, in place" \
      "$gloo" bench $collective --ranks "$ranks" --threads --transport inproc --in-place "$@"
  done
  root=$((ranks - 1))
  for collective in reduce gather scatter gatherv scatterv; do
    for place in "" --in-place; do
      verifies "$collective with root $root of $ranks $place" \
        "$gloo" bench $collective --ranks "$ranks" --threads --root $root --algorithm all \
        --sizes $sizes --iterations 2 $place
    done
  done
  verifies "broadcast from the last of $ranks" \
    "$gloo" bench broadcast --ranks "$ranks" --threads --root $root --sizes $sizes --iterations 2
  verifies "allreduce, $ranks threads, tcp, 3 sets of buffers" \
    "$gloo" bench allreduce --ranks "$ranks" --threads --transport tcp --buffers 3 \
    --sizes $sizes --iterations 7
  verifies "allgather in place, $ranks threads, buffers left alone between calls" \
    "$gloo" bench allgather --ranks "$ranks" --threads --in-place --untouched \
    --sizes $sizes --iterations 7
  verifies "allreduce, $ranks processes, memory from gloo_alloc" \
    "$gloo" run -n "$ranks" -- gloo bench allreduce --memory gloo_alloc --buffers 2 \
    --sizes $sizes --algorithm all --iterations 3
  for dtype in int8 uint16 int64 float16 bfloat16 float64 complex128 float8_e5m2; do
    verifies "allreduce of $dtype, $ranks threads" \
      "$gloo" bench allreduce --ranks "$ranks" --threads --dtype $dtype --sizes $sizes \
      --algorithm all --iterations 1 --warmup 0
  done
  for op in product min max average; do
    verifies "reduce_scatter with $op, $ranks threads" \
      "$gloo" bench reduce_scatter --ranks "$ranks" --threads --op $op --sizes $sizes \
      --algorithm all --iterations 1 --warmup 0
  done
done

out=$(GLOO_TRANSPORT='' "$gloo" bench allreduce --ranks 2 --threads --sizes 4 --iterations 1)
equal $? 0 && has "$out" '(threads), inproc'
result "an empty GLOO_TRANSPORT is none"

# All results at once must be right; the times are not tested.
places='busy away'
has_linux && [ "$(nproc 2>/dev/null || echo 1)" -gt 1 ] && places='busy away spare'
for compute in $places; do
  out=$("$gloo" run -n 2 -- gloo bench overlap --count 20 --rounds 2 --size 5000 \
    --compute "$compute" --transport auto --json)
  equal $? 0 && has "$out" '"verified": true' && has "$out" '"count": 20'
  result "20 allreduces at once, computing: $compute"
done
[ "$("$gloo" bench overlap --compute elsewhere 2>&1 | grep -c 'not one of busy, spare, away')" -eq 1 ]
result "somewhere else is refused"

for ranks in processes threads; do
  out=$("$gloo" bench start "--$ranks" 3 --repeat 2 --json)
  equal $? 0 && has "$out" "\"ranks\": \"$ranks\", \"size\": 3, \"starts\": 2" &&
    has "$out" '"store_requests": '
  result "3 $ranks start"
done
out=$("$gloo" bench start --processes 3 --repeat 1 --link --json)
equal $? 0 && has "$out" '"split_ms": ' && has "$out" '"linked_sockets": ' &&
  has "$out" '"linked_memory_kib_most": '
result "and are connected, each with each"
out=$("$gloo" bench start --processes 40 --repeat 1)
equal $? 0 && has "$out" 'sockets' && has "$out" 'requests per rank'
result "40 processes start, which meet in a tree"
scratch_store=$scratch/start
mkdir -m 700 "$scratch_store"
out=$("$gloo" bench start --threads 3 --repeat 2 --store "file://$scratch_store")
equal $? 0 && has "$out" 'passed'
result "they start in a store that is there"
out=$("$gloo" bench start --processes 2 --store nowhere:// 2>&1)
equal $? 1 && has "$out" "rank 0: "
result "a store that there is none of is an error, of a rank"
out=$("$gloo" bench start --processes 2 --threads 2 2>&1)
equal $? 2 && has "$out" 'either --processes or --threads'
result "processes and threads at once are refused"

finish
