#!/usr/bin/env bash
# Three pods of an indexed job. The name of the first resolves after a delay. Names
# resolve in a private mount namespace.
if [ -z "${LAUNCHERS_PODS:-}" ]; then
  if ! unshare -m true 2>/dev/null; then
    echo "1..0 # SKIP unshare does not work here (is this root?)"
    exit 0
  fi
  LAUNCHERS_PODS=1 exec unshare -m --propagation private bash "$0" "$@"
fi
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"

cp /etc/hosts "$scratch/hosts"
mount --bind "$scratch/hosts" /etc/hosts || skip_all "nothing can be mounted here"
trap 'umount /etc/hosts; rm -rf "$scratch"' EXIT

cat >"$scratch/pods" <<'END'
for index in 0 1 2; do
  HOSTNAME=train-$index JOB_COMPLETION_INDEX=$index GLOO_SIZE=3 GLOO_SERVICE=peers "$1" &
done
status=0
for pid in $(jobs -p); do wait "$pid" || status=1; done
exit $status
END
(
  sleep 3
  echo "127.0.0.1 train-0.peers" >>"$scratch/hosts"
) &
begun=$SECONDS
says_hello "an indexed job whose name appears after 3 s" 3 bash "$scratch/pods"
wait
[ $((SECONDS - begun)) -ge 2 ]
result "it has waited for that"

play env HOSTNAME=train-0 JOB_COMPLETION_INDEX=0 "$hello"
[ "$status" -ne 0 ] && has "$out" GLOO_SIZE && [ "$(count "rank 0 of 1")" -eq 0 ]
result "without GLOO_SIZE it is an error, and no job of one rank" "$scratch/all"
finish
