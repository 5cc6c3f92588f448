#!/bin/sh
# shellcheck disable=SC2016,SC2317,SC2089,SC2090
# gloo run --hosts: agents on hosts that are all this machine, by an ssh that runs commands here.
# usage: hosts.sh GLOO DEFAULT_SIGNALS with|without
# The third argument says whether it was built with OpenSSL.
gloo=$1 defaults=$2 openssl=$3
case $gloo in /*) ;; *) gloo=$PWD/$gloo ;; esac
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
# Elsewhere ranks may outlive an agent that is killed.
has_linux || {
  echo "1..0 # SKIP without Linux ranks are not killed with their agent"
  exit 0
}
unset GLOO_JOB_SECRET GLOO_JOB_SECRET_FILE GLOO_SECURITY GLOO_TRANSPORT SLURM_JOB_ID
HOME=$scratch/home FAKE=$scratch/fake
export HOME FAKE
mkdir "$HOME" "$FAKE"

# ---- an ssh ------------------------------------------------------------------

# Its hosts have an environment of their own; some have faults.
cat > "$FAKE/ssh" << 'END'
#!/bin/sh
FAKE=$(dirname "$0") # agents that use it have no such variable
while :; do
  case $1 in
    -o | -F) shift 2 ;;
    -p) port=$2; shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=${1#*@}
echo "$$ $PPID $1 ${port-}" >> "$FAKE/log"
shift
for p in $$ $PPID; do cat /proc/$p/cmdline; done >> "$FAKE/lines" 2> /dev/null
cat /proc/$$/environ >> "$FAKE/lines" 2> /dev/null
fault() { echo "$1" >&2; exit "${2-255}"; }
begin() { printf '\000\r\ngloo-agent p\001'; }
hello() { # VERSION of five characters
  printf '\007\000\000\000\000\005\000\000\000%s' "$1"
}
case $host in
  refused) fault "ssh: connect to host refused port 22: Connection refused" ;;
  denied) fault "me@denied: Permission denied (publickey,password)." ;;
  unknown) fault "No ED25519 host key is known for unknown and you have requested strict checking.
Host key verification failed." ;;
  changed) fault "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @
Host key verification failed." ;;
  nameless) fault "ssh: Could not resolve hostname nameless: Name or service not known" ;;
  silent) fault "ssh: connect to host silent port 22: Connection timed out" ;;
  closed) fault "kex_exchange_identification: Connection closed by remote host" ;;
  odd) fault "something else happened" 255 ;;
  old) fault "gloo run: unknown option --agent; 'gloo run --help' lists them" 2 ;;
  bare) exec env -i PATH=/usr/bin:/bin sh -c "$(printf '%s' "$*" | sed "s|g='*[^;]*;|g=/nonexistent/gloo;|")" ;;
  other) begin; hello 9.9.9; exec sleep 600 ;;
  future) printf '\000\r\ngloo-agent p\377'; exec sleep 600 ;;
  liar) begin; hello "$VERSION"; printf '\143\000\000\000\000\000\000\000\000'; exec sleep 600 ;;
  long) begin; hello "$VERSION"; printf '\013\000\000\000\000\377\377\377\377'; exec sleep 600 ;;
  early) begin; hello "$VERSION"; printf '\015\001\000\000\000\000\000\000\000'; exec sleep 600 ;;
  hasty) begin; printf '\010\000\000\000\000\004\000\000\000\001\000\000\000'; exec sleep 600 ;;
  babbler) exec yes "Welcome to this host" ;;
  greeter) printf 'Welcome to this host\n\000\r\ngloo-agent q\n' ;;
esac
[ "$host" = relay ] || exec env -i PATH=/usr/bin:/bin HOME="$HOME" FAKE_HOST="$host" sh -c "$*"
exec 3<&0
env -i PATH=/usr/bin:/bin HOME="$HOME" FAKE_HOST="$host" sh -c "$*" <&3 3<&- &
exec 3<&-
wait $!
END
chmod +x "$FAKE/ssh"
VERSION=$("$gloo" --version | sed 's/gloo_c //')
export VERSION

run() {
  : > "$FAKE/log"
  PATH="$FAKE:$PATH" "$gloo" run --lost-ms 60000 "$@"
}
# last FILE: its last line.
last() {
  tail -n 1 "$1"
}
# Have the processes ended whose ids the files have?
ended() { # FILE...
  cat "$@" > "$scratch/processes"
  while read -r process; do
    gone "$process" || return 1
  done < "$scratch/processes"
}
# So, and all that ssh has started?
all_gone() { # FILE...
  cut -d ' ' -f 1 "$FAKE/log" > "$scratch/started"
  ended "$scratch/started" "$@"
}
# A program that writes its process id and that of its agent, and waits.
stays='echo $$ > "$0/new.$RANK"; echo $PPID > "$0/agent.$RANK"; mv "$0/new.$RANK" "$0/ready.$RANK"
  exec sleep 600'
ready() { # RANK...
  for rank; do [ -e "$scratch/ready.$rank" ] || return 1; done
}
fresh() {
  rm -f "$scratch"/ready.* "$scratch"/agent.*
}

# ---- placement and environment -----------------------------------------------

out=$(run -n 3 --hosts a,b -- \
  sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $FAKE_HOST' | sort)
equal "$out" "0 3 0 2 a a
1 3 1 2 a a
2 3 0 1 a b"
result "ranks are divided evenly"

show='echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $FAKE_HOST'
out=$(run --hosts a:1,me@b:2222:2,c -- sh -c "$show" | sort)
equal "$out" "0 0 1 a
1 0 2 b
2 1 2 b
3 0 1 c" && equal "$(cut -d ' ' -f 3- "$FAKE/log" | sort)" "$(printf 'a \nc \nme@b 2222')"
result "slots, a user and a port"

printf '# two hosts\na slots=2\nb:2\n' > "$scratch/hostfile"
out=$(run -n 3 --hostfile "$scratch/hostfile" -- sh -c "$show" | sort)
equal "$out" "0 0 2 a
1 1 2 a
2 0 1 b"
result "a file with hosts"

out=$(run --ppn 2 --hosts a,b -- sh -c "$show" | sort)
equal "$out" "0 0 2 a
1 1 2 a
2 0 2 b
3 1 2 b"
result "--ppn"

out=$(run -n 3 --hosts a:1,b:1 -- true 2>&1)
equal $? 2 && has "$out" "3 ranks exceed the 2 slots of 2 hosts" && has "$out" "--ppn"
result "more ranks than slots are refused"

out=$(run -n 4 --hosts a,b -- sh -c 'echo $MASTER_PORT $GLOO_JOB_ID' | sort -u)
[ "$(echo "$out" | wc -l)" -eq 1 ] && [ "${out%% *}" -gt 0 ] && [ -n "${out##* }" ]
result "all ranks get one port and one job id"
out=$(run -n 2 --hosts a,b --port 4321 --master-addr other.name -- sh -c 'echo $MASTER_ADDR $MASTER_PORT' | sort -u)
equal "$out" "other.name 4321"
result "--port and --master-addr"

odd=$(printf 'it'"'"'s "$HOME" `x` \\\\ %%s\nnew\tline \377\001 *;&|<>(){}[]!#~')
out=$(GLOO_ODD_VALUE=$odd MY_OWN=$odd NOT_CARRIED=1 OMP_NUM_THREADS=3 VIRTUAL_ENV=/v PYTHONPATH=/p RANK=9 GLOO_RANK=9 \
  run -n 2 --hosts a,b --env MY_OWN -- sh -c 'printf "%s" "$GLOO_ODD_VALUE" | cksum; printf "%s" "$MY_OWN" | cksum
  printf "%s" "$1" | cksum; echo "$OMP_NUM_THREADS $VIRTUAL_ENV $PYTHONPATH ${NOT_CARRIED-none} ${GLOO_RANK-none}"' x "$odd" | sort -u)
sum=$(printf '%s' "$odd" | cksum)
equal "$out" "$(printf '%s\n%s' "$sum" "3 /v /p none none" | sort)"
result "variables and arguments keep every byte, and others stay here"
out=$(run -n 2 --hosts a,b --env NOT_SET -- true 2>&1)
equal $? 2 && has "$out" "option --env: the variable 'NOT_SET' is not set here"
result "a missing variable of --env is named"
out=$(run -n 2 --hosts a,b -- sh -c 'echo "$PATH"' | sort -u)
equal "$out" "$FAKE:$PATH"
result "PATH arrives"

out=$(cd "$scratch/home" && run -n 2 --hosts a,b -- pwd | sort -u)
equal "$out" "$scratch/home"
result "ranks run in the same directory"
out=$(run -n 2 --hosts a,b --chdir / -- pwd | sort -u)
equal "$out" /
result "--chdir"
out=$(run -n 2 --hosts a,b --chdir /no/such -- pwd 2>&1)
equal $? 126 && has "$out" "host a: cannot change to the directory /no/such there" && has "$out" "host b: cannot" &&
  has "$out" "--chdir"
result "a missing directory is named, for each host"
out=$(run -n 2 --hosts a,b -- no-such-program 2>&1)
equal $? 127 && has "$out" "host b: cannot run 'no-such-program': not found in PATH"
result "a missing program gives 127"
out=$(run -n 2 --hosts a,b -- gloo --version | sort -u)
equal "$out" "$("$gloo" --version)"
result "the program gloo is this command"

# ---- this host -----------------------------------------------------------------

out=$(run -n 2 --hosts localhost,b -- sh -c 'echo $RANK ${FAKE_HOST-here} $MASTER_ADDR' | sort)
equal "$out" "0 here $(uname -n)
1 b $(uname -n)" && equal "$(wc -l < "$FAKE/log" | tr -d ' ')" 1
result "a host that is this one needs no ssh"
out=$(run -n 2 --hosts localhost -- gloo bench barrier --iterations 2 2>&1)
equal $? 0 && has "$out" "2 ranks"
result "ranks of this host meet"
out=$(run -n 4 --hosts a,b --master-addr 127.0.0.1 -- gloo bench allreduce --iterations 2 --sizes 4 2>&1)
equal $? 0 && has "$out" "4 ranks"
result "ranks of two hosts meet"

# ---- the secret ----------------------------------------------------------------

if [ "$openssl" = with ]; then
  rm -f "$FAKE/lines"
  out=$(run -n 2 --hosts a,b -- sh -c 'cat /proc/[0-9]*/cmdline 2> /dev/null > "$0/lines.$RANK"
    echo "$GLOO_JOB_SECRET"' "$scratch" | sort -u)
  equal ${#out} 64 && printf '%s\n' "$out" > "$scratch/pattern" &&
    [ -s "$FAKE/lines" ] && [ -s "$scratch/lines.1" ] &&
    ! grep -qaF -f "$scratch/pattern" "$FAKE/lines" "$scratch"/lines.*
  result "all ranks get one secret, and no command line and no ssh has it"
fi
digits=9d3f17c48e02b65a71f0c3d8e94b2a6075f1e8d3c2b4a697
rm -f "$FAKE/lines"
out=$(GLOO_JOB_SECRET=$digits GLOO_STORE=redis://u:pass-w@h/ run -n 2 --hosts a,localhost -- sh -c '
  cat /proc/[0-9]*/cmdline 2> /dev/null > "$0/lines.$RANK"; echo "$GLOO_JOB_SECRET $GLOO_STORE"' "$scratch" | sort -u)
equal "$out" "$digits redis://u:pass-w@h/" && [ -s "$FAKE/lines" ] &&
  printf '%s\npass-w\n' "$digits" > "$scratch/pattern" &&
  ! grep -qaF -f "$scratch/pattern" "$FAKE/lines" "$scratch"/lines.*
result "nor one that the user has set, nor a store's password"
out=$(GLOO_JOB_SECRET_FILE=/my/file run -n 2 --hosts a,b -- sh -c 'echo "${GLOO_JOB_SECRET-none} $GLOO_JOB_SECRET_FILE"' | sort -u)
equal "$out" "none /my/file"
result "the name of a file with one is carried"

mkdir -p "$HOME/.config/gloo_c"
(umask 077; echo $digits > "$HOME/.config/gloo_c/secret")
out=$(run -n 2 --hosts a,b -- sh -c 'echo "$GLOO_JOB_SECRET"' | sort -u)
equal "$out" $digits
result "the user's own is carried to hosts that may lack it"
rm "$HOME/.config/gloo_c/secret"

# ---- input and output ----------------------------------------------------------

out=$(printf 'one\ntwo' | run -n 2 --hosts a,b -- cat)
equal "$out" "one
two"
result "rank 0 reads the standard input"
head -c 3000000 /dev/urandom > "$scratch/random"
out=$(run -n 2 --hosts a,b -- sh -c '[ $RANK = 1 ] || { sleep 0.2; cksum; }' < "$scratch/random")
equal "$out" "$(cksum < "$scratch/random")"
result "3 MB of it arrive"
out=$(yes | run -n 2 --hosts a,b -- sh -c '[ $RANK = 1 ] || head -n 1')
equal "$? $out" "0 y"
result "input that rank 0 does not read is dropped"
out=$(run -n 2 --hosts a,b -- sh -c '[ $RANK = 1 ] || cksum' < "$scratch/random")
equal "$out" "$(cksum < "$scratch/random")"
result "all bytes of a file arrive"

out=$(run -n 2 --hosts a,b --prefix -- sh -c 'echo out; echo err >&2; printf "no newline"' 2> "$scratch/err" | sort)
equal "$out" "[0 a] no newline
[0 a] out
[1 b] no newline
[1 b] out" && equal "$(sort "$scratch/err")" "[0 a] err
[1 b] err"
result "--prefix: each line has its rank and host"
out=$(run -n 1 --hosts a -- printf 'no newline')
equal "$out" "no newline" && equal "$(run -n 1 --hosts a -- cat < "$scratch/random" | cksum)" "$(cksum < "$scratch/random")"
result "without it bytes are kept"

run -n 4 --hosts a,b --prefix -- sh -c 'i=0; while [ $i -lt 200 ]; do
  printf "line "; echo "$i of $RANK"; i=$((i + 1)); done' > "$scratch/lines"
whole=$(grep -c '^\[\([0-3]\) [ab]\] line [0-9]* of \1$' "$scratch/lines")
equal "$whole $(wc -l < "$scratch/lines" | tr -d ' ')" "800 800"
result "lines of several hosts stay whole"

# A pager that reads nothing for longer than hosts may be silent. Ranks write more than all pipes hold.
run -n 2 --hosts a,b --lost-ms 2000 -- sh -c 'yes "0123456789 of $RANK" | head -n 1000000' 2> "$scratch/err" |
  { sleep 5; sort | uniq -c | awk '{ print $1, $2, $3, $4 }'; } > "$scratch/lines"
equal "$(cat "$scratch/lines")" "1000000 0123456789 of 0
1000000 0123456789 of 1" && equal "$(cat "$scratch/err")" ""
result "an output that blocks for longer than the lost time loses nothing"

out=$(run -n 2 --hosts a,b -- yes 2> "$scratch/err" | head -n 1)
equal "$out" y && wait_until all_gone /dev/null
result "ranks end when nobody reads their output"

# ---- failures ------------------------------------------------------------------

run -n 2 --hosts a,b -- true > "$scratch/out" 2>&1
equal "$? $(cat "$scratch/out")" "0 "
result "success is silent"

run -n 3 --hosts a,b --grace-ms 100 -- sh -c '[ $RANK != 2 ] || exit 7; exec sleep 600' 2> "$scratch/err"
equal $? 7 && has "$(cat "$scratch/err")" "stopping ranks 0, 1" &&
  has "$(last "$scratch/err")" "gloo run: first failure: rank 2 (pid " && has "$(last "$scratch/err")" " on b) failed: exit status 7" &&
  wait_until all_gone /dev/null
result "the status is that of the rank that failed, and the last line has its host"

run -n 2 --hosts a,b --grace-ms 100 -- sh -c '[ $RANK != 1 ] || kill -KILL $$; exec sleep 600' 2> "$scratch/err"
equal $? 137 && has "$(last "$scratch/err")" " on b) failed: killed by signal 9"
result "a killed rank gives 128 plus the signal"

# The exit of rank 0 may be reported before the death of rank 1, which caused it.
run -n 2 --hosts a,b --grace-ms 5000 -- sh -c 'case $RANK in
  0) : > "$0/waits"; until [ -e "$0/dying" ]; do sleep 0.01; done; exit 4 ;;
  1) until [ -e "$0/waits" ]; do sleep 0.01; done; : > "$0/dying"; kill -KILL $$ ;; esac' "$scratch" 2> "$scratch/err"
