#!/bin/sh
# Four ranks in two network namespaces joined by a veth pair use shared memory
# inside a namespace and TCP across. All collectives give the right results.
# usage: netns.sh GLOO SIZE
# SIZE is that of the long messages.
gloo=$1 size=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
# shellcheck source=tests/tools/networks.sh
. "$(dirname "$0")/../tools/networks.sh"
enter_network 240 "$0" "$@"

another_network && link_networks gc$$ 10.213.77.1/24 gd$$ 10.213.77.2/24
result "two network namespaces are joined by a link"

# Runs ranks 0 and 1 in this namespace, 2 and 3 in the other. Their output goes to
# out.RANK, their log to log.RANK. Returns 0, or the exit status of a rank that failed.
job=0
run_job() {
  job=$((job + 1))
  bad=0 ranks=
  for rank in 0 1 2 3; do
    enter=
    [ $rank -lt 2 ] || enter="nsenter -t $other -n"
    # shellcheck disable=SC2086
    RANK=$rank WORLD_SIZE=4 MASTER_ADDR=10.213.77.1 MASTER_PORT=$((20000 + job)) \
      GLOO_TRANSPORT=auto GLOO_LOG_LEVEL=info timeout -k 5 60 $enter "$gloo" "$@" \
      > "$scratch/out.$rank" 2> "$scratch/log.$rank" < /dev/null &
    ranks="$ranks $!"
  done
  for pid in $ranks; do
    wait "$pid" || bad=$?
  done
  cat "$scratch"/log.? >> "$scratch/log"
  [ $bad -eq 0 ] || cat "$scratch"/out.? "$scratch"/log.? | sed 's/^/# /'
  return $bad
}

# ---- collectives -------------------------------------------------------------

# The names of collectives, from the command's error message.
collectives=$("$gloo" bench none 2>&1 | sed -n "s/.* is not one of //p" | tr -d ,. |
  sed 's/ overlap limits start$//')
has " $collectives " " allreduce " && has " $collectives " " exscan " &&
  has " $collectives " " alltoallv "
result "there are collectives to test: $collectives"
: > "$scratch/log"
# Runs in one process, to test whether the command accepts these options.
alone() {
  "$gloo" bench "$@" --ranks 2 --threads --transport inproc --sizes 4 --iterations 1 \
    > /dev/null 2>&1
}

for collective in $collectives; do
  set -- bench "$collective" --transport auto --sizes 4,1000,70000,1100000 --iterations 2 --warmup 1
  if alone "$collective" --algorithm all; then
    set -- "$@" --algorithm all
  fi
  run_job "$@" && [ "$(grep -c ' yes$' "$scratch/out.0")" -gt 0 ]
  result "$collective is right on every rank, whatever the algorithm"
  case $collective in broadcast | reduce | gather* | scatter*) ;; *) continue ;; esac
  run_job "$@" --root 3 && [ "$(grep -c ' yes$' "$scratch/out.0")" -gt 0 ]
  result "$collective is right with a root in the other namespace"
done

# Long messages go by reference, and their completion goes through a queue that may
# be full when the operation ends.
run_job bench allreduce --transport auto --memory gloo_alloc --sizes "$size" --iterations 20 --buffers 2 &&
  [ "$(grep -c ' yes$' "$scratch/out.0")" -gt 0 ]
result "no rank waits for one that is done"

# ---- what was chosen ---------------------------------------------------------

# chosen FIRST SECOND TEXT: succeeds if each log names this transport for the pair.
chosen() {
  said=$(sed -n "s/.*rank $1 talks to rank $2 through //p" "$scratch/log" | sort -u)
  equal "$said" "$3"
}

for pair in "0 1" "1 0" "2 3" "3 2"; do
  # shellcheck disable=SC2086
  chosen $pair "shared memory"
  result "inside a namespace: ranks $pair through shared memory"
done
for pair in "0 2" "0 3" "1 2" "1 3" "2 0" "2 1" "3 0" "3 1"; do
  # shellcheck disable=SC2086
  chosen $pair "TCP, not shared memory: it is in another network namespace"
  result "across: ranks $pair through TCP, and the log says why"
done

# gloo info connects every pair and prints all transports. The reasons against RDMA
# depend on the machine, so they are removed.
run_job info && equal "$(sed -n '/^pairs/,/^memory/{/^memory/!p;}' "$scratch/out.0" | sed 's/  */ /g; s/; not RDMA: .*//')" "pairs
 0 with 1 shared memory
 0 with 2-3 TCP, not shared memory: it is in another network namespace
 1 with 2-3 TCP, not shared memory: it is in another network namespace
 2 with 3 shared memory"
result "gloo info shows that for each pair"

finish
