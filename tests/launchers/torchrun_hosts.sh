#!/usr/bin/env bash
# torchrun on two hosts, whose agents meet at a store that one of them serves (c10d).
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=tests/tools/machines.sh
. "$project/tests/tools/machines.sh"
# shellcheck source=tests/launchers/jobs.sh
. "$project/tests/launchers/jobs.sh"
# shellcheck source=tests/launchers/torchrun_jobs.sh
. "$project/tests/launchers/torchrun_jobs.sh"

find_torchrun || skip_all "$why"
enter_hosts 300 "$0" "$@"
make_hosts a b
result "there are two hosts"

rendezvous=(--rdzv-backend c10d --rdzv-endpoint a:29400)
survives_a_rank "c10d"
survives_while_others_compute "c10d"
# Host a serves the agents' store, so b is the host that may die.
survives_a_host "c10d" a b
takes_a_host_back "c10d" a b 2
finishes "c10d, with the host that has come back" 4
leaves_nothing "c10d" a b
finish
