# shellcheck shell=bash disable=SC2034,SC2154
# Four hosts for tests that have read common.sh: network namespaces at one bridge, each with its name, its
# accounts, a user "worker" and an sshd. The script itself runs on a fifth, "front", in a process namespace
# of its own: whatever is left ends with the script.
# shellcheck source=tests/tools/networks.sh
. "$project/tests/tools/networks.sh"
names=(front host-a host-b host-c host-d)
subnet=10.213.79 subnet6=fd00:213:79:
port2=2222 # of a second port of each sshd
declare -A holder server # process ids by host
first_uid=$((30000 + RANDOM % 4000 * 6))

# enter_hosts SECONDS SCRIPT ARGUMENT...: restarts the script on the front, or skips it with the reason.
enter_hosts() {
  local tool
  [ "$(id -u)" = 0 ] || skip "only root can start an sshd for several users"
  need ssh openssh-client || skip "$why"
  need sshd openssh-server || skip "$why"
  for tool in ip:iproute2 ps:procps setpriv:util-linux prlimit:util-linux; do
    need "${tool%:*}" "${tool#*:}" || skip "$why"
  done
  unshare -n -m -u -p -f --mount-proc true 2>/dev/null || skip "namespaces cannot be made here"
  enter_network "$@"
  [ -z "${inside_processes:-}" ] || return 0
  rm -rf "$scratch"
  inside_processes=1 exec unshare -m -u -p -f --mount-proc --kill-child "$BASH" "${@:2}"
}

# ---- one host ----------------------------------------------------------------

# on HOST COMMAND...: runs it there, as root.
on() {
  local host=$1
  shift
  if [ "$host" = front ]; then
    "$@"
  else
    nsenter -t "${holder[$host]}" -n -u -m -- "$@"
  fi
}

# index HOST: its number, 0 for the front.
index() {
  local i
  for i in "${!names[@]}"; do [ "${names[i]}" != "$1" ] || echo "$i"; done
}
address() { echo "$subnet.$((10 + $(index "$1")))"; }
address6() { echo "$subnet6:$((10 + $(index "$1")))"; }
# uid HOST: the user "worker" has another number on each host of each test, so that limits hold for one host.
uid() { echo $((first_uid + $(index "$1"))); }

# make_account HOST SHELL: its user "worker", whose home has the job's key, and may log in by it.
make_account() {
  local host=$1 shell=$2 uid home=$scratch/$1/home
  uid=$(uid "$host")
  mkdir -p "$home/.ssh"
  cp "$scratch/key.pub" "$home/.ssh/authorized_keys"
  cp "$scratch/key" "$home/.ssh/"
  grep -v '^worker:' /etc/passwd >"$scratch/$host/passwd"
  echo "worker:x:$uid:$uid::$home:$shell" >>"$scratch/$host/passwd"
  grep -v '^worker:' /etc/shadow >"$scratch/$host/shadow"
  echo "worker:*:19000:0:99999:7:::" >>"$scratch/$host/shadow"
  chmod 600 "$scratch/$host/shadow"
  chown -R "$uid:$uid" "$home"
  chmod -R go= "$home"
  on "$host" mount --bind "$scratch/$host/passwd" /etc/passwd
  on "$host" mount --bind "$scratch/$host/shadow" /etc/shadow
}

# start_sshd HOST
start_sshd() {
  local host=$1 folder=$scratch/$1
  [ -e "$folder/host_key" ] || ssh-keygen -q -t ed25519 -N '' -C "$host" -f "$folder/host_key"
  cat >"$folder/sshd_config" <<END
Port 22
Port $port2
ListenAddress $(address "$host")
ListenAddress $(address6 "$host")
HostKey $folder/host_key
PidFile none
AuthorizedKeysFile .ssh/authorized_keys
StrictModes yes
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
PrintMotd no
MaxStartups 100
LogLevel DEBUG3
END
  nsenter -t "${holder[$host]}" -n -u -m -- "$(command -v sshd)" -D -e -f "$folder/sshd_config" 2>>"$folder/sshd.log" </dev/null &
  server[$host]=$!
  wait_until listens "$host"
}

listens() { (: <"/dev/tcp/$(address "$1")/$port2") 2>/dev/null && (: <"/dev/tcp/$(address "$1")/22") 2>/dev/null; }

stop_sshd() { # host
  kill "${server[$1]}"
  wait "${server[$1]}" 2>/dev/null
}

# ---- all hosts ---------------------------------------------------------------

