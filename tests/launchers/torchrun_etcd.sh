#!/usr/bin/env bash
# torchrun on two hosts, whose agents meet at an etcd server on a third.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=tests/tools/machines.sh
. "$project/tests/tools/machines.sh"
# shellcheck source=tests/launchers/jobs.sh
. "$project/tests/launchers/jobs.sh"
# shellcheck source=tests/launchers/torchrun_jobs.sh
. "$project/tests/launchers/torchrun_jobs.sh"

find_torchrun || skip_all "$why"
need etcd etcd-server || skip_all "$why"
client=$folder/etcd
[ -d "$client" ] || "$venv/bin/python" -m pip --disable-pip-version-check install -q --target "$client" \
  python-etcd==0.4.5 >"$scratch/install" 2>&1 || skip_all "pip cannot install python-etcd: $(tail -n 1 "$scratch/install")"
export PYTHONPATH=$client
enter_hosts 300 "$0" "$@"
make_hosts a b
result "there are two hosts"

# torchrun speaks version 2 of etcd's interface, which 3.4 still has, switched off.
etcd --enable-v2 --data-dir "$scratch/etcd" --listen-client-urls http://10.213.80.254:2379 \
  --advertise-client-urls http://10.213.80.254:2379 --listen-peer-urls http://127.0.0.1:2380 >"$scratch/all" 2>&1 &
wait_until grep -q "ready to serve client requests" "$scratch/all"
result "etcd runs on another host" "$scratch/all"

rendezvous=(--rdzv-backend etcd --rdzv-endpoint login:2379)
survives_a_rank "etcd"
rendezvous=(--rdzv-backend etcd-v2 --rdzv-endpoint login:2379)
survives_a_rank "etcd-v2"
survives_while_others_compute "etcd-v2"
survives_a_host "etcd-v2" b a
finishes "etcd-v2, with the host that is left" 2
leaves_nothing "etcd-v2" b
finish
