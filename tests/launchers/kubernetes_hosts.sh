#!/usr/bin/env bash
# Three pods of an indexed job, each on its own host, in the environment that a kubelet gives them. Their names
# come from a DNS server, which knows a pod once it runs, and they are restarted as the job asks for.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=tests/tools/machines.sh
. "$project/tests/tools/machines.sh"
# shellcheck source=tests/launchers/jobs.sh
. "$project/tests/launchers/jobs.sh"

need dnsmasq dnsmasq-base || skip_all "$why"
enter_hosts 300 "$0" "$@"
make_hosts node-0 node-1 node-2
result "there are three hosts"

# The server reads each new file of the folder.
mkdir "$scratch/names"
dnsmasq --keep-in-foreground --no-resolv --no-hosts --hostsdir="$scratch/names" --listen-address=10.213.80.254 \
  --bind-interfaces --local=/cluster.local/ --pid-file= --user=root --log-facility="$scratch/dns" </dev/null &
server=$!

# pod INDEX ADDRESS: what a kubelet writes when it creates a pod on the host node-INDEX.
pod() {
  local name=train-$1 domain=peers.default.svc.cluster.local
  printf '# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n%s\t%s.%s\t%s\n' "$2" "$name" "$domain" "$name" \
    >"$scratch/hosts.$name"
  printf 'search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.213.80.254\noptions ndots:5\n' \
    >"$scratch/resolv"
  on "node-$1" mount --bind "$scratch/hosts.$name" /etc/hosts
  on "node-$1" mount --bind "$scratch/resolv" "$(readlink -f /etc/resolv.conf)"
  on "node-$1" hostname "$name"
}

# named INDEX ADDRESS: the headless service knows the pod.
named() {
  rm -f "$scratch/names/train-$1"*
  echo "$2 train-$1.peers.default.svc.cluster.local" >"$scratch/names/train-$1-$2"
  kill -HUP "$server"
}

# A kubelet: it runs the container, and starts it again when it fails.
cat >"$scratch/kubelet" <<'END_OF_KUBELET'
index=$1
shift
until env -i PATH=/usr/bin:/bin HOME=/ HOSTNAME="train-$index" JOB_COMPLETION_INDEX="$index" \
  KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443 KUBERNETES_SERVICE_PORT_HTTPS=443 \
  KUBERNETES_PORT=tcp://10.96.0.1:443 KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443 \
  KUBERNETES_PORT_443_TCP_PROTO=tcp KUBERNETES_PORT_443_TCP_PORT=443 KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1 \
  GLOO_WEB_SERVICE_HOST=10.96.0.9 GLOO_WEB_SERVICE_PORT=80 GLOO_WEB_PORT=tcp://10.96.0.9:80 \
  GLOO_WEB_PORT_80_TCP=tcp://10.96.0.9:80 GLOO_WEB_PORT_80_TCP_PROTO=tcp GLOO_WEB_PORT_80_TCP_PORT=80 \
  GLOO_WEB_PORT_80_TCP_ADDR=10.96.0.9 \
  GLOO_SIZE=3 GLOO_SERVICE=peers GLOO_JOB_ID=7e0d2d2e-5a0c-4c1a-8f60-000000000001 GLOO_JOB_SECRET="$GLOO_JOB_SECRET" \
  GLOO_START_TIMEOUT=100 GLOO_HEARTBEAT=1 GLOO_SECURITY=required "$@"; do
  sleep 1
done
END_OF_KUBELET

# runs INDEX: a kubelet runs the pod.
runs() { part "node-$1" sh "$scratch/kubelet" "$1" "$work" "$job"; }

for index in 0 1 2; do pod $index 10.213.80.$((index + 1)); done
new_job
for index in 2 1; do named $index 10.213.80.$((index + 1)) && runs $index; done
wait_until grep -q "'train-0.peers' does not resolve" "$job/node-1.out" # a warning after 3 s
job_result "two pods wait for the first, whose name does not exist yet, and log it"
named 0 10.213.80.1
runs 0
waits_for 3 "of 3, .*: begins" && [ "$(said ": begins")" -eq 3 ]
job_result "three pods meet"
! said "WARN.*GLOO_WEB" >/dev/null
job_result "variables of a service whose name begins with gloo are none of the library's"

kill_rank node-1 1
waits_for 6 "of 3, .*: begins" && [ "$(said "process [0-9]+: .*rank 1")" -ge 2 ]
job_result "a container is killed: the other pods name rank 1, all containers start again, and the pods meet"

# The node of rank 0 loses its power. The job's controller replaces the pod on another node, with another address.
kill_host node-0
parts=("${parts[@]:0:2}")
wait_until at_least 7 "of 3, .*: begins|rank 0"
make_host node-0 7
pod 0 10.213.80.7
named 0 10.213.80.7
runs 0
waits_for 9 "of 3, .*: begins"
job_result "the node of rank 0 is lost: a pod of the same name at another address takes its place"
finishes "the job" 3
leaves_nothing "the job" node-0 node-1 node-2
finish
