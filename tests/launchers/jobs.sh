# shellcheck shell=bash disable=SC2034,SC2154
# Jobs of launchers/work.c on several hosts, for scripts here that have read common.sh and tools/machines.sh. A
# job has a folder, $job, with the output of each host in HOST.out.

# A secret of the job, as several hosts need one.
GLOO_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export GLOO_JOB_SECRET

# new_job: makes the folder of the next job.
job_number=0
new_job() {
  job_number=$((job_number + 1))
  job=$scratch/job$job_number
  mkdir "$job"
  parts=()
}

# part HOST COMMAND...: starts a part of the job on a host.
part() {
  on "$@" >>"$job/$1.out" 2>&1 </dev/null &
  parts+=($!)
}

# said TEXT: prints the number of output lines that match.
said() { cat "$job"/*.out | grep -cE -- "$1"; }

# waits_for NUMBER TEXT: waits until as many lines match.
waits_for() { wait_until at_least "$@"; }
at_least() { [ "$(said "$2")" -ge "$1" ]; }

# ranks_on HOST: prints the ranks that a host has begun.
ranks_on() { sed -nE 's/.*rank ([0-9]+) of .*: begins$/\1/p' "$job/$1.out" | sort -u; }

# kill_rank HOST RANK: kills a rank of the last start by SIGKILL.
kill_rank() {
  local process
  process=$(sed -nE "s/.*rank $2 of .*, process ([0-9]+): begins$/\1/p" "$job/$1.out" | tail -n 1)
  on "$1" kill -9 "$process"
}

# ended STATUS: waits for all parts of the job; succeeds if each has this status.
ended() {
  local pid good=0 status
  for pid in "${parts[@]}"; do
    wait "$pid"
    status=$?
    [ $status -eq "$1" ] || { good=1 && echo "# status $status, not $1"; }
  done
  return $good
}

# ended_badly: waits for all parts of the job; succeeds if one fails.
ended_badly() {
  local pid bad=1
  for pid in "${parts[@]}"; do wait "$pid" || bad=0; done
  return $bad
}

# job_result TEXT: a result, with the output of the job if it failed.
job_result() {
  local status=$?
  tail -n 25 "$job"/*.out >"$scratch/all"
  (exit $status)
  result "$1" "$scratch/all"
}

# next_job_on HOST...: runs a job of one rank on each host. It removes the observer's sockets of ranks that were
# killed, which cannot do that themselves.
next_job_on() {
  local host
  for host; do on "$host" "$hello" >"$scratch/all" 2>&1; done
}

# finishes WHAT RANKS: a result: the job ends well when it is told to.
finishes() {
  touch "$job/end"
  ended 0 && [ "$(said ": ends")" -eq "$2" ]
  job_result "$1: it ends, and the result is right on $2 ranks"
}
