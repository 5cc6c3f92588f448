#!/usr/bin/env bash
# shellcheck disable=SC2016,SC2317  # words for other shells; functions that are called by name
# `gloo run` on four hosts by ssh: what fails, and hosts that cannot start ranks.
# usage: ssh_faults.sh PROJECT FOLDER HELLO MEET GLOO ROUNDS WORK LOOP [REPEATS [PATTERN]]
# Each fault is repeated, with two programs in turn; the last lines are a table of all repeats. With a pattern only
# the faults run whose names match.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"
repeats=${9:-2} chosen=${10:-}
# shellcheck source=tests/launchers/ssh_hosts.sh
. "$project/tests/launchers/ssh_hosts.sh"
enter_hosts $((repeats > 2 ? 0 : 850)) "$0" "$@"
make_hosts /bin/dash /bin/bash
result "four hosts with an sshd each"

# ---- faults ------------------------------------------------------------------

# What sshd has on a host for a connection that is open.
sshd_processes='^sshd: '

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
: >"$scratch/table"

# The faults: a function each, which expects a job that runs. After it, $exempt is a pattern of processes that may
# stay while the fault lasts.
fault_SIGINT() { kill -INT "$job"; }
fault_SIGTERM() { kill -TERM "$job"; }
fault_killed_gloo_run() { kill -KILL "$job"; }
fault_killed_ssh() { kill -KILL "$(find_processes front '^ssh .*host-b')"; }
fault_killed_agent() { kill -KILL "$(find_processes host-b '^[^ ]*gloo run --agent' | tail -n 1)"; }
fault_killed_rank() { kill -KILL "$(rank_process host-b 5)"; }
fault_cut_link() { cut_link host-b; }
fault_suspended() {
  local pids
  mapfile -t pids < <(find_processes front 'gloo run --rsh')
  kill -STOP "${pids[@]}"
  wait_until nothing_left_there
  kill -CONT "${pids[@]}"
}

nothing_left_there() { ! left "$sshd_processes" | grep -qv ^front:; }

# all_seen: does left() see all ranks?
all_seen() { [ "$(left | grep -cE '^host-.: [0-9]+ (sleep |[^ ]*/loop )')" -eq 16 ]; }

# With --fanout 2 host-a starts host-b, and host-c starts host-d.
fault_tree_SIGINT() { kill -INT "$job"; }
fault_tree_killed_agent() { kill -KILL "$(find_processes host-c '^[^ ]*gloo run --agent' | tail -n 1)"; }
fault_tree_killed_ssh() { kill -KILL "$(find_processes host-c '^ssh .*host-d')"; }
fault_tree_cut_link() { cut_link host-d; }

cut_link() { # host
  ip link set "gc-$1" down
  exempt=$sshd_processes
}

# mend: ends the fault.
mend() {
  ip link set gc-host-b up
  ip link set gc-host-d up
}

# try FAULT STATUS LAST PROGRAM...: one round; LAST is a pattern of the last line, STATUS of the status.
try() {
  local fault=$1 expected=$2 pattern=$3 begun end gone ok=yes
  shift 3
  exempt=
  launch "${options[@]}" --hosts $four -- "$@"
  wait_until all_run && wait_until all_seen || ok="no start"
  begun=$(now_ms)
  "fault_$fault"
  finish_job
  end=$(now_ms)
  wait_until nothing_left ${exempt:+"$exempt"} || ok="processes left"
  gone=$(now_ms)
  mend
  wait_until nothing_left || ok="processes left afterwards"
  [[ $status =~ ^($expected)$ ]] || ok="status $status"
  [[ $last =~ $pattern ]] || ok="last line: $last"
  echo "$fault $((end - begun)) $((gone - begun)) $status $ok" >>"$scratch/table"
  [ "$ok" = yes ] && return
  left | sed 's/^/# /'
  sed 's/^/# /' "$scratch/said"
  return 1
}

# faults FAULT STATUS LAST: all rounds.
faults() {
  local round failed=0
  [[ $1 =~ $chosen ]] || return
  options=()
  [[ $1 != tree_* ]] || options=(--fanout 2)
  for ((round = 1; round <= repeats; round++)); do
    if ((round % 2)); then set -- "${@:1:3}" "${sleeper[@]}"; else set -- "${@:1:3}" "$loop"; fi
    try "$@" || failed=$((failed + 1))
  done
  [ $failed -eq 0 ]
  result "${1//_/ }: nothing is left, the last line has the cause ($failed of $repeats rounds fail)"
}

faults SIGINT 130 "rank [0-9]+ .*signal 2"
faults SIGTERM 143 "rank [0-9]+ .*signal 15"
faults killed_gloo_run 137 ""
faults killed_ssh 1 "host host-b is lost with ranks 4 to 7"
faults killed_agent 1 "host host-b is lost with ranks 4 to 7"
faults killed_rank 137 "rank 5 .*host-b.* failed: killed by signal 9"
faults cut_link 1 "host host-b is lost with ranks 4 to 7"
faults suspended 1 "lost|failed"
faults tree_SIGINT 130 "rank [0-9]+ .*signal 2"
faults tree_killed_agent 1 "host host-[cd] is lost with ranks"
faults tree_killed_ssh 1 "host host-d is lost with ranks 12 to 15"
faults tree_cut_link 1 "host host-d is lost with ranks 12 to 15"

# ---- hosts that cannot start ranks -------------------------------------------

