#!/usr/bin/env bash
# The report of scripts/gpu-day, on the stand-in for CUDA.
# usage: gpu_day.sh PROJECT BUILD
project=$1 build=$2
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
number=0
result() { # status, name
  number=$((number + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    sed 's/^/# /' "$scratch/report" "$scratch/said"
  fi
}
run() { # expected status, options
  local status=$1
  shift
  "$project/scripts/gpu-day" "$@" "$scratch/report" "$scratch/build" >"$scratch/said" 2>&1
  [ $? -eq "$status" ]
}
link_build() { # a build whose programs a test may replace
  rm -rf "$scratch/build"
  mkdir -p "$scratch/build/tests/cuda" "$scratch/build/tests/matrix" "$scratch/build/tools"
  ln -s "$build/tests/cuda/"{cuda_probe,test_cuda,test_harsh} "$scratch/build/tests/cuda/"
  ln -s "$build/tests/matrix/test_matrix" "$scratch/build/tests/matrix/"
  ln -s "$build/tools/gloo" "$scratch/build/tools/"
}
replace() { # program, commands
  rm "$scratch/build/$1"
  printf '#!/bin/sh\n%s\n' "$2" >"$scratch/build/$1"
  chmod +x "$scratch/build/$1"
}
has() { grep -qE "$1" "$scratch/report"; }
echo "1..9"

link_build
run 0 --only=machine --only=probes && has '^\| ok \| gloo info \|.*stand-in 0.* \|$' && ! has 'not ok'
result $? "a good driver gives a report without faults"
questions=$("$build/tests/cuda/cuda_probe" --list | wc -l)
waiting=$("$build/tests/cuda/cuda_probe" --list | grep -c waiting)
[ "$(grep -cE ', (1|8|32) channels \|' "$scratch/report")" -eq $((questions + 2 * waiting)) ]
result $? "each question is asked, those about waits with three numbers of channels"
run 0 --only=rates # what the status is depends on the load of this machine
has '^\| (ok|\*\*not ok\*\*) \| allreduce of 67108864 bytes \| less than .* \| .* times \|$' && has '^\| - \| allreduce of 4 bytes \|'
result $? "rates are compared"

# Which calls do not end is certain here, so the probe need not wait for long.
export STANDIN_LANES=1 STANDIN_PIN_SYNCS=1 STANDIN_QUEUE=16 CUDA_PROBE_WAITS_MS=200
run 1 --only=probes && has '^\| \*\*not ok\*\* \| copies_beside_1_waiting, 1 channels \|.*blocks' &&
  has '^\| - \| register_while_waiting, 8 channels \|.*blocks'
result $? "a driver that blocks is seen"
has '^\| .* \| mark_in_a_full_stream, 8 channels \|.*blocks beside a stream of 1[0-9], which is full'
result $? "the length of a queue is seen"

# shellcheck disable=SC2016 # $1 is the program's
replace tests/cuda/test_cuda 'echo 1..3; echo ok 1 - one; [ "$1" != tcp ] || {
  echo "not ok 2 - two"; exit 1; }; echo "not ok 3 # SKIP three"'
replace tests/cuda/test_harsh 'echo ok 1 - one; sleep 100'
replace tests/matrix/test_matrix 'echo 1..1; echo ok 1 - one'
unset STANDIN_LANES STANDIN_PIN_SYNCS STANDIN_QUEUE CUDA_PROBE_WAITS_MS
run 1 --only=tests --limit=6 && has '^\| \*\*not ok\*\* \| test_cuda tcp \| all pass \| 1 passed, failed: two \|$'
result $? "a test that fails is named"
has '^\| ok \| test_cuda shm \| all pass \| 1 passed, 1 skipped \|$'
result $? "a test that is skipped is no failure"
has '^\| \*\*not ok\*\* \| test_harsh tcp \|.*time was up \|$' && has '^\| \*\*not ok\*\* \| test_matrix tcp --gpus \|'
result $? "time is limited"
rm "$scratch/build/tools/gloo"
run 2 --only=machine && grep -q 'tools/gloo is missing' "$scratch/said"
result $? "a build without tests is refused"
