#!/bin/sh
# The command line: help, bad options, and valid JSON.
# usage: command.sh GLOO JSON_CHECK
gloo=$1 json=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

# says STATUS TEXT ARGUMENTS: checks the exit status, and a part of the output.
says() {
  status=$1 text=$2
  shift 2
  out=$("$gloo" "$@" 2>&1)
  equal $? "$status" && has "$out" "$text"
  result "gloo $*: $text"
}

says 2 "usage: gloo COMMAND"
says 0 "usage: gloo COMMAND" help
says 0 "gloo_c 0." -V
says 2 "gloo: unknown command 'bnech'; did you mean 'bench'?" bnech
says 2 "gloo run: unknown option -np; did you mean -n N?" run -np 4 ls
says 2 "gloo info: unknown option -np; 'gloo info --help' lists them" info -np 4
says 2 "gloo run: unknown option -ranks; did you mean -n N?" run -ranks 4 true
says 2 "gloo run: unknown option --rank; did you mean --ranks?" run --rank 4 true
says 2 "gloo run: unknown option --prefx; did you mean --prefix?" run --prefx -n 2 true
says 2 "gloo run: unknown option -prefix; did you mean --prefix?" run -prefix -n 2 true
says 2 "gloo bench: unknown option --iter=5; did you mean --iterations?" bench allreduce --iter=5
says 2 "gloo bench limits: unknown option --olny; did you mean --only?" bench limits --olny add
says 2 "gloo bench overlap: unknown option --romuds; did you mean --rounds?" bench overlap --romuds 4
says 2 "gloo bench start: unknown option --repaet; did you mean --repeat?" bench start --repaet 4
says 2 "gloo plan: unknown option --check-al; did you mean --check-all?" plan --check-al
says 2 "gloo tune: unknown option --facotr; did you mean --factor?" tune --facotr 4
says 2 "gloo doctor: unknown option --jsno; did you mean --json?" doctor --jsno
says 2 "gloo trace: unknown option --timline; did you mean --timeline?" trace --timline x y
says 2 "gloo top: unknown option --onec; did you mean --once?" top --onec
says 2 "gloo store: unknown option --prot; did you mean --port?" store --prot 4
says 2 "gloo info: unknown option --tunings; did you mean --tuning?" info --tunings
says 2 "gloo bench: unknown option --m; 'gloo bench --help' lists them" bench allreduce --m 4
says 127 "gloo run: cannot run 'no-such-program': not found in PATH" run -n 1 no-such-program
says 0 "usage: gloo COMMAND" --help
says 0 "gloo_c 0." --version
says 2 "unknown command 'walk'; the commands are run, bench, plan, tune, doctor, trace, top, metrics, store, info, completion" walk
for tool in run bench plan tune doctor trace top metrics store info completion; do
  says 0 "usage: gloo" $tool --help
  says 2 "gloo $tool: unknown option --frobnicate; 'gloo $tool --help' lists them" $tool --frobnicate
done
says 0 "usage: gloo bench limits" bench limits --help
says 0 "'gloo bench limits' this machine without the library, and 'gloo bench" bench --help
says 2 "overlap, limits, start" bench strat

# ---- values -----------------------------------------------------------------

says 2 "option -n is required" run true
says 2 "the program is missing" run -n 2
says 2 "option --ranks: 'two' is not a whole number from 1 to" run -n two true
says 2 "option --ranks: '0' is not" run -n0 true
says 2 "option --ranks: '99999999999999999999' is not" run -n 99999999999999999999 true
says 2 "option --ranks needs a value" run -n
says 2 "option --prefix takes no value" run --prefix=yes -n 1 true
says 2 "option --grace-ms: '-1' is not" run -n 1 --grace-ms -1 true
says 2 "option --port: '70000' is not a whole number from 1 to 65535" run -n 1 --port 70000 true
says 2 "option --hosts: '-oX' is not a host name" run -n 2 --hosts a,-oX true
says 2 "option --hosts: '' is not a host name" run -n 2 --hosts a, true
says 2 "option --hosts: 'a:x' is not a host with slots" run -n 2 --hosts a:x true
says 2 "option --by: 'rsh' is not one of srun, mpirun, mpiexec" run -n 2 --hosts a --by rsh true
says 2 "without --by ranks are started by ssh" run -n 2 --hosts a --by ssh true
says 2 "1 rank cannot run on 2 hosts" run -n 1 --hosts a,b true
says 2 "3 ranks exceed the 2 slots of 2 hosts" run -n 3 --hosts a:1,b:1 true
says 2 "option -n is required: the number of ranks; or give hosts slots" run --hosts a,b true
says 2 "option --hostfile: cannot open /no/such/file" run -n 2 --hostfile /no/such/file true
says 2 "give either --hosts or --hostfile" run -n 2 --hosts a --hostfile b true
says 2 "--execute requires --by" run -n 2 --hosts a --execute true
says 2 "--min-ranks exceeds the ranks" run --hosts a:2 --min-ranks 3 true
says 2 "option --rsh: '' is not a command" run -n 2 --hosts a --rsh "" true
says 2 "option --lost-ms: '10' is not a whole number from 1000" run -n 2 --hosts a --lost-ms 10 true
says 2 "srun distributes ranks evenly, but host a has 3 of 4" run --hosts a:3,b:1 --by srun true
says 2 "mpirun takes host names only" run -n 2 --hosts me@a --by mpirun true
for option in --prefix --no-bind "--grace-ms 5" "--min-ranks 1" "--port 5" "--rsh x" "--env PATH" "--chdir /" \
  "--master-addr x" "--lost-ms 5000" "--parallel 2"; do
  # shellcheck disable=SC2086
  says 2 "${option%% *} cannot be combined with --by: mpirun starts the ranks" run -n 2 --hosts a $option --by mpirun true