equal $? 137 && has "$(last "$scratch/err")" "rank 1" && has "$(cat "$scratch/err")" "1 more failed afterwards"
result "a death precedes exits that it may have caused"

run -n 2 --hosts a,b --grace-ms 50 -- sh -c 'trap "" TERM; [ $RANK != 1 ] || exit 3
  while :; do sleep 1; done' 2> "$scratch/err"
equal $? 3 && has "$(cat "$scratch/err")" "killing rank 0" && has "$(last "$scratch/err")" "first failure: rank 1"
result "a rank that ignores SIGTERM is killed"

fresh
run -n 4 --hosts a:2,b:2 --min-ranks 2 -- sh -c 'case $RANK in
  3) until [ -e "$0/ready.2" ]; do sleep 0.02; done; kill -KILL $PPID; exec sleep 600 ;;
  2) : > "$0/ready.2"; exec sleep 600 ;; esac
  until grep -q "continues with 2" "$0/err"; do sleep 0.02; done; echo $RANK is there' "$scratch" > "$scratch/out" 2> "$scratch/err"
equal "$? $(sort "$scratch/out" | tr '\n' ',')" "0 0 is there,1 is there," &&
  has "$(cat "$scratch/err")" "host b is lost with ranks 2 to 3: its connection ended" &&
  has "$(cat "$scratch/err")" "killed by signal 9"
