#!/bin/sh
# Another user on the host of a job without security settings.
# usage: one_host.sh GLOO ROUNDS PYTHON
gloo=$1 rounds=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/tools/tap.sh
. "$here/../tools/tap.sh"
export HOME="$scratch" GLOO_LOG_LEVEL=error
unset GLOO_SECURITY GLOO_JOB_SECRET GLOO_JOB_SECRET_FILE GLOO_JOB_ID

# beside NAME LAUNCHER...: runs a job of four ranks and a stranger that attacks it.
beside() {
  name=$1
  shift
  sh "$here/strangers.sh" "$python" "$rounds" 2 "$@" > "$scratch/all" 2>&1
  status=$?
  if [ $status -eq 77 ]; then
    skipped "$name" "$(cat "$scratch/all")"
    return
  fi
  sed 's/^/# /' "$scratch/all"
  equal "$status $(grep -c '^rank [0-3]: well' "$scratch/all")" "0 4"
  result "$name: four ranks work, and a stranger gets nothing" "$scratch/all"
}

beside "gloo run" "$gloo" run -n 4 --
GLOO_TRANSPORT=tcp beside "gloo run over TCP" "$gloo" run -n 4 --
# Ranks without a secret, as started by hand.
by_hand="$scratch/by_hand"
cat > "$by_hand" << 'END'
for RANK in 0 1 2 3; do
  export RANK
  "$@" &
  ranks="$ranks $!"
done
status=0
for pid in $ranks; do wait "$pid" || status=1; done
exit $status
END
export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 GLOO_JOB_ID=known
beside "ranks started by hand" sh "$by_hand"
# Without access control the stranger succeeds, which proves that its attempts are valid.
# A store exists for a small part of a round only, so this may take several attempts.
for _ in 1 2 3 4 5 6 7 8; do
  GLOO_SECURITY=off sh "$here/strangers.sh" "$python" "$rounds" 2 sh "$by_hand" > "$scratch/all" 2>&1
  status=$?
  [ $status -eq 0 ] || break
done
if [ $status -eq 77 ]; then
  skipped "GLOO_SECURITY=off" "$(cat "$scratch/all")"
else
  equal $status 100 && has "$(cat "$scratch/all")" "LEAK: a store let a stranger in"
  result "with GLOO_SECURITY=off the stranger comes in" "$scratch/all"
fi
unset WORLD_SIZE MASTER_ADDR MASTER_PORT GLOO_JOB_ID

# ---- squatters on the port -----------------------------------------------------

# taken WHAT: lets another user take the port, or the name of the local socket.
taken() {
  rm -f "$scratch/taken" # the stranger reports there
  "$python" "$here/stranger.py" take $port "$1" > "$scratch/taken" &
  stranger=$!
  wait_until grep -q taken "$scratch/taken"
}

given_back() {
  kill $stranger
  wait $stranger 2> /dev/null
}

if [ "$(id -u)" = 0 ]; then
  port=$((23000 + $$ % 1000))
  taken port
  "$gloo" run -n 4 --port $port -- "$rounds" 100 > "$scratch/all" 2>&1
  equal $? 1 && has "$(cat "$scratch/all")" "127.0.0.1:$port" &&
    has "$(cat "$scratch/all")" "a process of another user, user 65534, uses the port: use another port"
  result "another user has the port of the store: the job says so" "$scratch/all"
  given_back
  taken socket
  "$gloo" run -n 4 --port $port -- "$rounds" 100 > "$scratch/all" 2>&1
  equal "$? $(grep -c '^rank [0-3]: well' "$scratch/all")" "0 4"
  result "another user has the name of a local socket: a job with a secret works" "$scratch/all"
  XDG_RUNTIME_DIR="$scratch" WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    sh "$by_hand" "$rounds" 100 > "$scratch/all" 2>&1
  equal "$? $(grep -c '^rank [0-3]: well' "$scratch/all")" "0 4"
  result "another user has the name of the local socket: a job without a secret works" "$scratch/all"
  given_back
  what="gloo run takes a port whose local socket's name is free"
  status=77
  if unshare -n true 2> /dev/null; then
    unshare -n sh "$here/names.sh" "$gloo" "$python" > "$scratch/all" 2>&1
    status=$?
  fi
  if [ $status -eq 77 ]; then
    skipped "$what" "a network namespace with few ports cannot be made here"
  else
    equal "$status $(grep -c '^402' "$scratch/all")" "0 10" && ! grep -q '^4020[13]' "$scratch/all"
    result "$what" "$scratch/all"
  fi
else
  skipped "another user has the store's port" "it takes root to be another user"
fi
finish
