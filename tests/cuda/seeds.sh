#!/usr/bin/env bash
# Runs the matrix on buffers of the stand-in's GPUs repeatedly, each time with another part
# and other stream delays.
# usage: seeds.sh TEST_MATRIX TRANSPORT FIRST LAST
matrix=$1 transport=$2 first=$3 last=$4
parts=100 # a second or two each
echo "1..1"
failed=0 cases=0
for ((seed = first; seed <= last; seed++)); do
  if said=$(GLOO_MATRIX_SEED=$seed STANDIN_SEED=$seed "$matrix" "$transport" --gpus --sample=2000 \
    --shard=$((seed % parts))/$parts 2>&1); then
    ran=$(sed -nE 's/.*# ([0-9]+) cases over.*/\1/p' <<<"$said" | tail -n 1)
    cases=$((cases + ran))
  else
    failed=$((failed + 1))
    echo "# seed $seed over $transport:"
    grep -v '^ok' <<<"$said" | head -n 20 | sed 's/^/# /'
  fi
done
echo "# $((last - first + 1)) seeds over $transport: $cases cases"
if [ "$failed" -gt 0 ] || [ "$cases" -eq 0 ]; then
  echo "not ok 1 - every_seed_gives_what_it_must ($failed failed)"
  exit 1
fi
echo "ok 1 - every_seed_gives_what_it_must"