result "with --min-ranks a job continues without a host"
run -n 4 --hosts a:2,b:2 --min-ranks 3 --grace-ms 50 -- sh -c '[ $RANK != 3 ] || kill -KILL $PPID; exec sleep 600' 2> "$scratch/err"
equal $? 1 && has "$(last "$scratch/err")" "first failure: host b is lost with ranks 2 to 3"
result "but not with fewer"

fresh
run -n 3 --hosts a,b --grace-ms 50 -- sh -c "$stays" "$scratch" 2> "$scratch/err" &
pid=$!
wait_until ready 0 1 2
kill -KILL "$(cat "$scratch/agent.2")"
wait $pid
equal $? 1 && has "$(last "$scratch/err")" "host b is lost with rank 2: its connection ended (ssh: exit status 137" &&
  wait_until all_gone "$scratch"/ready.*
result "an agent that is killed"

for how in KILL TERM; do
  fresh
  run -n 3 --hosts a,b --grace-ms 50 -- sh -c "$stays" "$scratch" 2> "$scratch/err" &
  pid=$!
  wait_until ready 0 1 2
  kill -$how "$(sed -n 's/ .* b $//p' "$FAKE/log")"
  wait $pid
  status=$?
  case $how in
    KILL) equal $status 1 && has "$(last "$scratch/err")" "host b is lost with rank 2: its connection ended (ssh was killed by signal 9" ;;
    TERM) equal $status 143 && has "$(last "$scratch/err")" "host b is lost with rank 2: its agent got signal 15" ;;
  esac && wait_until all_gone "$scratch"/ready.*
  result "the process that ssh starts gets SIG$how"
