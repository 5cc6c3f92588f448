#!/bin/sh
# Runs a job of rounds.c under a launcher, and a process of another user that attacks
# it, in new namespaces, so that it affects nothing else.
# usage: strangers.sh PYTHON ROUNDS SECONDS LAUNCHER...
# Prints the output of both. The status is that of the job, 100 if an attempt of the
# stranger succeeded, or 77, with a reason, if the test cannot run here.
if [ "$STRANGERS" != inside ]; then
  for tool in unshare ip timeout; do
    command -v $tool > /dev/null || { echo "the command $tool is missing"; exit 77; }
  done
  [ "$(id -u)" = 0 ] || { echo "it takes root to be another user"; exit 77; }
  unshare -n -p -m -f --mount-proc true 2> /dev/null ||
    { echo "namespaces cannot be made here"; exit 77; }
  STRANGERS=inside exec unshare -n -p -m -f --mount-proc timeout -k 5 100 sh "$0" "$@"
fi
python=$1 rounds=$2 seconds=$3
shift 3
ip link set lo up
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
"$python" "$here/stranger.py" try "$seconds" "$(basename "$rounds")" > "$out/stranger" 2>&1 &
stranger=$!
"$@" "$rounds" $((seconds * 1000)) > "$out/job" 2>&1 < /dev/null
status=$?
wait $stranger || status=100
cat "$out/job" "$out/stranger"
exit $status
