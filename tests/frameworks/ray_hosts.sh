#!/usr/bin/env bash
# A Ray cluster of two hosts: actors in a placement group, one of which is killed.
# usage: ray_hosts.sh BIN, the folder of the programs ray and python
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
# shellcheck source=tests/tools/tap.sh
. "$here/../tools/tap.sh"
# shellcheck source=tests/tools/machines.sh
. "$here/../tools/machines.sh"
enter_hosts 300 "$0" "$@"
make_hosts a b
result "there are two hosts"

export RAY_USAGE_STATS_ENABLED=0
export PATH=$bin:$PATH
# Actors take long to start on a busy machine.
patiently() { wait_until "$@" || wait_until "$@" || wait_until "$@"; }
options=(--num-cpus=1 --object-store-memory=80000000 --disable-usage-stats)
on a ray start --head --node-ip-address=10.213.80.1 --port=6379 --include-dashboard=false --temp-dir="$own/ray" \
  "${options[@]}" >"$scratch/all" 2>&1 </dev/null
result "ray start --head on a" "$scratch/all"
on b ray start --address=a:6379 --node-ip-address=10.213.80.2 "${options[@]}" >"$scratch/all" 2>&1 </dev/null
result "ray start --address on b" "$scratch/all"

RAY_ADDRESS=a:6379 on a python "$here/../../examples/frameworks/ray_actors.py" 2 1000 >"$scratch/said" 2>&1 </dev/null &
driver=$!
patiently grep -q "the actors have met" "$scratch/said"
result "two actors meet" "$scratch/said"
equal "$(processes_on a ray::Rank | wc -l) $(processes_on b ray::Rank | wc -l)" "1 1"
result "one is on each host" <(processes_on a ray:: && processes_on b ray::)

victim=$(processes_on b ray::Rank | cut -d " " -f 1)
on b kill -9 "$victim"
patiently awk '/the actors have met/ { met++ } END { exit met < 2 }' "$scratch/said"
result "one is killed, Ray starts it again, and they meet again" "$scratch/said"
wait $driver && grep -q "round [0-9]* failed" "$scratch/said" &&
  grep -q '2 actors found \[ 1.  -2.   3.   0.5\]' "$scratch/said"
result "the job goes on to the right result" "$scratch/said"

on b ray stop >"$scratch/all" 2>&1 </dev/null
on a ray stop >"$scratch/all" 2>&1 </dev/null
leaves_nothing "after ray stop" a b
finish