# make_front: the bridge, the names of all hosts, and the build at a path that each user can reach.
make_front() {
  local host build=${gloo%/tools/gloo}
  chmod 755 "$scratch"
  mkdir -m 1777 "$scratch/work"
  hostname front
  mount -t tmpfs none /mnt && mount -t tmpfs none /run && mkdir -m 755 /run/sshd /mnt/build /mnt/real &&
    mount --bind "$build" /mnt/build && mount -o remount,bind,ro /mnt/build || return
  gloo=/mnt/build/tools/gloo hello=${hello/#"$build"/\/mnt\/build} loop=${loop/#"$build"/\/mnt\/build}
  echo "127.0.0.1 localhost" >"$scratch/hosts"
  for host in "${names[@]}"; do
    mkdir -p "$scratch/$host"
    printf '%s %s\n' "$(address "$host")" "$host" "$(address6 "$host")" "$host-6" >>"$scratch/hosts"
  done
  mount --bind "$scratch/hosts" /etc/hosts
  ip link set lo up
  make_bridge gcbridge "$(address front)/24" "$(address6 front)/64" || return
  ssh-keygen -q -t ed25519 -N '' -C job -f "$scratch/key"
  ssh-keygen -q -t ed25519 -N '' -C stranger -f "$scratch/other_key"
  make_account front /bin/sh
}

# make_hosts SHELL...: the four hosts; each worker has one of these shells, in turn.
make_hosts() {
  local host i=0 shells=("$@")
  make_front || return
  for host in "${names[@]:1}"; do
    make_namespaces -n -u -m && join_bridge "gc-$host" "$(address "$host")/24" "$(address6 "$host")/64" || return
    holder[$host]=$other
    on "$host" hostname "$host"
    make_account "$host" "${shells[i++ % ${#shells[@]}]}"
    start_sshd "$host" || return
    know_host "$host"
  done
  make_ssh_config
}

# know_host HOST: the front knows its keys, by each of its names.
know_host() {
  local key name
  key=$(cut -d ' ' -f 1,2 "$scratch/$1/host_key.pub")
  for name in "$1" "$1-6" "$(address "$1")" "$(address6 "$1")"; do
    echo "$name $key"
    echo "[$name]:$port2 $key"
  done >>"$scratch/known_hosts"
}

make_ssh_config() {
  cat >"$scratch/ssh_config" <<END
Host *
  User worker
  IdentityFile ~/.ssh/key
  IdentitiesOnly yes
  UserKnownHostsFile $scratch/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  ControlPath none
END
}

# as_worker COMMAND...: runs it on the front as its worker; exec it for the pid of the command.
as_worker() {
  local uid
  uid=$(uid front)
  cd "$scratch/work" || exit
  exec env --default-signal=INT HOME="$scratch/front/home" USER=worker \
    setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
}

# ---- processes ---------------------------------------------------------------

# The processes of a host, but for its holder and the listening sshd; on the front, those of its worker.
# What entered a network cannot leave it.
processes() { # host
  local pid net
  if [ "$1" = front ]; then
    ps -o pid= -U "$(uid front)"
    return
  fi
  net=$(readlink "/proc/${holder[$1]}/ns/net")
  for pid in $(find /proc/[0-9]*/ns/net -maxdepth 0 -lname "${net/\[/\\[}" 2>/dev/null | cut -d / -f 3); do
    [ "$pid" = "${holder[$1]}" ] || [ "$pid" = "${server[$1]}" ] || echo "$pid"
  done
}

# command_line PID: its words, with blanks between; nothing if it has ended.
command_line() { { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null; }

# find_processes HOST PATTERN: those whose command line matches, which has blanks between words.
find_processes() {
  local pid
  for pid in $(processes "$1"); do
    command_line "$pid" | grep -qE -- "$2" && echo "$pid"
  done
}

# left [PATTERN]: prints what runs of the job on any host, unless its command line matches.
left() {
  local host pid line
  for host in "${names[@]}"; do
    for pid in $(processes "$host"); do
      line=$(command_line "$pid")
      [ -z "$line" ] || { [ $# -gt 0 ] && grep -qE -- "$1" <<<"$line"; } || echo "$host: $pid $line"
    done
  done
}

# ---- one job -----------------------------------------------------------------

four='host-a:4,host-b:4,host-c:4,host-d:4'
grace=1000

# launch ARGUMENT...: starts `gloo run` in the background as the front's worker. Its output is in $scratch/said.
launch() {
  : >"$scratch/said"
  as_worker "$gloo" run --rsh "ssh -F $scratch/ssh_config" --grace-ms $grace "$@" >"$scratch/said" 2>&1 </dev/null &
  job=$!
}

ended() { [ ! -e "/proc/$job/exe" ]; } # also as a zombie

# finish_job: waits for the end of `gloo run`; sets $status and the last line of the output, $last.
finish_job() {
  wait_until ended || echo "# gloo run does not end"
  wait_until ended || kill -KILL "$job"
  wait "$job" 2>/dev/null
  status=$?
  last=$(tail -n 1 "$scratch/said")
}

# run_job ARGUMENT...: a whole job; $out is its output, sorted.
run_job() {
  launch "$@"
  finish_job
  out=$(LC_ALL=C sort "$scratch/said")
}

all_run() { [ "$(grep -cE '^(\[[^]]*\] )?rank [0-9]+ runs' "$scratch/said")" -eq "${1:-16}" ]; }
nothing_left() { [ -z "$(left "$@")" ]; }

# The programs: ranks that call collectives, and ranks that only sleep.
# shellcheck disable=SC2016  # the rank's own
sleeper=(sh -c 'echo "rank $RANK runs"; exec sleep 100000')

# rank_process HOST RANK
rank_process() {
  local pid
  for pid in $(find_processes "$1" '^(sleep|[^ ]*/loop)'); do
    ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "RANK=$2" || echo "$pid"
  done
}
