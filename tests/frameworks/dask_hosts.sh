#!/usr/bin/env bash
# A Dask cluster of two hosts, a worker of which is killed.
# usage: dask_hosts.sh BIN, the folder of the programs dask and python
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
# shellcheck source=tests/tools/tap.sh
. "$here/../tools/tap.sh"
# shellcheck source=tests/tools/machines.sh
. "$here/../tools/machines.sh"
enter_hosts 300 "$0" "$@"
make_hosts a b
result "there are two hosts"

export PATH=$bin:$PATH
on a dask scheduler --host 10.213.80.1 --port 8786 --no-dashboard >"$scratch/scheduler" 2>&1 </dev/null &
wait_until grep -q "Scheduler at: *tcp" "$scratch/scheduler"
result "dask scheduler on a" "$scratch/scheduler"
for host in a b; do
  on $host dask worker tcp://a:8786 --nthreads 1 --no-dashboard >"$scratch/$host.out" 2>&1 </dev/null &
done

DASK_SCHEDULER_ADDRESS=tcp://a:8786 on a python "$here/../../examples/frameworks/dask_workers.py" 2 4000 \
  >"$scratch/said" 2>&1 </dev/null &
driver=$!
wait_until grep -q "of 2 begins" "$scratch/a.out" && wait_until grep -q "of 2 begins" "$scratch/b.out"
result "a task runs on each host" "$scratch/said"

victim=$(processes_on b spawn_main | cut -d " " -f 1)
on b kill -9 "$victim"
wait $driver && grep -q "attempt 0 failed: .*rank [01]" "$scratch/said" &&
  grep -qF "2 workers: mean [1. 2. 3.], deviation [1.  2.  0.5]" "$scratch/said"
result "a worker is killed: the other task names its rank, Dask starts the worker again, and the result is right" "$scratch/said"

for host in a b; do
  for process in $(processes_on $host bin/dask | cut -d " " -f 1); do on $host kill "$process"; done
done
leaves_nothing "after the scheduler and the workers have ended" a b
finish