done

fresh
run -n 2 --hosts a,relay --grace-ms 50 -- sh -c "$stays" "$scratch" 2> "$scratch/err" &
pid=$!
wait_until ready 0 1
kill -KILL "$(sed -n 's/ .* relay $//p' "$FAKE/log")"
wait $pid
equal $? 1 && has "$(last "$scratch/err")" "host relay is lost with rank 1: its connection ended (ssh was killed by signal 9" &&
  wait_until all_gone "$scratch"/ready.*
result "an ssh that is killed"

fresh
PATH="$FAKE:$PATH" "$gloo" run --lost-ms 60000 -n 3 --hosts a,localhost -- sh -c "$stays" "$scratch" 2> "$scratch/err" &
pid=$!
wait_until ready 0 1 2
kill -KILL $pid
wait $pid
equal $? 137 && wait_until all_gone "$scratch"/ready.*
result "gloo run is killed"

# A controller that stops sends no beats: agents end their ranks.
fresh
run -n 2 --hosts a,b --lost-ms 1000 --grace-ms 50 -- sh -c "$stays" "$scratch" 2> "$scratch/err" &
pid=$!
wait_until ready 0 1
leader=$(sed -n '1s/^[0-9]* \([0-9]*\) .*/\1/p' "$FAKE/log")
kill -STOP "$leader" # it will not reap the agents
wait_until ended "$scratch"/ready.*
result "ranks end when gloo run is stopped"
kill -CONT "$leader"
wait $pid
equal $? 1 && has "$(last "$scratch/err")" "first failure: host" && wait_until all_gone /dev/null
result "and it says so when it continues"

