#!/bin/sh
# shellcheck disable=SC2016,SC2317
# gloo run: the environment of ranks, and failures of ranks.
# usage: run.sh GLOO DEFAULT_SIGNALS with|without SANITIZER
# The third argument says whether it was built with OpenSSL; SANITIZER may be none.
gloo=$1 defaults=$2 openssl=$3 sanitizer=$4
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
unset GLOO_JOB_SECRET GLOO_JOB_SECRET_FILE GLOO_SECURITY

# ---- what ranks get ---------------------------------------------------------

out=$("$gloo" run -n 3 -- sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR' | sort)
equal "$out" "0 3 0 3 127.0.0.1
1 3 1 3 127.0.0.1
2 3 2 3 127.0.0.1"
result "each rank gets its rank and the size"

out=$("$gloo" run -n 4 -- sh -c 'echo $MASTER_PORT $GLOO_JOB_ID' | sort -u)
[ "$(echo "$out" | wc -l)" -eq 1 ] && [ "${out%% *}" -gt 0 ] && [ -n "${out##* }" ]
result "all ranks get one port and one job id"

other=$("$gloo" run -n 1 -- sh -c 'echo $GLOO_JOB_ID')
[ "$other" != "${out##* }" ]
result "another run gets another job id"

out=$(RANK=7 WORLD_SIZE=9 "$gloo" run -n 1 -- env | grep -E '^(RANK|WORLD_SIZE)=' | sort)
equal "$out" "RANK=0
WORLD_SIZE=1"
result "variables of an outer job are replaced"

out=$(GLOO_RANK=7 GLOO_SIZE=9 TORCHELASTIC_USE_AGENT_STORE=True "$gloo" run -n 1 -- env |
  grep -cE '^(GLOO_RANK|GLOO_SIZE|TORCHELASTIC_USE_AGENT_STORE)=')
equal "$out" 0
result "those that would come first are taken away"

out=$("$gloo" run -n 1 --port 4321 -- sh -c 'echo $MASTER_PORT')
equal "$out" 4321
result "--port is passed on"

out=$("$gloo" run -n 2 sh -c 'printf "%s\n" "$*"' x -n 5 -- --prefix | sort -u)
equal "$out" "-n 5 -- --prefix"
result "options after the program are the program's"

out=$(echo hello | "$gloo" run -n 2 --prefix -- cat)
equal "$out" "[0] hello"
result "rank 0 reads the standard input"

out=$(PATH=/usr/bin:/bin "$gloo" run -n 2 -- gloo --version | sort -u)
has "$out" "gloo_c 0." && equal "$out" "$("$gloo" --version)"
result "the program gloo is this command"

if [ -r /proc/self/stat ]; then
  # The process group and the session of each rank.
  ids=$("$gloo" run -n 3 -- sh -c 'set -- $(cat /proc/$$/stat); echo $$ $5 $6')
  groups=$(echo "$ids" | awk '$1 == $2' | wc -l | tr -d ' ')
  sessions=$(echo "$ids" | awk '{ print $3 }' | sort -u)
  own=$(cut -d ' ' -f 6 /proc/self/stat)
  equal "$groups $(echo "$sessions" | wc -l | tr -d ' ')" "3 1" && [ "$sessions" != "$own" ]
  result "each rank leads a process group, and all are in one session"
fi

# ---- the secret -------------------------------------------------------------

digits=9d3f17c48e02b65a71f0c3d8e94b2a6075f1e8d3c2b4a697
tell='echo "${GLOO_JOB_SECRET-none}"'
HOME=$scratch/home
export HOME
mkdir -p "$HOME/.config/gloo_c"

out=$("$gloo" run -n 3 -- sh -c "$tell" | sort -u)
if [ "$openssl" = with ]; then
  equal "$(printf %s "$out" | tr -d 0-9a-f | wc -c) ${#out}" "0 64"
  result "all ranks get one secret of 256 bits"
  other=$(GLOO_JOB_SECRET='' "$gloo" run -n 1 -- sh -c "$tell")
  [ ${#other} -eq 64 ] && [ "$other" != "$out" ]
  result "another run gets another secret"
else
  equal "$out" none
  result "without OpenSSL ranks get no secret"
fi

out=$("$gloo" run -n 2 -- sh -c 'for p in $$ $PPID; do tr "\0" "\n" < /proc/$p/cmdline; done |
  grep -c "${GLOO_JOB_SECRET:-$GLOO_JOB_ID}"')
equal "$out" "0
0"
result "it is on no command line"

out=$(GLOO_JOB_SECRET=$digits "$gloo" run -n 2 -- sh -c "$tell" | sort -u)
equal "$out" "$digits"
result "a secret that is there is passed on"

echo $digits > "$scratch/secret"
chmod 600 "$scratch/secret"
out=$(GLOO_JOB_SECRET_FILE=$scratch/secret "$gloo" run -n 1 -- sh -c "$tell; echo \$GLOO_JOB_SECRET_FILE")
equal "$out" "none
$scratch/secret"
result "where there is a file with one, ranks read that"

cp -p "$scratch/secret" "$HOME/.config/gloo_c/secret"
equal "$("$gloo" run -n 1 -- sh -c "$tell")" none
result "also where it is the user's"

chmod 644 "$HOME/.config/gloo_c/secret"
out=$("$gloo" run -n 3 -- echo started 2>&1)
equal "$? $(echo "$out" | wc -l | tr -d ' ')" "1 1" && has "$out" "/home/.config/gloo_c/secret can be read" &&
  has "$out" "chmod 600"
result "a file that others can read is told once, and no rank is started"
equal "$(GLOO_SECURITY=off "$gloo" run -n 1 -- sh -c "$tell")" none
result "with GLOO_SECURITY=off none is looked at, or made"
rm "$HOME/.config/gloo_c/secret"

out=$(GLOO_JOB_SECRET=${digits}x "$gloo" run -n 3 -- echo started 2>&1)
equal "$? $(echo "$out" | wc -l | tr -d ' ')" "1 1" && has "$out" "GLOO_JOB_SECRET has 49 characters" &&
  case $out in *9d3f1*) false ;; esac
result "what is no secret is told once, without what it is"

out=$(GLOO_SECURITY=on "$gloo" run -n 1 -- true 2>&1)
equal $? 1 && has "$out" "GLOO_SECURITY is 'on'; valid: required, auth, off"
result "GLOO_SECURITY may not be anything else"

out=$(GLOO_SECURITY=required "$gloo" run -n 1 -- sh -c "$tell" 2>&1)
status=$?
if [ "$openssl" = with ]; then
  equal "$status ${#out}" "0 64"
  result "with GLOO_SECURITY=required there is one"
else
  equal $status 1 && has "$out" "GLOO_SECURITY=required: this build cannot" && has "$out" "-Dopenssl=enabled"
  result "GLOO_SECURITY=required takes OpenSSL"
fi

# ---- other launchers --------------------------------------------------------

# Ranks get a secret: the line before generates one. A list of variables is known only if nothing
# else is set.
alone() {
  env -i PATH="$PATH" HOME="$HOME" "$@"
}
makes_one='[ -n "$GLOO_JOB_SECRET" ] || GLOO_JOB_SECRET=$(openssl rand -hex 32) || exit
export GLOO_JOB_SECRET
'
passes=" -x GLOO_JOB_SECRET"
[ "$openssl" = with ] || makes_one='' passes=''

out=$(alone "$gloo" run -n 3 --hosts a,b --by srun -- prog "a b")
equal "$out" "${makes_one}srun --nodes=2 --ntasks=3 --nodelist=a,b -- 'prog' 'a b'"
result "--by srun"

out=$(alone "$gloo" run -n 3 --hosts a,b --by mpirun prog "it's")
equal "$out" "${makes_one}mpirun -np 3 --host a:2,b:1$passes 'prog' 'it'\\''s'"
result "--by mpirun"

out=$(alone "$gloo" run --hosts a:1,b:3 --by mpirun prog)
equal "$out" "${makes_one}mpirun -np 4 --host a:1,b:3$passes 'prog'"
result "--by mpirun with slots"

out=$(alone "$gloo" run -n 3 --hosts a,b --by mpiexec prog)
equal "$out" "${makes_one}mpiexec -n 3 -hosts a:2,b:1 'prog'"
result "--by mpiexec"

equal "$(alone GLOO_SECURITY=off "$gloo" run -n 3 --hosts a,b --by mpiexec prog)" \
  "mpiexec -n 3 -hosts a:2,b:1 'prog'"
result "with GLOO_SECURITY=off no secret is made"

out=$(alone GLOO_LOG_LEVEL=error GLOO_JOB_SECRET=$digits GLOO_SECURITY=auth GLOO_RANK=1 GLOO_JOB_ID=x \
  "$gloo" run -n 2 --hosts a,b --by mpirun prog)
equal "$(echo "$out" | tr ' ' '\n' | sort | tr '\n' ' ')" \
  "$(echo "mpirun -np 2 --host a:1,b:1 -x GLOO_LOG_LEVEL -x GLOO_SECURITY -x GLOO_JOB_SECRET 'prog'" | tr ' ' '\n' | sort | tr '\n' ' ')"
result "--by mpirun passes on all variables of gloo_c by their names"

# Secrets must not be readable: they appear in no output.
password=$(printf '%s' "p'a\"s\$s\`w\\ord")
in_secret() { # FILE...: does any have the password, or the secret?
  grep -qF -e "w\\ord" -e "a\"s" -e "$digits" -- "$@"
}
for by in srun mpirun mpiexec; do
  GLOO_STORE="redis://user:$password@host/" GLOO_JOB_SECRET=$digits \
    "$gloo" run -n 2 --hosts a,b --by $by prog > "$scratch/script"
  has "$(cat "$scratch/script")" "$by" && ! in_secret "$scratch/script"
  result "--by $by shows neither a store's password nor a secret"
done

fake=$scratch/fake
mkdir "$fake"
for by in srun mpirun mpiexec; do
  printf '#!/bin/sh\necho "$0 $*" > "%s"\necho "${GLOO_JOB_SECRET-none}"\n' "$scratch/line" > "$fake/$by"
  chmod +x "$fake/$by"
  out=$(PATH="$fake:$PATH" "$gloo" run -n 2 --hosts a,b --by $by --execute prog)
  line=$(cat "$scratch/line")
  if [ "$openssl" = with ]; then
    equal ${#out} 64 && case $line in *"$out"*) false ;; *" prog") ;; *) false ;; esac
    result "--by $by --execute: a secret in the environment, and on no line"
  else
    equal "$out" none
    result "--by $by --execute: no secret without OpenSSL"
  fi
done
out=$(GLOO_JOB_SECRET=$digits PATH="$fake:$PATH" "$gloo" run -n 2 --hosts a,b --by srun --execute prog)
equal "$out" $digits
result "or the one that is there"
"$gloo" run -n 2 --hosts a,b --by srun -- true > "$scratch/script"
printf '#!/bin/sh\nexit 9\n' > "$fake/openssl"
chmod +x "$fake/openssl"
if [ "$openssl" = with ]; then
  out=$(PATH="$fake:$PATH" sh "$scratch/script")
  equal "$? $out" "9 "
  result "a printed command starts no rank if no secret can be made"
fi
rm "$fake/openssl"

# ---- the store alone --------------------------------------------------------

"$gloo" store --port 0 >"$fake/store" &
server=$!
wait_until test -s "$fake/store"
store=$(cat "$fake/store")
has "$store" "GLOO_STORE=tcp://127.0.0.1:"
result "gloo store says where it listens"

meet() { # JOB RANK
  env "$store" GLOO_JOB_ID="$1" GLOO_RANK="$2" GLOO_SIZE=2 "$gloo" bench barrier --json >"$fake/$1$2" 2>&1
}
meet one 0 & a=$!
meet two 0 & b=$!
meet one 1 & c=$!
meet two 1 && wait $a && wait $b && wait $c
result "two jobs meet there" || cat "$fake/one0" "$fake/two0"

kill -TERM $server
wait $server
result "and it ends when it is told to"

# ---- cores ------------------------------------------------------------------

# The cores that each rank may run on: "RANK LIST", by rank.
allowed() {
  "$gloo" run "$@" -- sh -c \
    'echo $RANK $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)' | sort -n
}

cores=$(nproc 2> /dev/null || echo 1)
if has_linux && [ -r /proc/self/status ] && [ "$("$gloo" info | sed -n 's/^effective cores *\([0-9]*\)$/\1/p')" = "$cores" ]; then
  mine=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
  free=$(allowed -n "$cores" | cut -d ' ' -f 2 | sort -u)
  equal "$free" "$mine"
  result "ranks that have a core each run where they like"

  free=$(allowed -n $((2 * cores)) --no-bind | cut -d ' ' -f 2 | sort -u)
  equal "$free" "$mine"
  result "with --no-bind ranks that share cores do, too"

  if [ "$cores" -gt 1 ]; then
    allowed -n $((3 * cores)) > "$scratch/bound"
    lists=$(cut -d ' ' -f 2 "$scratch/bound" | uniq -c | awk '{ print $1 }' | sort -u)
    ones=$(cut -d ' ' -f 2 "$scratch/bound" | grep -c '^[0-9]*$')
    different=$(cut -d ' ' -f 2 "$scratch/bound" | sort -u | wc -l | tr -d ' ')
    equal "$lists $ones $different" "3 $((3 * cores)) $cores"
    result "three ranks for each core: neighbours keep to one"

    free=$(allowed -n $((cores + 1)) | cut -d ' ' -f 2 | sort -u)
    equal "$free" "$mine"
    result "ranks that cannot be shared out evenly run where they like"

    one=${mine%%[,-]*}
    if command -v taskset > /dev/null; then
      free=$(taskset -c "$one" "$gloo" run -n 2 -- sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | sort -u)
      equal "$free" "$one"
      result "and all of them stay where the command may run"
    fi
  fi
fi

# ---- output -----------------------------------------------------------------

"$gloo" run -n 3 --prefix -- sh -c 'i=0; while [ $i -lt 200 ]; do
  printf "line "; echo "$i of $RANK"; i=$((i + 1)); done' > "$scratch/lines"
whole=$(grep -c '^\[\([0-2]\)\] line [0-9]* of \1$' "$scratch/lines")
equal "$whole $(wc -l < "$scratch/lines" | tr -d ' ')" "600 600"
result "lines of several ranks stay whole"

if [ -c /dev/full ]; then
  out=$("$gloo" run -n 2 --prefix -- echo hello 2>&1 > /dev/full)
  equal $? 1 && has "$out" "gloo run: cannot write standard output: "
  result "output of ranks that cannot be written is a failure"
else
  skipped "output to a full disk" "there is no /dev/full"
fi
"$gloo" run -n 2 -- true <&- >&- 2>&-
equal $? 0
result "standard descriptors may be closed"

out=$("$gloo" run -n 1 --prefix -- sh -c 'echo to-stderr >&2' 2>&1 > /dev/null)
equal "$out" "[0] to-stderr"
result "the error output keeps its way, with a prefix"

out=$("$gloo" run -n 1 --prefix -- printf 'a\n\nno newline')
equal "$out" "[0] a
[0] 
[0] no newline"
result "empty and unfinished lines are kept"

"$gloo" run -n 1 --prefix -- sh -c 'head -c 3000000 /dev/zero | tr "\0" x' > "$scratch/long"
equal "$(tr -cd x < "$scratch/long" | wc -c | tr -d ' ')" 3000000
result "a line of 3 MB loses nothing"

out=$("$gloo" run -n 2 --prefix -- yes 2> "$scratch/err" | head -1)
has "$out" "] y"
result "ranks end when nobody reads their output"

# ---- failures ---------------------------------------------------------------

"$gloo" run -n 2 -- true 2> "$scratch/err"
equal "$? $(cat "$scratch/err")" "0 "
result "success is silent"

"$gloo" run -n 3 --grace-ms 100 -- sh -c '[ $RANK != 1 ] || exit 7; sleep 600' 2> "$scratch/err"
equal $? 7
result "the status is that of the rank that failed"
has "$(cat "$scratch/err")" "rank 1 (pid " && has "$(cat "$scratch/err")" "failed: exit status 7"
result "the rank that failed is named"
has "$(cat "$scratch/err")" "stopping ranks 0, 2"
result "those that are stopped are named"

"$gloo" run -n 2 --grace-ms 100 -- sh -c '[ $RANK != 1 ] || kill -KILL $$; sleep 600' 2> "$scratch/err"
equal $? 137
result "a killed rank gives 128 plus the signal"
has "$(cat "$scratch/err")" "killed by signal 9"
result "and the signal is named"

"$gloo" run -n 2 --grace-ms 50 -- sh -c 'trap "" TERM; [ $RANK != 1 ] || exit 3
  while :; do sleep 1; done' 2> "$scratch/err"
equal $? 3 && has "$(cat "$scratch/err")" "killing rank 0"
result "a rank that ignores SIGTERM is killed"

out=$("$gloo" run -n 2 --grace-ms 20000 -- sh -c '[ $RANK != 1 ] || exit 3
  while kill -0 $PPID && ! grep -q failed "'"$scratch/err"'"; do sleep 0.1; done
  echo my own story; exit 4' 2> "$scratch/err")
equal "$? $out" "3 my own story" && has "$(cat "$scratch/err")" "1 more failed"
result "others may tell their own story within the grace"

# shellcheck disable=SC2094  # ranks read what is said of others
out=$("$gloo" run -n 4 --min-ranks 2 -- sh -c 'case $RANK in 1) kill -KILL $$ ;; 3) exit 5 ;; esac
  until grep -q "continues with 2" "$0"; do sleep 0.02; done; echo $RANK is there' "$scratch/err" 2> "$scratch/err")
equal "$? $(echo "$out" | sort | tr '\n' ',')" "0 0 is there,2 is there,"
result "a job continues with the ranks that it needs"
has "$(cat "$scratch/err")" "continues with 3" && has "$(cat "$scratch/err")" "continues with 2"
result "and says how many are left"
# shellcheck disable=SC2094  # rank 2 reads what is said of rank 1
"$gloo" run -n 3 --min-ranks 2 --grace-ms 50 -- sh -c 'case $RANK in 1) exit 11 ;;
  2) until grep -q "continues with 2" "$0"; do sleep 0.02; done; exit 12 ;; esac; sleep 600' "$scratch/err" 2> "$scratch/err"
equal $? 12
result "but not with fewer"

"$gloo" run -n 2 --grace-ms 50 -- sh -c 'sleep 600 & echo $! > "'"$scratch"'/left.$RANK"'
[ -s "$scratch/left.0" ] && [ -s "$scratch/left.1" ] &&
  wait_until gone "$(cat "$scratch/left.0")" && wait_until gone "$(cat "$scratch/left.1")"
result "processes that a rank leaves behind are ended"

for program in no-such-program ./no-such-program; do
  "$gloo" run -n 3 -- $program 2> "$scratch/err"
  equal "$? $(wc -l < "$scratch/err" | tr -d ' ')" "127 1" &&
    has "$(cat "$scratch/err")" "gloo run: cannot run '$program'"
  result "$program: one line and status 127"
done

printf '#!/no/such/interpreter\n' > "$scratch/script"
chmod +x "$scratch/script"
"$gloo" run -n 2 -- "$scratch/script" 2> "$scratch/err"
equal $? 127 && has "$(cat "$scratch/err")" "interpreter"
result "a missing interpreter is said"

"$gloo" run -n 2 -- "$scratch" 2> "$scratch/err"
equal $? 126
result "a folder gives status 126"

# ---- signals ----------------------------------------------------------------

ready() {
  [ -e "$scratch/ready.0" ] && [ -e "$scratch/ready.1" ]
}

for signal in USR1 USR2 HUP INT TERM; do
  rm -f "$scratch"/ready.*
  # A shell starts background commands with SIGINT ignored: undo that.
  "$defaults" "$gloo" run -n 2 --prefix -- sh -c '
    trap "echo got it; exit 5" '$signal'
    : > "'"$scratch"'/ready.$RANK"
    while :; do sleep 0.05; done' > "$scratch/out" 2> "$scratch/err" &
  pid=$!
  wait_until ready
  kill -$signal $pid
  wait $pid
  equal "$? $(sort -u "$scratch/out" | tr '\n' ,)" "5 [0] got it,[1] got it,"
  result "SIG$signal reaches all ranks"
done

# ---- when gloo run itself is killed ------------------------------------------

if has_linux; then
  rm -f "$scratch"/ready.*
  "$gloo" run -n 2 -- sh -c 'echo $$ > "'"$scratch"'/new.$RANK"
    mv "'"$scratch"'/new.$RANK" "'"$scratch"'/ready.$RANK"; exec sleep 600' &
  pid=$!
  wait_until ready
  kill -KILL $pid
  wait $pid
  wait_until gone "$(cat "$scratch/ready.0")" && wait_until gone "$(cat "$scratch/ready.1")"
  result "its ranks die with it"
fi

# ---- memory ------------------------------------------------------------------

# Creates a memory control group of 64 MiB below the current one.
make_group() {
  own=$(sed -n 's/.*:memory://p' /proc/self/cgroup 2> /dev/null)
  top=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
  if [ -z "$own" ]; then
    own=$(sed -n 's/^0:://p' /proc/self/cgroup 2> /dev/null)
    top=/sys/fs/cgroup limit=memory.max
  fi
  group=$top${own%/}/gloo_c-run-$$
  mkdir "$group" 2> /dev/null || return 1
  # shellcheck disable=SC2064
  trap "sleep 0.1; rmdir '$group'; rm -rf '$scratch'" EXIT
  [ -w "$group/$limit" ] && echo 64M > "$group/$limit" 2> /dev/null
}

# in_group PROGRAM: runs it as three ranks in the group.
in_group() {
  out=$(sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group" \
    "$gloo" run -n 3 -- sh -c "$1" 2>&1)
}

if [ "$sanitizer" = none ] && has_linux && make_group; then
  in_group '[ $RANK -eq 1 ] || exec sleep 600; exec tail /dev/zero'
  equal $? 137 && has "$out" "rank 1 (pid" &&
    has "$out" "signal 9 (Killed): the kernel killed it: out of memory (limit 64 MiB of control group $group)"
  result "a rank that the kernel kills for lack of memory is named, with the limit"
  in_group '[ $RANK -eq 2 ] || exec sleep 600; tail /dev/zero; exit 5'
  equal $? 5 && has "$out" "exit status 5: the kernel killed a process of this job: out of memory"
  result "so is a rank whose process was killed"
  in_group '[ $RANK -eq 2 ] || exec sleep 600; kill -KILL $$'
  equal $? 137 && ! has "$out" "out of memory" > /dev/null
  result "a rank that was killed otherwise is not said to lack memory"
else
  skipped "kills for lack of memory" "no memory control group can be made here (root may)"
fi

finish
