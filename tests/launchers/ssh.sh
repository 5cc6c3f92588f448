#!/usr/bin/env bash
# shellcheck disable=SC2016,SC2317  # words for the ranks' shells; functions that are called by name
# `gloo run` on four hosts by ssh: results, names of hosts, variables, the secret.
# usage: ssh.sh PROJECT FOLDER HELLO MEET GLOO ROUNDS WORK LOOP
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=tests/launchers/ssh_hosts.sh
. "$project/tests/launchers/ssh_hosts.sh"
enter_hosts 850 "$0" "$@"
# Processes that crash leave cores, which are searched for the secret.
ulimit -S -c "$(ulimit -H -c)"
# Login shells that are unlike each other.
shells=(/bin/dash /bin/bash)
! need tcsh tcsh || shells+=("$(command -v tcsh)")
make_hosts "${shells[@]}"
result "four hosts with an sshd each, login shells ${shells[*]}"
# Shells that greet: what they print comes before the first bytes of an agent.
echo 'echo Welcome to bash' >"$scratch/host-b/home/.bashrc"
echo 'echo Welcome to csh' >"$scratch/host-c/home/.cshrc"

# ---- results -----------------------------------------------------------------

run_job --hosts $four -- "$hello"
equal "$status" 0 && equal "$out" "$(hellos 16 | LC_ALL=C sort)"
result "16 ranks on four hosts get the right sum" "$scratch/said"

run_job --hosts $four -- gloo info
routes=$(sed -n '/^pairs/,$p' "$scratch/said" | sed 's/  */ /g; s/; not RDMA: .*//')
equal "$status" 0 && has "$routes" "0 with 1-3 shared memory" && has "$routes" "4 with 5-7 shared memory" &&
  has "$routes" "0 with 4-15 TCP"
result "through shared memory within a host, and TCP between hosts" "$scratch/said"

run_job --hosts $four -- gloo bench allreduce --sizes 4,70000 --iterations 3 --warmup 1
equal "$status $(grep -c ' yes$' "$scratch/said")" "0 2"
result "gloo bench verifies its results there" "$scratch/said"

# ---- names of hosts ----------------------------------------------------------

# placed TEXT: did ranks run on these hosts? "host-a host-a host-b" by rank.
where=(sh -c 'echo "$RANK $(hostname)"')
placed() { equal "$status $(sort -n "$scratch/said" | cut -d ' ' -f 2 | tr '\n' ' ')" "0 $1 "; }

run_job --hosts host-a,host-b --ppn 2 -- "${where[@]}"
placed "host-a host-a host-b host-b"
result "--ppn" "$scratch/said"

run_job -n 3 --hosts host-a,host-b -- "${where[@]}"
placed "host-a host-a host-b"
result "-n alone is distributed evenly" "$scratch/said"

run_job --hosts "worker@host-a:$port2:2,worker@host-b:22" --ppn 1 -- "${where[@]}"
placed "host-a host-b" && grep -q "Connection from .* on $(address host-a) port $port2" "$scratch/host-a/sshd.log"
result "user@host:port" "$scratch/said"

run_job --hosts "[$(address6 host-c)]:2,[$(address6 host-d)]" -- "${where[@]}"
placed "host-c host-c host-d"
result "IPv6 addresses in brackets" "$scratch/said"

run_job --hosts "[$(address6 host-c)]:2,[$(address6 host-d)]:2" -- "$hello"
equal "$status" 0 && equal "$out" "$(hellos 4)"
result "where the ranks meet, too" "$scratch/said"

printf '# Open MPI\nhost-a slots=2 max_slots=4\nhost-b slots=1 # one\n' >"$scratch/openmpi"
run_job --hostfile "$scratch/openmpi" -- "${where[@]}"
placed "host-a host-a host-b"
result "a hostfile of Open MPI" "$scratch/said"

printf '# MPICH\nhost-c:1\nhost-d:2\n' >"$scratch/mpich"
run_job --hostfile "$scratch/mpich" -- "${where[@]}"
placed "host-c host-d host-d"
result "a hostfile of MPICH" "$scratch/said"

run_job --hosts front:2,host-a:2 -- "$hello"
equal "$status" 0 && equal "$out" "$(hellos 4)"
result "this host has ranks as well, without ssh" "$scratch/said"

# ---- what ranks get ----------------------------------------------------------

echo hello >"$scratch/input"
(as_worker "$gloo" run --rsh "ssh -F $scratch/ssh_config" --prefix \
  --hosts host-a:2,host-b:2 -- cat) <"$scratch/input" >"$scratch/said" 2>&1
equal "$? $(cat "$scratch/said")" "0 [0 host-a] hello"
result "rank 0 reads the standard input, and --prefix names rank and host" "$scratch/said"

TEST_A="a'b\"c d" GLOO_TEST_B=$'two\nlines' OMP_NUM_THREADS=3 PATH=$PATH:/mnt/further run_job --env TEST_A \
  --hosts host-a:1,host-c:1 -- sh -c 'echo "$RANK|$TEST_A|$GLOO_TEST_B|$OMP_NUM_THREADS|${PATH##*:}|$PWD"'