# A host that stops is lost.
fresh
run -n 2 --hosts a,b --lost-ms 1000 --grace-ms 50 -- sh -c "$stays" "$scratch" 2> "$scratch/err" &
pid=$!
wait_until ready 0 1
agent=$(cat "$scratch/agent.1")
kill -STOP "$agent"
wait $pid
equal $? 1 && has "$(last "$scratch/err")" "host b is lost with rank 1: nothing has arrived from it for 1 s"
result "an agent that is stopped is lost"
kill -CONT "$agent" 2> /dev/null
wait_until all_gone "$scratch"/ready.*
result "and ends its ranks when it continues"

run -n 2 --hosts a,b --grace-ms 50 -- sh -c 'sleep 600 & echo $! > "'"$scratch"'/left.$RANK"'
wait_until gone "$(cat "$scratch/left.0")" && wait_until gone "$(cat "$scratch/left.1")"
result "processes that a rank leaves behind are ended"

# ---- signals -------------------------------------------------------------------

for signal in USR1 HUP INT TERM; do
  fresh
  : > "$FAKE/log"
  PATH="$FAKE:$PATH" "$defaults" "$gloo" run --lost-ms 60000 -n 2 --hosts a,b --prefix -- sh -c '
    trap "echo got it; exit 5" '$signal'
    : > "$0/ready.$RANK"
    while :; do sleep 0.05; done' "$scratch" > "$scratch/out" 2> "$scratch/err" &
  pid=$!
  wait_until ready 0 1
  kill -$signal $pid
  wait $pid
  equal "$? $(sort -u "$scratch/out" | tr '\n' ,)" "5 [0 a] got it,[1 b] got it,"
  result "SIG$signal reaches all ranks"
