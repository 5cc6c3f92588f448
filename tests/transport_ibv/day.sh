#!/bin/sh
# scripts/rdma-day. Over the stand-in (in LD_LIBRARY_PATH), whose network ends at the
# process, ranks cannot use RDMA, and the report must say so. In the virtual machine with
# all devices (vm/vm.sh run --rxe all) all must be as expected.
# usage: day.sh BUILD standin|rxe
build=$1 over=$2
day=$(dirname "$0")/../../scripts/rdma-day
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
report=$scratch/report.md
unset GLOO_TRANSPORT GLOO_RDMA GLOO_IBV_DEVICE GLOO_SOCKET_IFNAME GLOO_BIND_ADDR

# in_report TEXT: is this in a line of the report?
in_report() { has "$(cat "$report")" "$1"; }

# row TEXT: prints the line of the table about that.
row() { grep "| $1 |" "$report"; }

if [ "$over" = rxe ]; then
  # shellcheck disable=SC3045 # the machine's shell has it
  ulimit -l unlimited
  # shellcheck disable=SC2016 # expanded by each rank's shell
  "$day" --build "$build" --report "$report" --minutes 20 --quick --absent 10.98.0.9 --peer 10.98.0.2 --setup '
    end=$((RANK % 2)) own=10.98.0.$((RANK % 2 + 1))
    export GLOO_IBV_DEVICE=rxe_veth$end GLOO_BIND_ADDR=$own MASTER_ADDR=10.98.0.1 GLOO_START_TIMEOUT=110' > "$scratch/out" 2>&1
  # Figures of such a machine say nothing.
  ! grep 'not ok' "$report" | grep -v '| round trip\|| one way\|| time to find its own' && in_report "as expected, "
  result "all but rates is as expected" "$report"
  has "$(row 'allreduce, 2 ranks, memory from malloc')" "right, by RDMA" &&
    has "$(row 'time to look for an absent host')" "Connection timed out"
  result "collectives are right, by RDMA, and an absent host is looked for"
  has "$(row 'a rank is killed')" "| ok" && has "$(row 'a rank is stopped')" "| ok"
  result "killed and stopped ranks are named"
  sed 's/^/# /' "$report"
  finish
fi

# shellcheck disable=SC2016 # expanded by each rank's shell
GLOO_JOB_SECRET=0123456789abcdef0123456789abcdef "$day" --build "$build" --report "$report" --quick \
  --setup 'echo "a program says $GLOO_JOB_SECRET"' > "$scratch/out" 2>&1
equal $? 1
result "what is not as expected is in the status" "$scratch/out"
has "$(row 'allreduce, 2 ranks, memory from malloc')" "| **not ok** |" &&
  has "$(row 'allreduce, 2 ranks, memory from malloc')" "through TCP, not RDMA: "
result "pairs that use TCP are not ok, with the reason" "$report"
has "$(row 'port')" "| standin0:1 |" && has "$(row 'reads at once')" "| 16 begun, 16 served |"
result "devices are asked" "$report"
has "$(row 'round trip of 4 bytes, us')" "apt-get install perftest" || command -v ib_send_lat > /dev/null
result "what is not installed is said, with the package" "$report"
has "$(row 'a rank is killed')" "| ok |" && has "$(row 'a rank is stopped')" "| ok |"
result "faults are made" "$report"
in_report "as expected, " && in_report "a program says (GLOO_JOB_SECRET)" && ! grep -q 0123456789abcdef "$report"
result "the report ends, and has no secret" "$report"

"$day" --build "$build" --report "$report" --quick --minutes 0 > "$scratch/out" 2>&1
equal $? 2 && has "$(cat "$scratch/out")" "--minutes is '0'; it must be a number from 1 to 9999"
result "wrong options are refused"
"$day" --build "$scratch" --report "$report" > "$scratch/out" 2>&1
equal $? 2 && has "$(cat "$scratch/out")" "there is no $scratch/tools/gloo; build it with: meson setup"
result "a missing program is named, and how to build it"
STANDIN_FAIL=get_device_list:1+ "$day" --build "$build" --report "$report" --quick --minutes 1 > "$scratch/out" 2>&1
has "$(row 'RDMA according to gloo info')" "no: RDMA cannot be used here: " &&
  has "$(row 'a port for RDMA')" "this host has no RDMA device" && in_report "left out: only "
result "a host without a device, and too little time"
finish
