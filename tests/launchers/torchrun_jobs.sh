# shellcheck shell=bash disable=SC2154
# What torchrun survives on two hosts, by whatever rendezvous: read by scripts that have read jobs.sh.

# find_torchrun: finds or installs torchrun. Sets $venv, or $why on failure.
find_torchrun() {
  # The suite of the Python package may have installed it already.
  venv=$folder/../../python/environments/torch/built
  [ -x "$venv/bin/torchrun" ] || wheel torch==2.13.0 torchrun
}

# agent HOST ARGUMENTS...: starts torchrun on a host, with two ranks.
agent() {
  # shellcheck disable=SC2016  # the rank's own
  part "$1" "$venv/bin/torchrun" --nproc-per-node 2 --max-restarts 3 "${rendezvous[@]}" --rdzv-id "$job" "${@:2}" \
    --no-python sh -c 'echo "start $TORCHELASTIC_RESTART_COUNT of $HOSTNAME"; exec "$@"' rank "$work" "$job"
}

# begins WHAT: starts a job of four ranks.
begins() {
  new_job
  agent a --nnodes 2
  agent b --nnodes 2
  waits_for 4 "of 4, .*: begins" && [ "$(said ": begins")" -eq 4 ]
  job_result "$1: four ranks on two hosts meet"
}

# survives_a_rank WHAT: a rank is killed, the others name it, and torchrun starts all of them again.
survives_a_rank() {
  local victim
  begins "$1"
  victim=$(ranks_on b | tail -n 1)
  kill_rank b "$victim"
  waits_for 8 ": begins" && [ "$(cat "$job"/*.out | grep -E "process [0-9]+: .*rank $victim" | grep -vcF ": begins")" -ge 1 ]
  job_result "$1: rank $victim is killed, others name it, and all four meet again"
  finishes "$1" 4
  leaves_nothing "$1" a b
}

# survives_while_others_compute WHAT: a rank is killed while those on the other host make no call. Their agent
# counts no failure, so the agents' counts of restarts differ.
survives_while_others_compute() {
  local rank
  begins "$1"
  for rank in $(ranks_on a); do touch "$job/busy-$rank"; done
  touch "$job/busy"
  waits_for 2 ": computes"
  kill_rank b "$(ranks_on b | tail -n 1)"
  waits_for 8 ": begins"
  job_result "$1: a rank is killed while other ranks compute, and all four meet again"
  rm -f "$job"/busy*
  equal "$(grep -hc "^start 0 of a" "$job/a.out") $(grep -hc "^start 1 of b" "$job/b.out")" "4 2"
  job_result "$1: the agents count restarts differently"
  finishes "$1" 4
  leaves_nothing "$1" a b
}

# survives_a_host WHAT KEPT LOST: a host loses its power, and the other goes on alone.
survives_a_host() {
  local kept=$2 lost=$3 host before
  new_job
  export GLOO_HEARTBEAT=1
  # Agents of PyTorch 2.13 share a store for the ranks of all starts. One that joins later waits in vain for its
  # address; without it each start has a store.
  export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
  for host in a b; do
    agent $host --nnodes 1:2 --rdzv-conf last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3
  done
  waits_for 4 "of 4, .*: begins"
  job_result "$1: one or two hosts: four ranks meet"
  before=$(said "of 2, .*: begins") # if a host was late, the other began without it
  kill_host "$lost"
  parts=("${parts[$([ "$kept" = a ] && echo 0 || echo 1)]}")
  waits_for $((before + 2)) "of 2, .*: begins"
  job_result "$1: host $lost loses its power, and the two ranks of the other go on"
}

# takes_a_host_back WHAT KEPT LOST NUMBER: the host comes back, and the job has four ranks again.
takes_a_host_back() {
  local before
  before=$(said "of 4, .*: begins")
  make_host "$3" "$4"
  agent "$3" --nnodes 1:2 --rdzv-conf last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3
  waits_for $((before + 4)) "of 4, .*: begins"
  job_result "$1: host $3 comes back, and four ranks meet"
}