done
fresh
PATH="$FAKE:$PATH" "$defaults" "$gloo" run --lost-ms 60000 -n 2 --hosts a,b -- sh -c "trap '' INT TERM; $stays" "$scratch" 2> "$scratch/err" &
pid=$!
wait_until ready 0 1
kill -INT $pid
sleep 0.3
kill -INT $pid
sleep 0.3
kill -INT $pid
wait $pid
equal $? 137
result "a third SIGINT kills"

: > "$FAKE/log"
PATH="$FAKE:$PATH" "$defaults" "$gloo" run -n 2 --hosts a,other2 --rsh "$FAKE/ssh" -- sleep 600 2> "$scratch/err" &
pid=$!
wait_until test "$(wc -l < "$FAKE/log")" -ge 0
wait_until grep -q other2 "$FAKE/log"
kill -TERM $pid
wait $pid
equal $? 143 && wait_until all_gone /dev/null
result "SIGTERM at any time ends the job"

# ---- hosts that cannot start ---------------------------------------------------

faulty() { # HOST TEXT
  out=$(run -n 2 --hosts "a,$1" -- true 2>&1)
  equal $? 126 && has "$out" "gloo run: host $1: $2" && equal "$(echo "$out" | wc -l | tr -d ' ')" 1 &&
    wait_until all_gone /dev/null
  result "host $1: $2"
}
faulty refused "it refuses connections to the port of ssh"
faulty denied "it refuses to log in without a password: install your key there (ssh-copy-id denied)"
faulty unknown "its host key is unknown here: log in once by hand (ssh unknown)"
faulty changed "its host key differs from the known one"
faulty nameless "the name does not resolve"
faulty silent "it did not answer within the time limit of ssh"
faulty closed "it closed the connection before the login"
faulty odd "its agent did not start (ssh: exit status 255: something else happened)"
faulty old "gloo there is older than agents: install the same version of gloo_c on all hosts"
faulty bare "gloo is missing there: it is neither "
faulty other "it has gloo_c 9.9.9, and this host has $VERSION: install the same version on all hosts"
faulty future "its agent speaks protocol 255, and this command protocol 1"
if [ ${#VERSION} -eq 5 ]; then
  faulty liar "the agent sent a frame of type 99"
  faulty long "the agent sent a frame EXITED of 4294967295 bytes; valid: 12 to "
  faulty early "the agent sent frames too early"
fi
faulty hasty "the agent sent frames in the wrong order"
faulty babbler "its shell printed more than 65536 bytes before the agent started"

out=$(run -n 3 --hosts refused,denied,a -- true 2>&1)
equal $? 126 && has "$out" "host refused: it refuses" && has "$out" "host denied: it refuses" &&
  has "$out" "first failure: host" && equal "$(echo "$out" | wc -l | tr -d ' ')" 3
result "each host that cannot start is named"
out=$(run -n 1 --hosts greeter -- echo started)
equal "$out" started
result "lines that a shell prints at login do no harm"
out=$(run -n 2 --hosts a,b --rsh "no-such-command -x" -- true 2>&1)
equal $? 127 && has "$out" "option --rsh: cannot run 'no-such-command'"
result "a missing command of --rsh is named"

# ---- what agents take ----------------------------------------------------------

# agent_says TEXT < INPUT: an agent that gets these bytes ends with that sentence.
agent_says() {
  cat | "$gloo" run --agent 2> "$scratch/err" | tr -d '\000' > "$scratch/out"
  equal "$(cat "$scratch/err")" "" && has "$(cat "$scratch/out")" "$1"
}
printf '\143\000\000\000\000\000\000\000\000' | agent_says "gloo-agent p"
result "an agent that gets a wrong type ends"
printf '\001\000\000\000\000\377\377\377\377' | agent_says "gloo-agent p"
result "or a wrong length"
printf '\002\020\000\000\000\000\000\000\000' | agent_says "gloo run started ranks before their setup"
result "or frames in the wrong order"
printf '\001\000\000\000\000\004\000\000\000\001\000\000\000' | agent_says "gloo run sent a malformed setup"
result "or a setup that is cut"
good=true
for i in 1 2 3 4 5 6 7 8; do
  head -c 20000 /dev/urandom | agent_says "gloo-agent p" || good=false
done
$good
result "or random bytes"
"$gloo" run --agent < /dev/null > "$scratch/out" 2>&1
equal $? 2 && has "$(cat "$scratch/out")" "agents are started by 'gloo run --hosts'"
result "an agent is not started by hand"

# ---- a tree --------------------------------------------------------------------

# Hosts that start others find this ssh by its path.
tree() {
  run --rsh "$FAKE/ssh" --fanout 2 "$@"
}
# Which hosts were started by gloo run itself, and which by another host?
starters() {
  awk '{ by[$3] = $2 } END { for (h in by) print (by[h] == by["a"] ? "here" : "there"), h }' "$FAKE/log" | sort | tr '\n' ' '
}

out=$(tree -n 8 --hosts a,b,me@c,d,e,f:3 --prefix -- sh -c 'echo $RANK $FAKE_HOST' 2>&1 | sort)
equal "$out" "[0 a] 0 a
[1 b] 1 b
[2 c] 2 c
[3 d] 3 d
[4 e] 4 e
[5 f] 5 f
[6 f] 6 f
[7 f] 7 f" && equal "$(starters)" "here a here d there b there e there f there me@c "
result "hosts start hosts" || cat "$FAKE/log"

odd=$(printf 'it'"'"'s\n$HOME\377')
out=$(GLOO_ODD_VALUE=$odd tree -n 4 --hosts a,b,c,d --env GLOO_ODD_VALUE -- sh -c 'printf "%s" "$GLOO_ODD_VALUE" | cksum' | sort -u)
equal "$out" "$(printf '%s' "$odd" | cksum)"
result "variables arrive through others"

out=$(tree -n 4 --hosts a,b,c,d -- sh -c '[ $RANK != 0 ] || cksum' < "$scratch/random")
equal "$out" "$(cksum < "$scratch/random")"
result "so does the standard input"

tree -n 4 --hosts a,b,c,d --grace-ms 100 -- sh -c '[ $RANK != 3 ] || exit 7; exec sleep 600' 2> "$scratch/err"
equal $? 7 && has "$(last "$scratch/err")" "first failure: rank 3 (pid " && has "$(last "$scratch/err")" " on d) failed: exit status 7" &&
  wait_until all_gone /dev/null
result "a rank that fails on such a host is named"

out=$(tree -n 5 --hosts a,b,refused,d,denied -- true 2>&1)
equal $? 126 && has "$out" "host refused: it refuses connections to the port of ssh" &&
  has "$out" "host denied: it refuses to log in" && has "$out" "(started by host a; see --fanout)" && wait_until all_gone /dev/null
result "hosts that cannot start there are named"
out=$(tree -n 4 --hosts refused,b,c,d -- true 2>&1)
equal $? 126 && has "$out" "host refused: it refuses" && has "$out" "host b: the connection through host refused ended: it refuses" &&
  wait_until all_gone /dev/null
result "so are hosts behind one that cannot start"

# Host a has started b, and c has started d.
killed_agent() { # rank, its host, text
  fresh
  tree -n 4 --hosts a,b,c,d --grace-ms 50 -- sh -c "$stays" "$scratch" 2> "$scratch/err" &
  pid=$!
  wait_until ready 0 1 2 3
  kill -KILL "$(cat "$scratch/agent.$1")"
  wait $pid
  equal $? 1 && has "$(last "$scratch/err")" "host $2 is lost with rank $1: its connection ended (ssh: exit status 137" &&
    wait_until all_gone "$scratch"/ready.*
  result "$3"
}
killed_agent 1 b "an agent at the end of a branch is killed"
killed_agent 2 c "an agent with a branch is killed"

for signal in INT TERM; do
  fresh
  : > "$FAKE/log"
  "$defaults" "$gloo" run --lost-ms 60000 --rsh "$FAKE/ssh" --fanout 2 -n 4 --hosts a,b,c,d -- sh -c '
    trap "echo got it; exit 5" '$signal'
    : > "$0/ready.$RANK"
    while :; do sleep 0.05; done' "$scratch" > "$scratch/out" 2> "$scratch/err" &
  pid=$!
  wait_until ready 0 1 2 3
  kill -$signal $pid
  wait $pid
  equal "$? $(tr '\n' ' ' < "$scratch/out")" "5 got it got it got it got it "
  result "SIG$signal reaches ranks through others"
done

fresh
"$gloo" run --lost-ms 60000 --rsh "$FAKE/ssh" --fanout 2 -n 4 --hosts a,b,c,d -- sh -c "$stays" "$scratch" 2> "$scratch/err" &
pid=$!
wait_until ready 0 1 2 3
kill -KILL $pid
wait $pid
equal $? 137 && wait_until ended "$scratch"/ready.*
result "ranks at the end of a branch end with gloo run"

tree -n 4 --hosts a,b,c,d --lost-ms 2000 -- sh -c 'yes "0123456789 of $RANK" | head -n 500000' 2> "$scratch/err" |
  { sleep 5; sort | uniq -c | awk '{ print $1, $2, $3, $4 }'; } > "$scratch/lines"
equal "$(cat "$scratch/lines")" "500000 0123456789 of 0
500000 0123456789 of 1
500000 0123456789 of 2
500000 0123456789 of 3" && equal "$(cat "$scratch/err")" ""
result "an output that blocks loses nothing of them"

# ---- many hosts ----------------------------------------------------------------

hosts=$(i=0; while [ $i -lt 64 ]; do i=$((i + 1)); printf '%sh%d' "${comma-}" $i; comma=,; done)
out=$(run --fanout 0 -n 64 --hosts "$hosts" --parallel 8 -- sh -c 'echo $RANK $FAKE_HOST' | sort -n | awk '{ print ($2 == "h" $1 + 1) }' | uniq -c | tr -s ' ')
equal "$out" " 64 1" && equal "$(wc -l < "$FAKE/log" | tr -d ' ')" 64 && wait_until all_gone /dev/null
result "64 hosts"
out=$(run --rsh "$FAKE/ssh" -n 64 --hosts "$hosts" -- sh -c 'echo $RANK $FAKE_HOST' | sort -n | awk '{ print ($2 == "h" $1 + 1) }' | uniq -c | tr -s ' ')
equal "$out" " 64 1" && equal "$(cut -d ' ' -f 2 "$FAKE/log" | sort | uniq -c | awk '{ n[$1]++ } END { print n[8], n[7] }')" "1 8" &&
  wait_until all_gone /dev/null
result "64 hosts as a tree"

finish
