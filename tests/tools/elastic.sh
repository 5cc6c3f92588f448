#!/bin/sh
# shellcheck disable=SC2016,SC2094,SC2154
# gloo run --max-restarts, --store and --join: ranks that are replaced and added.
# usage: elastic.sh GLOO ELASTIC with|without
# The third argument says whether it was built with OpenSSL.
gloo=$1 elastic=$2 openssl=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
unset GLOO_JOB_SECRET GLOO_JOB_SECRET_FILE GLOO_SECURITY GLOO_STORE GLOO_JOIN
HOME=$scratch/home
export HOME
mkdir -p "$HOME"

# ---- replacing ranks --------------------------------------------------------

# A rank that is killed once the job trains, unless it has joined.
cat > "$scratch/victim" << 'END'
victim=$1 log=$2
shift 2
if [ "$RANK" = "$victim" ] && [ -z "$GLOO_JOIN" ]; then
  (while ! grep -q "epoch  3" "$log"; do sleep 0.05; done; kill -9 $$) &
fi
exec "$@"
END

for victim in 0 2; do
  "$gloo" run -n 4 --max-restarts 2 -- sh "$scratch/victim" $victim "$scratch/out" "$elastic" > "$scratch/out" 2>&1
  equal $? 0 && out=$(cat "$scratch/out") &&
    has "$out" "failed: killed by signal 9 (Killed); another process takes its place (1 of 2)" &&
    has "$out" "is rank 2 of 3: ranks failed" && has "$out" "is rank 3 of 4: it starts" &&
    has "$out" "held-out accuracy with 4 ranks"
  result "rank $victim is replaced by a process that joins the others" "$scratch/out"
done

# ---- the variables of a replacement -----------------------------------------

out=$(GLOO_JOB_ID='' "$gloo" run -n 2 --max-restarts 1 -- sh -c '
  [ "$RANK" = 1 ] || { while [ ! -e "$0/ended" ]; do sleep 0.05; done; exit; }
  echo "$RANK $WORLD_SIZE $MASTER_PORT $GLOO_STORE $GLOO_JOB_ID $GLOO_JOB_SECRET" > "$0/vars${GLOO_JOIN-0}"
  [ -n "$GLOO_JOIN" ] || exit 3
  touch "$0/ended"' "$scratch" 2>&1)
equal $? 0 && has "$out" "failed: exit status 3; another process takes its place (1 of 1)" &&
  equal "$(cat "$scratch/vars0")" "$(cat "$scratch/vars1")" && has "$(cat "$scratch/vars1")" " tcp://127.0.0.1:"
result "a replacement has the variables of the rank, and GLOO_JOIN"

out=$(GLOO_STORE=tcp://127.0.0.1:9 "$gloo" run -n 1 --max-restarts 1 -- sh -c 'echo "$GLOO_STORE ${GLOO_JOIN-unset}"')
equal "$out" "tcp://127.0.0.1:9 unset"
result "a store of the user is kept"

# ---- the end ----------------------------------------------------------------

out=$("$gloo" run -n 2 --max-restarts 2 --grace-ms 0 -- sh -c '[ "$RANK" = 0 ] || exec sleep 60; exit 3' 2>&1)
status=$?
equal $status 3 && equal "$(echo "$out" | grep -c 'another process takes its place')" 2 &&
  has "$out" "(2 of 2)" && equal "$(echo "$out" | grep -c ') failed: exit status 3$')" 2
result "the failure after the last restart ends the job" "$scratch/out"

out=$("$gloo" run -n 1 --max-restarts 2 -- sh -c 'exit 4' 2>&1)
equal $? 4 && equal "$(echo "$out" | grep -c 'takes its place')" 0
result "the last rank has no replacement, because it could join no other"

"$gloo" run -n 2 --max-restarts 5 -- sh -c 'touch "$0/started$RANK"; exec sleep 60' "$scratch" 2> "$scratch/out" &
job=$!
wait_until [ -e "$scratch/started0" ] && wait_until [ -e "$scratch/started1" ] && kill -TERM $job
wait $job
status=$?
equal $status 143 && equal "$(grep -c 'takes its place' "$scratch/out")" 0
result "ranks that a signal has ended are not replaced" "$scratch/out"

# ---- adding ranks -----------------------------------------------------------

if [ "$openssl" = with ]; then
  GLOO_JOB_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
  export GLOO_JOB_SECRET
fi
"$gloo" run -n 2 --min-ranks 1 --store 127.0.0.1:0 -- sh -c 'echo "$GLOO_STORE" > "$0/url"; exec "$1"' "$scratch" "$elastic" \
  > "$scratch/out" 2>&1 &
job=$!
wait_until grep -q 'epoch  3' "$scratch/out"
url=$(cat "$scratch/url")
"$gloo" run -n 2 --join "${url#tcp://}" -- "$elastic" > "$scratch/added" 2>&1
added=$?
wait $job
equal "$? $added" "0 0" && has "$(cat "$scratch/out")" "held-out accuracy with 4 ranks" &&
  has "$(cat "$scratch/added")" "is rank 3 of 4: it starts"
result "--join adds two ranks to a running job" "$scratch/out"

if [ "$openssl" = with ]; then
  "$gloo" run -n 1 --store 127.0.0.1:0 -- sh -c 'echo "$GLOO_STORE" > "$0/url2"
    while [ ! -e "$0/refused" ]; do sleep 0.05; done' "$scratch" &
  job=$!
  wait_until [ -s "$scratch/url2" ]
  out=$(GLOO_JOB_SECRET='' GLOO_START_TIMEOUT=20 "$gloo" run -n 1 --join "$(cat "$scratch/url2")" -- "$elastic" 2>&1)
  status=$?
  touch "$scratch/refused"
  wait $job
  equal $status 1 && has "$out" "secret"
  result "a process without the secret cannot join"
fi

# ---- mistakes ---------------------------------------------------------------

mistake() { # options, part of the message
  # shellcheck disable=SC2086
  out=$("$gloo" run -n 1 $1 -- true 2>&1)
  status=$?
  [ $status -ne 0 ] && has "$out" "$2"
  result "$1 is refused"
}
mistake "--max-restarts 0" "max-restarts"
mistake "--store tcp://a:1" "option --store: 'tcp://a:1' is not an address"
mistake "--store no.such.host.invalid:1" "cannot serve the store for newcomers"
mistake "--join 127.0.0.1" "option --join"
mistake "--join nothing://a:1" "nothing"
mistake "--join a:1 --store b:1" "give either --store or --join"
mistake "--max-restarts 1 --hosts a,b" "--max-restarts cannot be combined with several hosts"
finish
