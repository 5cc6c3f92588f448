#!/usr/bin/env bash
# srun and sbatch, on a Slurm cluster of two hosts.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=tests/tools/machines.sh
. "$project/tests/tools/machines.sh"
# shellcheck source=tests/launchers/jobs.sh
. "$project/tests/launchers/jobs.sh"

for needed in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge; do
  need "${needed%:*}" slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge || skip_all "$why"
done
# Slurm's plugin opens libpmix.so when slurmd starts; Debian ships it in libpmix-dev only.
loadable() { find /usr/lib -path '*/pmix2/lib/libpmix.so' | grep -q .; }
loadable || (install_packages libpmix-dev) >"$scratch/all" 2>&1
enter_hosts 400 "$0" "$@"
make_hosts n1 n2
result "there are two hosts"

d=$scratch/slurm
mkdir -p "$d"/{ctld,munge}
chmod 755 "$d" "$d/munge"
cat >"$d/slurm.conf" <<END_OF_CONFIGURATION
ClusterName=hosts
SlurmctldHost=login(10.213.80.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$d/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$d/ctld
SlurmdSpoolDir=$own/spool
TmpFS=$own/tmp
SlurmctldPidFile=$d/slurmctld.pid
SlurmdPidFile=$own/slurmd.pid
SlurmctldLogFile=$d/slurmctld.log
SlurmdLogFile=$d/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
SlurmdTimeout=10
NodeName=n1 NodeAddr=10.213.80.1 CPUs=4
NodeName=n2 NodeAddr=10.213.80.2 CPUs=4
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE State=UP
END_OF_CONFIGURATION
export SLURM_CONF=$d/slurm.conf

# node NAME: starts slurmd on a host.
node() {
  on "$1" mkdir -p "$own/spool"
  on "$1" slurmd
}

head -c 1024 /dev/urandom >"$d/munge/key"
chmod 600 "$d/munge/key"
munged --key-file="$d/munge/key" --socket="$d/munge/socket" --pid-file="$d/munge/pid" \
  --log-file="$d/munge/log" --seed-file="$d/munge/seed" --force >"$scratch/all" 2>&1 &&
  slurmctld >>"$scratch/all" 2>&1 && node n1 >>"$scratch/all" 2>&1 && node n2 >>"$scratch/all" 2>&1
result "munge, slurmctld and two slurmd start" "$scratch/all"
wait_until timeout 10 srun -N 2 -n 2 true
result "srun starts programs" "$d/slurmctld.log"

# What belongs to Slurm is not left by a job.
daemons='slurmd|slurmstepd'

# step MPI: starts a step of four ranks on both hosts.
step() {
  new_job
  srun --mpi="$1" --kill-on-bad-exit=1 -N 2 -n 4 --ntasks-per-node 2 "$work" "$job" >"$job/n.out" 2>&1 </dev/null &
  parts+=($!)
}

kinds="none pmi2"
if srun --mpi=list 2>&1 | grep -q pmix && loadable; then
  kinds="$kinds pmix"
else
  skipped "srun --mpi=pmix" "this Slurm has no PMIx, or cannot load it (libpmix-dev)"
fi
for mpi in $kinds; do
  step "$mpi"
  waits_for 4 "of 4, .*: begins"
  job_result "srun --mpi=$mpi: four ranks on two hosts meet"
  finishes "srun --mpi=$mpi" 4
  leaves_nothing "srun --mpi=$mpi" n1 n2

  step "$mpi"
  waits_for 4 "of 4, .*: begins"
  on n2 kill -9 "$(sed -nE 's/^rank 3 of 4, process ([0-9]+): begins$/\1/p' "$job/n.out")"
  ended_badly && [ "$(said "n2: task 3: Killed")" -eq 1 ]
  job_result "srun --mpi=$mpi: a rank is killed, srun names it, and the step ends"
  next_job_on n1 n2
  leaves_nothing "srun --mpi=$mpi, of that step" n1 n2
done

# A batch job whose host loses its power puts itself into the queue again, and runs when the host is back.
new_job
cat >"$job/batch" <<END_OF_BATCH
#!/bin/sh
srun --kill-on-bad-exit=1 -N 2 -n 4 --ntasks-per-node 2 $work $job || scontrol requeue \$SLURM_JOB_ID
END_OF_BATCH
sbatch --requeue -N 2 -n 4 --ntasks-per-node 2 -o "$job/n.out" --open-mode=append "$job/batch" >"$scratch/all" 2>&1 </dev/null
result "sbatch takes a job" "$scratch/all"
waits_for 4 "of 4, .*: begins"
job_result "its four ranks meet"
kill_host n2
make_host n2 2 && node n2 >"$scratch/all" 2>&1
waits_for 8 "of 4, .*: begins" || waits_for 8 "of 4, .*: begins"
job_result "a host loses its power and comes back: the job is queued again, and its four ranks meet"
touch "$job/end"
waits_for 4 ": ends"
job_result "it ends, and the result is right on 4 ranks"
leaves_nothing "sbatch" n1 n2
finish