# Each prepares host-d; `healthy` undoes it.
broken_full_of_processes() { prlimit --pid "${server[host-d]}" --nproc=6:; }
broken_full_for_logins() { prlimit --pid "${server[host-d]}" --nproc=1:; }
broken_host_key() { sed -i "/host-d/s|AAAA.*|$(cut -d ' ' -f 2 "$scratch/key.pub")|" "$scratch/known_hosts"; }
broken_unknown_host_key() { sed -i '/host-d/d' "$scratch/known_hosts"; }
broken_user_key() { cp "$scratch/other_key.pub" "$scratch/host-d/home/.ssh/authorized_keys"; }
broken_no_sshd() { stop_sshd host-d; }
broken_no_address() { ip link set gc-host-d down; }
broken_name() { hosts_of_case=${four/host-d/host-x}; }
broken_no_gloo() { on host-d mount -t tmpfs none /mnt/build; }
broken_other_version() { replace_gloo 'exec /mnt/real/tools/gloo "$@"' version; }
broken_too_old() { replace_gloo 'echo "gloo run: unknown option --agent" >&2; exit 2'; }
broken_ends_at_once() { replace_gloo 'exit 0'; }

# replace_gloo SCRIPT [version]: host-d has another gloo; with "version" a build of another version.
replace_gloo() {
  mkdir -p "$scratch/other/tools"
  printf '#!/bin/sh\n%s\n' "$1" >"$scratch/other/tools/gloo"
  chmod -R 755 "$scratch/other"
  on host-d mount --bind /mnt/build /mnt/real
  [ $# -lt 2 ] || other_version
  on host-d mount --bind "$scratch/other" /mnt/build
}

# Makes /mnt/real of host-d a build whose version has another last digit.
other_version() {
  local version other
  version=$("$gloo" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
  other=${version%?}$(((${version: -1} + 1) % 10))
  mkdir -p "$scratch/changed/tools"
  sed "s/$version/$other/g" "$gloo" >"$scratch/changed/tools/gloo"
  chmod -R 755 "$scratch/changed"
  on host-d mount --bind "$scratch/changed" /mnt/real
}

# healthy: host-d is as the others again.
healthy() {
  prlimit --pid "${server[host-d]}" --nproc="$(ulimit -S -u):" 2>/dev/null
  cp "$scratch/known_hosts.good" "$scratch/known_hosts"
  cp "$scratch/key.pub" "$scratch/host-d/home/.ssh/authorized_keys"
  while [ "$(on host-d grep -c ' /mnt/build ' /proc/mounts)" -gt 1 ]; do on host-d umount /mnt/build; done
  while on host-d umount /mnt/real 2>/dev/null; do :; done
  ip link set gc-host-d up
  listens host-d || start_sshd host-d
}
cp "$scratch/known_hosts" "$scratch/known_hosts.good"

# refused NAME STATUS LAST: all rounds of a host that cannot start its ranks.
refused() {
  local name=$1 expected=$2 pattern=$3 round failed=0 begun end gone ok
  [[ $name =~ $chosen ]] || return
  for ((round = 1; round <= repeats; round++)); do
    ok=yes hosts_of_case=$four
    "broken_$name"
    begun=$(now_ms)
    run_job --hosts "$hosts_of_case" -- "${sleeper[@]}"
    end=$(now_ms)
    wait_until nothing_left || ok="processes left"
    gone=$(now_ms)
    [[ $status =~ ^($expected)$ ]] || ok="status $status"
    [[ $last =~ $pattern ]] || ok="last line: $last"
    echo "$name $((end - begun)) $((gone - begun)) $status $ok" >>"$scratch/table"
    if [ "$ok" != yes ]; then
      failed=$((failed + 1))
      left | sed 's/^/# /'
      sed 's/^/# /' "$scratch/said"
    elif [ $round -eq 1 ]; then
      echo "# $last"
    fi
    healthy
  done
  [ $failed -eq 0 ]
  result "${name//_/ }: no rank is left, the last line has the cause ($failed of $repeats rounds fail)"
}

refused full_of_processes "12[67]" "host-d.*[Rr]esource temporarily unavailable"
refused full_for_logins "12[67]" "host-d"
refused host_key "12[67]" "host-d.*key"
refused unknown_host_key "12[67]" "host-d.*key"
refused user_key "12[67]" "host-d.*ssh-copy-id"
refused no_sshd "12[67]" "host-d.*refuses connections"
refused no_address "12[67]" "host-d.*(no route|No route|timed out|time)"
refused name "12[67]" "host-x.*(resolve|name)"
refused no_gloo "12[67]" "host-d.*(gloo|not found)"
refused other_version "12[67]" "host-d.*version"
refused too_old "12[67]" "host-d.*(old|--agent)"
refused ends_at_once "12[67]" "host-d"

# ---- the table ---------------------------------------------------------------

echo "# fault, rounds, rounds as expected, seconds until gloo run ends and until nothing runs (median, most)"
awk '{ n[$1]++; end[$1, n[$1]] = $2; gone[$1, n[$1]] = $3; good[$1] += $5 == "yes"; if (n[$1] == 1) order[++m] = $1 }
  function sorted(values, name, count, at,   i, j, t, v) {
    for (i = 1; i <= count; i++) v[i] = values[name, i]
    for (i = 2; i <= count; i++) for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return v[at] / 1000
  }
  END { for (i = 1; i <= m; i++) { f = order[i]; c = n[f]; h = int((c + 1) / 2)
    printf "# | %s | %d | %d | %.1f | %.1f | %.1f | %.1f |\n", f, c, good[f],
      sorted(end, f, c, h), sorted(end, f, c, c), sorted(gone, f, c, h), sorted(gone, f, c, c) } }' "$scratch/table"
finish
