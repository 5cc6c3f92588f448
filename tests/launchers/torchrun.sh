#!/usr/bin/env bash
# torchrun, with and without a store kept by its agents.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"

# The suite of the Python package may have installed it already.
venv=$folder/../../python/environments/torch/built
[ -x "$venv/bin/torchrun" ] || wheel torch==2.13.0 torchrun || skip_all "$why"
torchrun=("$venv/bin/torchrun" --nproc-per-node 3 --no-python)
port=$((22000 + $$ % 900 * 10))

says_hello "torchrun, static" 3 "${torchrun[@]}" --master-addr 127.0.0.1 --master-port "$port"
says_hello "torchrun --standalone" 3 "${torchrun[@]}" --standalone
says_hello "torchrun with c10d" 3 "${torchrun[@]}" --rdzv-backend c10d \
  --rdzv-endpoint "127.0.0.1:$((port + 1))" --rdzv-id a-job

# Two nodes.
("${torchrun[@]}" --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$((port + 2))" \
  --local-addr 127.0.0.1 --rdzv-id b-job "$hello" >"$scratch/other" 2>&1 </dev/null) &
other=$!
play "${torchrun[@]}" --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$((port + 2))" \
  --local-addr 127.0.0.1 --rdzv-id b-job "$hello"
wait "$other"
both=$?
[ "$status" -eq 0 ] && [ "$both" -eq 0 ] &&
  equal "$(grep -h '^rank' "$scratch/said" "$scratch/other" | LC_ALL=C sort)" "$(hellos 6)"
result "torchrun on two nodes" "$scratch/all"

# The first run of rank 1 fails after all ranks have met.
cat >"$scratch/again" <<'END'
"$1" || exit
[ "$RANK" != 1 ] || [ "$TORCHELASTIC_RESTART_COUNT" != 0 ]
END
for kind in "--standalone" \
  "--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:$((port + 3)) --rdzv-id c-job" \
  "--master-addr 127.0.0.1 --master-port $((port + 4))"; do
  # shellcheck disable=SC2086  # several words
  play "${torchrun[@]}" $kind --max-restarts 1 sh "$scratch/again" "$hello"
  [ "$status" -eq 0 ] && equal "$(uniq "$scratch/sorted")" "$(hellos 3)" &&
    [ "$(count "rank 1 of 3")" -eq 2 ]
  result "torchrun $kind: ranks that are started again meet again" "$scratch/all"
done

# Ranks take no more than a port from PyTorch's store, which has no access control.
strangers "torchrun" "$venv/bin/torchrun" --nproc-per-node 4 --no-python \
  --master-addr 127.0.0.1 --master-port "$((port + 5))"
strangers "torchrun --standalone" "$venv/bin/torchrun" --nproc-per-node 4 --no-python --standalone
GLOO_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export GLOO_JOB_SECRET
strangers "torchrun, with a secret" "$venv/bin/torchrun" --nproc-per-node 4 --no-python \
  --master-addr 127.0.0.1 --master-port "$((port + 6))"
finish
