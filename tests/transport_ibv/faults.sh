#!/bin/sh
# In the virtual machine with all devices (vm/vm.sh run --rxe all): jobs whose network
# loses packets, or nearly all of them, and whose device is removed. TAP.
# usage: faults.sh GLOO
gloo=$1
n=0
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
counters=/sys/class/infiniband/rxe_veth0/ports/1/hw_counters

# Prints a case: ok if the previous status is 0; otherwise its output.
result() { # status, name
  n=$((n + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $n - $2"
  else
    echo "not ok $n - $2"
    sed 's/^/# /' "$folder"/said | tail -n 20
  fi
}

# Two ranks, one at each end of the cable.
job() { # what each rank runs, by sh
  "$gloo" run -n 2 -- sh -c \
    "export GLOO_IBV_DEVICE=rxe_veth\$RANK GLOO_BIND_ADDR=10.98.0.\$((RANK + 1)) MASTER_ADDR=10.98.0.1; $1" >"$folder/said" 2>&1
}

retries() { cat $counters/completer_retry_err; }

bench() { # collective, sizes, iterations
  job "exec '$gloo' bench $1 --transport ibv --sizes $2 --iterations $3 --warmup 1"
}

delay() { # netem...
  for end in veth0 veth1; do tc qdisc replace dev $end root netem "$@" || return; done
}

every_collective_is_right() { # netem...
  delay "$@" || return
  before=$(retries)
  for collective in allreduce broadcast reduce scan reduce_scatter allgather gather scatter alltoall barrier sendrecv; do
    sizes=4,300K
    [ $collective != barrier ] || sizes=0
    bench $collective $sizes 3 || return
    ! grep -q ' no$' "$folder/said" || return
  done
  GLOO_LOG_LEVEL=info bench allreduce 4,1M 5 || return
  grep -q 'through RDMA, rxe_veth' "$folder/said" || return
}

every_collective_is_right loss 1%
result $? every_collective_with_one_packet_in_a_hundred_lost
[ "$(retries)" -gt "$before" ]
result $? packets_were_lost_and_sent_again
every_collective_is_right delay 2ms 1ms reorder 25% 50%
result $? every_collective_with_packets_delayed_and_out_of_order
delay loss 10% && bench allreduce 4,64K 3
result $? some_with_one_packet_in_ten_lost

# The network drops all packets for a while. The devices count what they send again.
delay delay 0ms
before=$(retries)
job "exec timeout 30 '$gloo' bench allreduce --transport ibv --sizes 64K --iterations 1000000" &
sleep 12
delay loss 100%
sleep 2
delay delay 0ms
wait $!
[ "$(retries)" -gt "$before" ] && ! grep -q 'no longer answers\|no heartbeat' "$folder/said"
result $? a_network_that_is_away_for_two_seconds_is_outlasted

# It drops them for good: each rank has an error that names the other one. Heartbeats
# notice first, without them the device does.
for settings in GLOO_HEARTBEAT=5 'GLOO_HEARTBEAT=0 GLOO_IBV_TIMEOUT=14'; do
  text='no heartbeat from rank'
  [ "$settings" = GLOO_HEARTBEAT=5 ] || text='no longer answers through rxe_veth'
  job "exec env $settings timeout 80 '$gloo' bench allreduce --transport ibv --sizes 64K --iterations 1000000" &
  sleep 12
  delay loss 100%
  ! wait $! && grep -q 'rank 0 ' "$folder/said" && grep -q 'rank 1 ' "$folder/said" && grep -q "$text" "$folder/said"
  result $? "ranks_that_cannot_reach_each_other_say_so, $settings"
  delay delay 0ms
done

# A route for TCP, and none for RDMA: the ranks use TCP, and report the reason.
job "[ \$RANK = 1 ] || export GLOO_IBV_DEVICE=rxe_lo; export GLOO_LOG_LEVEL=info
  exec '$gloo' bench allreduce --transport ibv --sizes 4,1M --iterations 5" &&
  grep -q 'through TCP, not RDMA: ' "$folder/said"
result $? without_a_way_for_RDMA_ranks_stay_with_TCP

# The device is removed during a job.
GLOO_LOG_LEVEL=info "$gloo" run -n 2 -- env GLOO_IBV_DEVICE=rxe_lo timeout 80 "$gloo" bench allreduce --transport ibv \
  --sizes 64K --iterations 1000000 >"$folder/said" 2>&1 &
sleep 12
rdma link delete rxe_lo
! wait $! && grep -q 'rank [01] ' "$folder/said"
result $? a_device_that_goes_away_is_an_error

# The same programs without the library: the last case, because it is removed.
rm -f /usr/lib/*/libibverbs.so.1*
"$gloo" run -n 2 -- "$gloo" bench allreduce --sizes 4,1M --iterations 3 >"$folder/said" 2>&1 &&
  "$gloo" info >"$folder/said" 2>&1 && grep -q 'ibv .*no: .*libibverbs.so.1 cannot be loaded' "$folder/said"
result $? without_libibverbs_all_else_works_and_info_explains
echo "1..$n"
