#!/bin/sh
# gloo doctor: its reports on healthy jobs and on others.
# usage: doctor.sh GLOO JSON_CHECK with|without
# The last argument says whether it was built with OpenSSL.
gloo=$1 json=$2 openssl=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
unset GLOO_JOB_SECRET GLOO_JOB_SECRET_FILE GLOO_SECURITY
[ "$openssl" = with ] || export GLOO_SECURITY=off

out=$("$gloo" run -n 3 -- "$gloo" doctor)
equal $? 0 && has "$out" "findings   nothing" && has "$out" "3 ranks on 1 host met" &&
  has "$out" "3 pairs:" && has "$out" "ranks 0-2: "
result "a job that is well"

out=$("$gloo" run -n 2 -- "$gloo" doctor --json)
equal $? 0 && has "$out" '"findings": []' &&
  echo "$out" | "$json" gloo_doctor launcher rank size store job met met_ms hosts ranks sharing links findings > /dev/null
result "as JSON, with these keys"
# The values are numbers, true, false and null where they are quantities.
for key in met_ms hosts cores cores_online cores_quota open_files locked_bytes memory_left_bytes shm_left_bytes \
  clock_ahead_s latency_us gb_per_s; do
  echo "$out" | grep -qE "\"$key\": (-?[0-9][0-9.e+-]*|null)[,}]" || break
done
has "$out" "\"$key\"" && echo "$out" | grep -qE "\"$key\": (-?[0-9][0-9.e+-]*|null)[,}]" &&
  has "$out" '"shared_memory": ' && has "$out" '"host_number": 0'
result "and numbers"

out=$(GLOO_TRANSPORT=tcp "$gloo" run -n 2 -- "$gloo" doctor)
has "$out" "1 pair:"
result "over TCP"

# ---- cores -------------------------------------------------------------------

# bound CORES: runs two ranks, each bound to its word of the list.
bound() {
  # shellcheck disable=SC2016,SC2086
  out=$("$gloo" run -n 2 --no-bind -- sh -c 'shift "$RANK"; exec taskset -c "$1" "$0" doctor' "$gloo" $1)
}

if ! has_linux; then
  skipped "ranks bound to cores" "affinity masks are read on Linux only"
elif command -v taskset > /dev/null && taskset -c 0,1 true 2> /dev/null; then
  bound "0 1"
  equal $? 0 && has "$out" "; 1 core" && ! has "$out" "share" > /dev/null
  result "two ranks that are bound to different cores share none"
  bound "1 1"
  equal $? 1 && has "$out" "sharing    ranks 0-1: 2 ranks share 1 core (1) of" &&
    has "$out" "findings   ranks 0-1: 2 ranks are bound to 1 core (1) of a host with" && has "$out" "--bind-to core"
  result "two ranks that are bound to one core"
  bound "0 0,1"
  equal $? 0 && ! has "$out" "share" > /dev/null
  result "two ranks with two cores together"
  out=$("$gloo" run -n 2 --no-bind -- taskset -c 1 "$gloo" doctor --json)
  equal $? 1 && has "$out" '"sharing": [{"first_rank": 0, "last_rank": 1, "n_ranks": 2, "n_cores": 1, "cores": [1]}]' &&
    has "$out" '"findings": [{"id": "cores_shared", "first_rank": 0, "last_rank": 1, "text": "'
  result "the same as JSON"
  out=$(taskset -c 0,1 "$gloo" run -n 4 -- "$gloo" doctor)
  has "$out" "ranks 0-1: 2 ranks share 1 core (0)" && has "$out" "ranks 2-3: 2 ranks share 1 core (1)"
  result "more ranks than cores are stated"
else
  skipped "ranks bound to cores" "taskset, or a second core, is missing"
fi

# ---- security ----------------------------------------------------------------

out=$(GLOO_SECURITY=off "$gloo" run -n 2 -- "$gloo" doctor)
equal $? 0 && has "$out" "security   ranks 0-1: off (GLOO_SECURITY=off)"
result "authentication that is off on purpose is no finding"
out=$(env -u GLOO_SECURITY "$gloo" run -n 2 -- env -u GLOO_JOB_SECRET MASTER_ADDR=127.0.0.1 "$gloo" doctor)
equal $? 0 && has "$out" "security   ranks 0-1: ranks of this host only"
result "without a secret, ranks that meet at a loopback address are no finding"
out=$(env -u GLOO_SECURITY "$gloo" run -n 2 -- env -u GLOO_JOB_SECRET GLOO_STORE="file://$scratch/store" \
  "$gloo" doctor 2> /dev/null)
equal $? 1 && if [ "$openssl" = with ]; then
  has "$out" "ranks 0-1: no job secret is set, so ranks do not authenticate each other" &&
    has "$out" "openssl rand -hex 32" && has "$out" "security   ranks 0-1: ranks are not authenticated"
else
  has "$out" "ranks 0-1: this library was built without OpenSSL" && has "$out" "libssl-dev"
fi
result "a missing secret, or OpenSSL, with consequence and remedy"

# ---- others ------------------------------------------------------------------

out=$(GLOO_TRANSPROT=tcp "$gloo" run -n 2 -- "$gloo" doctor 2> /dev/null)
equal $? 1 && has "$out" "ranks 0-1: environment variables without effect: GLOO_TRANSPROT (did you mean"
result "a misspelled variable"

out=$("$gloo" doctor)
equal $? 0 && has "$out" "none: one rank"
result "one rank"

out=$(RANK=1 "$gloo" doctor)
equal $? 1 && has "$out" "the environment has RANK, but not WORLD_SIZE"
result "variables that are missing"

out=$(RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$gloo" doctor --timeout 0.3)
equal $? 1 && has "$out" "store      " && has "$out" "cannot connect to the TCP store at 127.0.0.1:1" &&
  has "$out" "Is rank 0 (or the process that serves the store) running, and is the address right?" &&
  has "$out" "findings   rank 1: " && has "$out" "MASTER_ADDR is 127.0.0.1, which is this host itself"
result "a store that is not reached"

out=$(RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$gloo" doctor --timeout 0.3 --json)
equal $? 1 && has "$out" '"met": false' && has "$out" '"findings": [{"id": "start", "first_rank": 1, "last_rank": 1, "text": "cannot' && echo "$out" | "$json" > /dev/null
result "the same as JSON"

# shellcheck disable=SC3045 # POSIX has it since 2024
out=$( (ulimit -n 100 && "$gloo" run -n 2 -- "$gloo" doctor) 2>/dev/null)
equal $? 1 && has "$out" "ranks 0-1: this process may open 100 files" && has "$out" "ulimit -n 132"
result "a limit that is too low, and what to do"

out=$(GLOO_SOCKET_IFNAME=nosuch0 "$gloo" run -n 2 -- "$gloo" doctor 2>/dev/null)
equal $? 1 && has "$out" "nosuch0"
result "an interface that is not there"

finish
