#!/usr/bin/env bash
# The virtual machine itself: its output, its devices, and lists of tests.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/tools/tap.sh
. "$here/../../tools/tap.sh"
for needed in ibv_devinfo ibv_rc_pingpong; do
  command -v $needed >/dev/null && continue
  echo "1..0 # SKIP there is no $needed (ibverbs-utils)"
  exit 0
done
said=$(bash "$here/kernel.sh" 2>&1)
case $? in
  0) ;;
  77)
    echo "1..0 # SKIP ${said##*$'\n'}"
    exit 0
    ;;
  *)
    echo "Bail out! $said"
    exit 99
    ;;
esac

# start_machine OPTION... COMMAND...: output is in $scratch/out and $scratch/err,
# and so are kernel messages.
start_machine() {
  timeout -k 5 400 bash "$here/vm.sh" run --timeout 300 --console "$scratch/console" "$@" \
    >"$scratch/out" 2>"$scratch/err"
}

# ---- one machine, and all devices ------------------------------------------------

# The last byte of the output has no newline after it.
cat >"$scratch/inside" <<'IN'
cd "$1"
nproc >cpus
echo lost >../lost
ibv_devinfo -d rxe_lo >devinfo
{
  for i in 0 1; do tc qdisc add dev veth$i root netem loss 1%; done
  ibv_rc_pingpong -d rxe_veth0 -g 1 -n 300 >server &
  until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done
  ibv_rc_pingpong -d rxe_veth1 -g 1 -n 300 10.98.0.1 >client
  echo "$?" >client.status
  wait $!
  echo "$?" >server.status
} 2>pingpong.err
cat /sys/class/infiniband/rxe_veth?/ports/1/hw_counters/completer_retry_err >retries
printf 'to stdout\0\377'
printf 'to stderr' >&2
kill -SEGV $$
IN
mkdir "$scratch/kept"
VM_SELF_TEST="two  words" start_machine --cpus 3 --mem 700 --rw "$scratch/kept" --rxe all -- \
  sh "$scratch/inside" "$scratch/kept"
equal $? 139
result "the signal that ends a command is in the status" "$scratch/console"
printf 'to stdout\0\377' | cmp - "$scratch/out" && equal "$(cat "$scratch/err")" "to stderr"
result "stdout and stderr are apart, and nothing else is in them" "$scratch/err"
cd "$scratch/kept" || exit 99
equal "$(cat cpus)" 3
result "what is written to a folder of --rw stays"
[ ! -e ../lost ]
result "what is written elsewhere does not"
has "$(cat devinfo)" "PORT_ACTIVE"
result "rxe_lo is a device with an active port"
cat server client pingpong.err >all
equal "$(cat client.status server.status)" "0
0" && equal "$(grep -c '^300 iters' all)" 2
result "packets are lost between two devices, and all messages arrive" all
# Some 3000 packets; on a busy host a device counts one or two retries even without
# losses.
equal "$(wc -l <retries)" 2 && [ "$(awk '{ n += $1 } END { print n }' retries)" -ge 5 ]
result "the devices count what they send again" retries

# ---- two machines ------------------------------------------------------------------

bash "$here/vm.sh" run --timeout 300 --rxe none --peer "$scratch/link,0" -- \
  ibv_rc_pingpong -d rxe_eth0 -g 1 -n 20 >server 2>&1 &
# shellcheck disable=SC2016  # the machine's
start_machine --rxe none --peer "$scratch/link,1" -- sh -c '
  until ibv_rc_pingpong -d rxe_eth0 -g 1 -n 20 10.99.0.1; do
    tries=1$tries
    [ ${#tries} -lt 60 ] || exit 3
    sleep 1
  done'
status=$?
wait $!
equal "$? $status" "0 0" && has "$(cat server)" "20 iters"
result "two machines reach each other's device" "$scratch/err"

# ---- machines that end otherwise ---------------------------------------------------

start_machine --timeout 4 --rxe none -- sleep 60
equal $? 124 && has "$(cat "$scratch/err")" "the time is up: 4 s"
result "a machine whose time is up is ended"

mkdir "$scratch/temporary"
TMPDIR=$scratch/temporary bash "$here/vm.sh" run --timeout 300 sleep 60 2>"$scratch/err" &
wait_until grep -q . "$scratch"/temporary/*/console
kill $!
wait $!
equal $? 125 && has "$(cat "$scratch/err")" "the machine failed: no status came back" &&
  equal "$(ls "$scratch/temporary")" ""
result "one whose caller is ended ends, and leaves nothing behind"

# ---- lists -------------------------------------------------------------------------

cat >"$scratch/list" <<'IN'
# Possible lines of a list.
two cases: printf '1..2\nok 1 - one\nok 2 two # 2\n'; echo to stderr >&2

cmocka: printf '1..3\nok 1 - one\nnot ok 2 # SKIP two\nnot ok 3 - three\n# why\n'; exit 1
skipped: echo 1..0 '# SKIP not here'
by status: [ "$CMOCKA_MESSAGE_OUTPUT" = TAP ] && [ "$VM_SELF_TEST" = "two  words" ]
fails: exit 3
absent: exit 77
late: echo 1..1; echo ok 1 - one; kill -SEGV $$
short: echo 1..2; printf 'ok 1 - one'
slow@2: sleep 60
fatal: echo ok 1 - one; sleep 1; echo c >/proc/sysrq-trigger; sleep 60
after: true
IN
VM_SELF_TEST="two  words" timeout -k 5 400 bash "$here/run_tests.sh" --rxe none / "$scratch/list" \
  >"$scratch/out" 2>"$scratch/err"
equal $? 1 && equal "$(cat "$scratch/out")" "ok 1 - two cases: one
ok 2 - two cases: two # 2
ok 3 - cmocka: one
ok 4 - cmocka: two # SKIP
not ok 5 - cmocka: three
# why
ok 6 - skipped # SKIP not here
ok 7 - by status
not ok 8 - fails: its status is 3
ok 9 - absent # SKIP
ok 10 - late: one
not ok 11 - late: its status is 139
ok 12 - short: one
not ok 13 - short: of 2 cases there were 1
not ok 14 - slow: it has not ended after 2 s
ok 15 - fatal: one
not ok 16 - fatal: the machine has failed
not ok 17 - after: not run, for the machine has failed
1..17"
result "a list's results are one TAP stream, also when the machine fails" "$scratch/err"
has "$(cat "$scratch/err")" "# two cases
to stderr" && has "$(cat "$scratch/err")" "the machine failed: " &&
  has "$(cat "$scratch/err")" "Kernel panic"
result "a machine that fails says why"

printf 'a: true\nb\n' >"$scratch/list"
out=$(bash "$here/run_tests.sh" / "$scratch/list")
equal $? 99 && has "$out" "what is 'b'?"
result "a line that is no command is named"

# ---- no machine --------------------------------------------------------------------

mkdir "$scratch/bin"
ln -s "$(command -v bash)" "$(command -v dirname)" "$(command -v uname)" "$scratch/bin/"
PATH=$scratch/bin bash "$here/vm.sh" run true 2>"$scratch/err"
equal $? 77 && has "$(cat "$scratch/err")" "there is no qemu-system-x86_64: apt-get install qemu-system-x86"
result "without QEMU there is none, which has a status of its own"
echo "a: true" >"$scratch/list"
out=$(PATH=$scratch/bin bash "$here/run_tests.sh" / "$scratch/list")
equal $? 0 && has "$out" "1..0 # SKIP " && has "$out" "there is no qemu-system-x86_64"
result "lists are skipped then, with the reason"
finish