equal "$status $out" "0 $(printf '%s\n' "0|a'b\"c d|two" "1|a'b\"c d|two" "lines|3|/mnt/further|$scratch/work" \
  "lines|3|/mnt/further|$scratch/work")"
result "variables and the working directory arrive under each shell" "$scratch/said"

run_job --hosts $four -- sh -c 'test $RANK != 9 || exit 7; sleep 100000'
equal "$status" 7 && has "$last" "rank 9" && has "$last" "host-c"
result "the status is that of the rank that failed, and the last line names it" "$scratch/said"

run_job --hosts $four --chdir /no/such/folder -- true
equal "$status" 126 && has "$last" "host-" && has "$last" "/no/such/folder" && has "$last" "--chdir" &&
  wait_until nothing_left
result "a working directory that is missing there is named, with the remedy" "$scratch/said"

# A disk without room. Ranks write nothing unless they have to.
for folder in "$scratch/work" /dev/shm; do
  on host-d mount -t tmpfs -o size=16k,mode=1777 none "$folder"
  on host-d dd if=/dev/zero of="$folder/full" bs=4k 2>/dev/null
done
run_job --hosts $four -- "$hello"
equal "$status" 0 && equal "$out" "$(hellos 16 | LC_ALL=C sort)"
result "a host with a full disk runs its ranks" "$scratch/said"
for folder in "$scratch/work" /dev/shm; do on host-d umount "$folder"; done

# ---- ranks that stay ---------------------------------------------------------

victim_agent() { find_processes host-b 'gloo run --agent' | tail -n 1; }

launch --min-ranks 12 --hosts $four -- sh -c 'echo "rank $RANK runs"; until [ -e go-on ]; do sleep 0.1; done'
wait_until all_run
kill -KILL "$(victim_agent)"
wait_until grep -q "ranks 4 to 7.*the job continues with 12" "$scratch/said"
: >"$scratch/work/go-on"
finish_job
equal "$status" 0 && wait_until nothing_left
result "with --min-ranks the others go on when a host is lost" "$scratch/said"

launch --grace-ms 60000 --hosts $four -- sh -c 'trap "" INT; echo "rank $RANK runs"; exec sleep 100000'
wait_until all_run
for ((i = 0; i < 3; i++)); do
  kill -INT "$job"
  sleep 0.5 # signals that arrive together are one
done
finish_job
equal "$status" 137 && wait_until nothing_left
result "a third SIGINT kills ranks that ignore it" "$scratch/said"

# ---- the secret --------------------------------------------------------------

# secret_in_processes: prints processes whose command line has the secret, and those of ssh, sshd and the agents
# whose environment has it.
secret_in_processes() {
  local pid line
  for pid in $(for host in "${names[@]}"; do processes "$host"; done); do
    line=$(command_line "$pid")
    [[ $line != *"$secret"* ]] || echo "command line of $line"
    case $line in
      ssh\ * | sshd:* | *run\ --agent*)
        ! grep -qaF -- "$secret" "/proc/$pid/environ" 2>/dev/null || echo "environment of $line" ;;
    esac
  done
}

# find_secret NAME: starts a job, and looks for its secret.
find_secret() {
  local found rank
  launch --hosts $four -- "${sleeper[@]}"
  wait_until all_run
  rank=$(rank_process host-b 5)
  secret=$(tr '\0' '\n' <"/proc/$rank/environ" | sed -n 's/^GLOO_JOB_SECRET=//p')
  found=$(secret_in_processes)
  kill -TERM "$job"
  finish_job
  wait_until nothing_left
  [ ${#secret} -ge 32 ] && equal "$found" "" && equal "$(grep -rlaF -- "$secret" "$scratch")" ""
  result "$1 secret is on no command line, in no log, and in the environment of ranks only" "$scratch/said"
}

# find_cores NAME COMMAND...: starts a job, and ends the process that COMMAND finds so that it leaves a core where it
# can. Sets $found, the files that have the secret.
find_cores() {
  launch --hosts $four -- "${sleeper[@]}"
  wait_until all_run
  secret=$(tr '\0' '\n' <"/proc/$(rank_process host-b 5)/environ" | sed -n 's/^GLOO_JOB_SECRET=//p')
  kill -SEGV "$("$@")"
  finish_job
  wait_until nothing_left
  found=$(cd "$scratch" && grep -rlaF -- "$secret" . | tr '\n' ' ')
  find "$scratch" -name 'core*' -type f -exec rm {} +
}

victim_ssh() { find_processes front '^ssh .*host-b'; }
victim_leader() { find_processes front 'gloo run --rsh' | tail -n 1; }
victim_front() { echo "$job"; }

find_secret "a random"
GLOO_JOB_SECRET=9d3f17c48e02b65a71f0c3d8e94b2a6075f1e8d3c2b4a697 find_secret "a given"

find_cores rank_process host-b 5
if [[ $found != *core* ]]; then
  skipped "cores have no secret" "processes leave no core files here (/proc/sys/kernel/core_pattern, ulimit -c)"
else
  for victim in agent ssh leader front; do
    find_cores victim_$victim
    [ ${#secret} -ge 32 ] && equal "$found" ""
    result "the secret is in no core of the $victim, though that of a rank has its environment"
  done
fi

finish
