#!/usr/bin/env bash
# srun, on a Slurm cluster of four nodes, all on this machine. Their names resolve in
# a private mount namespace.
if [ -z "${LAUNCHERS_SLURM:-}" ]; then
  if ! unshare -m true 2>/dev/null; then
    echo "1..0 # SKIP unshare does not work here (is this root?)"
    exit 0
  fi
  LAUNCHERS_SLURM=1 exec unshare -m --propagation private bash "$0" "$@"
fi
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"

for needed in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge; do
  need "${needed%:*}" slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge ||
    skip_all "$why"
done

# Slurm's plugin opens libpmix.so when slurmd starts; Debian ships it in libpmix-dev only.
# If slurmd could not load it, a step with --mpi=pmix makes slurmd hang.
loadable() { find /usr/lib -path '*/pmix2/lib/libpmix.so' | grep -q .; }
loadable || (install_packages libpmix-dev) >"$scratch/all" 2>&1

d=$scratch/slurm
mkdir -p "$d"/{ctld,munge,spool.n1,spool.n2,spool.n3,spool.n4}
chmod 755 "$scratch" "$d" "$d/munge"
cp /etc/hosts "$d/hosts"
echo "127.0.0.1 n1 n2 n3 n4" >>"$d/hosts"
mount --bind "$d/hosts" /etc/hosts || skip_all "nothing can be mounted here"
base=$((21000 + $$ % 500 * 10)) host=$(hostname -s)
cat >"$d/slurm.conf" <<END
ClusterName=launchers
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$d/munge/socket
CredType=cred/munge
SlurmctldPort=$base
StateSaveLocation=$d/ctld
SlurmdSpoolDir=$d/spool.%n
SlurmctldPidFile=$d/slurmctld.pid
SlurmdPidFile=$d/slurmd.%n.pid
SlurmctldLogFile=$d/slurmctld.log
SlurmdLogFile=$d/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
# The nodes have more processors than the machine.
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1))-$((base + 4)) CPUs=4
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE State=UP
END
export SLURM_CONF=$d/slurm.conf

# Stops the daemons started here, by their PID files.
# shellcheck disable=SC2317  # called by trap
stop() {
  local file pid
  for file in "$d"/slurmd.n?.pid "$d/slurmctld.pid" "$d/munge/pid"; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null
    for _ in {1..100}; do
      gone "$pid" && break
      sleep 0.05
    done
    gone "$pid" || kill -9 "$pid"
  done
  umount /etc/hosts
  rm -rf "$scratch"
}
trap stop EXIT

head -c 1024 /dev/urandom >"$d/munge/key"
chmod 600 "$d/munge/key"
munged --key-file="$d/munge/key" --socket="$d/munge/socket" --pid-file="$d/munge/pid" \
  --log-file="$d/munge/log" --seed-file="$d/munge/seed" --force >"$scratch/all" 2>&1
result "munge starts" "$scratch/all"
slurmctld >"$scratch/all" 2>&1
result "slurmctld starts" "$scratch/all"
for node in n1 n2 n3 n4; do slurmd -N "$node"; done >"$scratch/all" 2>&1
result "slurmd starts" "$scratch/all"
wait_until timeout 10 srun -N 4 -n 4 true
result "srun starts programs" "$d/slurmctld.log"

for mpi in none pmi2; do
  says_hello "srun --mpi=$mpi on four nodes" 6 srun --mpi="$mpi" -N 4 -n 6
done
# One node only: the PMIx plugins of several nodes would use the same files here.
if srun --mpi=list 2>&1 | grep -q pmix && loadable; then
  says_hello "srun --mpi=pmix on one node" 4 srun --mpi=pmix -N 1 -n 4
  meetings "srun --mpi=pmix" pmix srun --mpi=pmix -N 1 -n 4
  carries "srun --mpi=pmix" srun --mpi=pmix -N 1 -n 4
else
  skipped "srun --mpi=pmix" "this Slurm has no PMIx, or cannot load it (libpmix-dev)"
fi
meetings "srun --mpi=pmi2" simple srun --mpi=pmi2 -N 4 -n 4
carries "srun --mpi=pmi2" srun --mpi=pmi2 -N 4 -n 4
finish
