# shellcheck shell=bash disable=SC2154
# Hosts on one machine, for bash tests that have read tap.sh. A host is a set of namespaces: it has its own
# network, name, processes, /dev/shm, and the folder $own, which holds HOME, TMPDIR and XDG_RUNTIME_DIR. Hosts
# share all other files. A bridge joins them and the script, whose own host is "login"; names resolve by
# /etc/hosts. The script runs in namespaces, too: the machine's network is unaffected, and when the script ends,
# for whatever reason, the kernel ends all processes of all hosts.

# enter_hosts SECONDS SCRIPT ARGUMENT...: restarts the script as the host "login", for at most SECONDS, and exits
# with its status. Returns if the script already runs there.
enter_hosts() {
  [ -z "${INSIDE_HOSTS:-}" ] || return 0
  local tool seconds=$1
  local -a host=(unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc --propagation private)
  for tool in unshare nsenter ip mount timeout; do
    command -v $tool >/dev/null || no_hosts "the command $tool is missing"
  done
  "${host[@]}" ip link add hub type bridge 2>/dev/null ||
    no_hosts "namespaces and bridges cannot be made here (root may)"
  shift
  INSIDE_HOSTS=yes "${host[@]}" timeout -k 5 "$seconds" bash "$@"
  exit
}

no_hosts() {
  echo "1..0 # SKIP $*"
  exit 0
}

# make_hosts NAME...: makes the hosts 10.213.80.1, .2 and so on. The bridge has an address of its own: otherwise it
# takes the lowest of its ports, which changes when that host is lost, and the others reach the bridge no more.
declare -A host_init
make_hosts() {
  local name number=0
  own=$scratch/own
  mkdir "$own"
  chmod 755 "$scratch" "$own"
  mkdir -m 700 "$own/home" "$own/tmp" "$own/run"
  export HOME=$own/home TMPDIR=$own/tmp XDG_RUNTIME_DIR=$own/run
  printf '127.0.0.1 localhost\n10.213.80.254 login\n' >"$scratch/hosts"
  for name; do echo "10.213.80.$((++number)) $name" >>"$scratch/hosts"; done
  mount --bind "$scratch/hosts" /etc/hosts && hostname login &&
    ip link set lo up && ip link add hub address 02:00:00:00:00:01 type bridge &&
    ip addr add 10.213.80.254/24 dev hub && ip link set hub up ||
    return
  number=0
  for name; do make_host "$name" $((++number)) || return; done
}

# make_host NAME NUMBER: makes a host, also one that has been killed.
make_host() {
  local pid
  rm -f "$scratch/ready"
  # shellcheck disable=SC2016  # the host's own
  unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc --propagation private sh -c '
    hostname "$1" && mount -t tmpfs none /dev/shm && mount -t tmpfs none "$2" &&
      mkdir -p -m 700 "$2/home" "$2/tmp" "$2/run" && ip link set lo up && touch "$3"
    while :; do sleep 86399 & wait; done' host "$1" "$own" "$scratch/ready" </dev/null >/dev/null 2>&1 &
  pid=$!
  wait_until test -e "$scratch/ready" || return
  host_init[$1]=$(cat "/proc/$pid/task/$pid/children")
  host_init[$1]=${host_init[$1]% }
  ip link add "to-$1" type veth peer name eth0 netns "${host_init[$1]}" && ip link set "to-$1" master hub up &&
    on "$1" ip addr add "10.213.80.$2/24" dev eth0 && on "$1" ip link set eth0 up
}

# on NAME COMMAND...: runs a command on a host.
on() {
  local init=${host_init[$1]} name=$1
  shift
  # shellcheck disable=SC2016
  nsenter -t "$init" --net --mount --uts --ipc --pid -- env HOSTNAME="$name" sh -c 'cd "$0" && exec "$@"' "$own" "$@"
}

# kill_host NAME: ends a host as a power failure does: the others get no packet of it.
kill_host() {
  on "$1" ip link set eth0 down
  kill -9 "${host_init[$1]}"
  wait_until gone "${host_init[$1]}"
  ip link del "to-$1" 2>/dev/null # the kernel removes it some time later
}

# processes_on NAME [TEXT]: prints the processes of a host, or those whose command line has TEXT:
# their numbers there, and their words.
processes_on() {
  # shellcheck disable=SC2016
  on "$1" sh -c 'for process in /proc/[0-9]*; do
      number=${process#/proc/} words=
      [ "$number" = 1 ] || [ "$number" = $$ ] || words=$(tr "\0" " " <"$process/cmdline") 2>/dev/null
      case $words in "" | "sleep 86399 " | "tr "*) ;; *"$0"*) echo "$number $words" ;; esac
    done' "${2:-}"
}

# left_on NAME: prints processes, shared memory and sockets that a job has left on a host. Processes whose
# words match $daemons are the engine's own.
daemons=
left_on() {
  processes_on "$1" | grep -vE "${daemons:-^$}"
  on "$1" find /dev/shm "$own/run" ! -type d
}

# nothing_on NAME...: succeeds if none of the hosts has anything left.
nothing_on() {
  local name
  for name; do [ -z "$(left_on "$name")" ] || return; done
}

# leaves_nothing WHAT NAME...: a result: soon nothing is left on these hosts.
leaves_nothing() {
  local what=$1 name
  shift
  wait_until nothing_on "$@"
  result "$what: nothing is left" <(for name; do left_on "$name"; done)
}

# login_command FILE: writes a program that runs a command on a host as ssh does: [OPTION...] HOST WORD...
login_command() {
  local name
  {
    echo '#!/bin/sh'
    # shellcheck disable=SC2016  # that program's own
    echo 'while case $1 in -*) true ;; *) false ;; esac; do shift; done'
    # shellcheck disable=SC2016
    echo 'case $1 in'
    for name in "${!host_init[@]}"; do echo "  $name) init=${host_init[$name]} ;;"; done
    # shellcheck disable=SC2016
    echo '  *) echo "no host $1" >&2; exit 255 ;;
esac
host=$1
shift'
    # shellcheck disable=SC2016
    echo "exec nsenter -t \"\$init\" --net --mount --uts --ipc --pid -- env HOSTNAME=\"\$host\" sh -c \"cd $own && \$*\""
  } >"$1"
  chmod 755 "$1"
}