done
for option in "--by srun" --execute "--ppn 2" "--rsh x" "--env PATH" "--chdir /" "--master-addr x" "--lost-ms 5000" \
  "--parallel 2"; do
  # shellcheck disable=SC2086
  says 2 "${option%% *} requires --hosts or --hostfile" run -n 2 $option true
done
says 1 "host 'nosuch.invalid' does not resolve" store --host nosuch.invalid
says 2 "COLLECTIVE is missing" bench
says 2 "collective: 'allreduse' is not one of barrier, broadcast, allreduce" bench allreduse
says 2 "option --dtype: 'float31' is not one of int8," bench allreduce --dtype float31
says 2 "option --op: 'plus' is not one of sum," bench allreduce --op plus
says 2 "bxor is not defined for float32: bitwise operations apply to integers" bench allreduce --op bxor
says 2 "option --op: exscan has no average" bench exscan --op average
says 2 "option --algorithm: 'rings' is not one of" bench allreduce --algorithm rings
says 2 "sendrecv has no algorithms to choose from" bench sendrecv --algorithm ring
says 2 "option --sizes: '4X' is not a size" bench allreduce --sizes 1K,4X
says 2 "option --sizes: '' is not a size" bench allreduce --sizes 1K,
says 2 "option --min: '4X' is not a size from 1 to 1024G" bench allreduce --min 4X
says 2 "option --max: 4 is less than --min, 8" bench allreduce --min 8 --max 4
says 2 "give either --sizes or" bench allreduce --min 8 --sizes 4
says 2 "option --time: '0' is not a number of seconds" bench allreduce --time 0
says 2 "option --time: 'nan' is not a number of seconds" bench allreduce --time nan
says 2 "option --buffers: '0' is neither" bench allreduce --buffers 0
says 2 "option --memory: 'disk' is not one of malloc, gloo_alloc" bench allreduce --memory disk
says 2 "option --in-place: barrier cannot operate in place" bench barrier --in-place
says 2 "option --threads needs --ranks" bench allreduce --threads
says 2 "option --ranks needs --threads" bench allreduce --ranks 4
says 2 "only one collective" bench allreduce barrier
says 2 "unknown limit 'speed'" bench limits --only speed
says 2 "takes no operands" info everything
says 1 "carrier-pigeon" bench allreduce --ranks 2 --threads --transport carrier-pigeon
out=$(RANK=0 WORLD_SIZE=4 "$gloo" bench allreduce --transport inproc 2>&1)
equal $? 2 && has "$out" "use --ranks 4 --threads"
result "inproc between processes is refused"
out=$(RANK=5 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$gloo" bench allreduce 2>&1)
equal $? 1 && has "$out" "RANK"
result "a bad environment is said"

# ---- the environment ----------------------------------------------------------

# refuses NAME=VALUE TEXT: a wrong variable prevents the measurement.
refuses() {
  out=$(env "$1" "$gloo" bench overlap 2>&1)
  equal $? 1 && has "$out" "$2"
  result "$1: $2"
}

unset GLOO_TRANSPORT
refuses GLOO_TRANSPORT=pigeon 'GLOO_TRANSPORT: unknown transport "pigeon"; valid: auto'
refuses GLOO_WAIT=nap 'GLOO_WAIT is "nap"; it must be adapt, spin'
refuses GLOO_MEASURE=maybe "GLOO_MEASURE is 'maybe'; it may be 0 or 1"
refuses GLOO_SHARED_BUFFERS=all "GLOO_SHARED_BUFFERS is 'all'; it may be 0 or 1"
refuses GLOO_ALGORITHM=ring "GLOO_ALGORITHM: 'ring' is not a collective"
refuses GLOO_TUNING_FILE="$scratch/none" "GLOO_TUNING_FILE: cannot open $scratch/none"
refuses GLOO_SOCKET_IFNAME=none0 '"none0" with an address (from GLOO_SOCKET_IFNAME); available:'
if "$gloo" bench barrier --iterations 1 --transport shm > "$scratch/shm" 2>&1; then
  refuses GLOO_SHM_READ=often 'GLOO_SHM_READ is "often"; it must be "auto", "never" or the smallest message'
else
  skipped "GLOO_SHM_READ" "$(cat "$scratch/shm")"
fi
out=$("$gloo" bench barrier --iterations 1 2>&1)
has "$out" "1 rank (processes), auto"
result "gloo bench takes the library's own transport"

out=$(env -i PATH="$PATH" GLOO_LOG_LEVEL=info "$gloo" bench barrier --iterations 1 2>&1)
has "$out" "no launcher found in the environment: running as a job of one rank"
result "without a launcher the log says so"
out=$(GLOO_LOG_LEVEL=info "$gloo" run -n 2 -- "$gloo" bench barrier --iterations 1 2>&1)
echo "$out" | grep -qE "; [0-9]+ ranks? on [0-9]+ cores?: " && ! echo "$out" | grep -qE " 1 (ranks|cores)[ :]"
result "the log counts ranks and cores"
says 0 "Shows live activity of the ranks" top --help
# An empty file, which the loader finds before the driver of this machine.
mkdir "$scratch/empty" && : > "$scratch/empty/libcuda.so.1"
out=$(LD_LIBRARY_PATH="$scratch/empty${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$gloo" info 2>&1)
case $out in
  *"GPUs                 not built"*) skipped "a missing NVIDIA driver is named" "built without GPUs" ;;
  *)
    has "$out" "no: no CUDA driver (" && has "$out" "libcuda.so.1: "
    result "a missing NVIDIA driver is named"
    ;;
