#!/bin/sh
# gloo doctor: its reports on healthy jobs and on others.
# usage: doctor.sh GLOO JSON_CHECK
gloo=$1 json=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

out=$("$gloo" run -n 3 -- "$gloo" doctor)
equal $? 0 && has "$out" "findings   nothing" && has "$out" "3 ranks on 1 hosts met" &&
  has "$out" "3 pairs:" && has "$out" "ranks 0-2: "
result "a job that is well"

out=$("$gloo" run -n 2 -- "$gloo" doctor --json)
equal $? 0 && has "$out" '"findings": []' && echo "$out" | "$json"
result "as JSON"

out=$(GLOO_TRANSPORT=tcp "$gloo" run -n 2 -- "$gloo" doctor)
has "$out" "1 pairs:"
result "over TCP"

out=$("$gloo" doctor)
equal $? 0 && has "$out" "none: one rank"
result "one rank"

out=$(RANK=1 "$gloo" doctor)
equal $? 1 && has "$out" "the environment has RANK, but not WORLD_SIZE"
result "variables that are missing"

out=$(RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$gloo" doctor --timeout 0.3)
equal $? 1 && has "$out" "store      " && has "$out" "cannot connect to the TCP store at 127.0.0.1:1" &&
  has "$out" "Is rank 0 (or the process that serves the store) running, and is the address right?" &&
  has "$out" "findings   rank 1: "
result "a store that is not reached"

out=$(RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$gloo" doctor --timeout 0.3 --json)
equal $? 1 && has "$out" '"findings": ["rank 1: ' && echo "$out" | "$json"
result "the same as JSON"

# shellcheck disable=SC3045 # POSIX has it since 2024
out=$( (ulimit -n 100 && "$gloo" run -n 2 -- "$gloo" doctor) 2>/dev/null)
equal $? 1 && has "$out" "ranks 0-1: this process may open 100 files" && has "$out" "ulimit -n 132"
result "a limit that is too low, and what to do"

out=$(GLOO_SOCKET_IFNAME=nosuch0 "$gloo" run -n 2 -- "$gloo" doctor 2>/dev/null)
equal $? 1 && has "$out" "nosuch0"
result "an interface that is not there"

finish