esac

# ---- output that cannot be written ---------------------------------------------

if [ -c /dev/full ]; then
  for tool in "info" "info --json" "plan --list" "trace --help" "completion bash"; do
    # shellcheck disable=SC2086  # words of a command
    out=$("$gloo" $tool 2>&1 > /dev/full)
    equal $? 1 && has "$out" "gloo ${tool%% *}: cannot write standard output: "
    result "gloo $tool to a full disk fails and says so"
  done
else
  skipped "output to a full disk" "there is no /dev/full"
fi

# ---- JSON -------------------------------------------------------------------

"$gloo" info --json | "$json" > "$scratch/out"
equal "$(cat "$scratch/out")" 1
result "gloo info --json is one object"

"$gloo" bench limits --json --time 0.001 > "$scratch/limits"
equal $? 0 && lines=$("$json" limit bytes value unit < "$scratch/limits") &&
  equal "$((lines - $(grep -c '"limit": "read_process"' "$scratch/limits")))" 29
result "gloo bench limits --json: objects with the promised keys"
for limit in memcpy memcpy_behind add fused_add fused_allreduce shm_pingpong_roundtrip tcp_pingpong_roundtrip tcp_exchange tcp_stream flag_one_way; do
  grep "\"limit\": \"$limit\"," "$scratch/limits" | grep -qv '"value": 0,'
  result "the limit $limit is measured"
done

"$gloo" bench allreduce --ranks 2 --threads --sizes 4,1K --algorithm all --iterations 5 --json \
  > "$scratch/results"
equal $? 0 && "$json" collective transport algorithm dtype op memory ranks bytes iterations \
  min_us p50_us p99_us algbw_gbps busbw_gbps seconds flag_ns verified < "$scratch/results" > "$scratch/out"
result "gloo bench --json: objects with the promised keys"
equal "$(grep -c '"verified": true' "$scratch/results")" "$(cat "$scratch/out")"
result "all of them verified"
grep -q '"ranks": 2, "bytes": 1024, "iterations": 5,' "$scratch/results"
result "ranks, bytes and iterations are those asked for"

out=$("$gloo" bench allreduce --ranks 2 --threads --min 4 --max 64 --factor 4 --iterations 2)
equal "$(echo "$out" | grep -v '^#' | awk 'NR > 1 {print $1}' | tr '\n' ' ')" "4 16 64 "
result "sizes from --min to --max"

finish
