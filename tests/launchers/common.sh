# shellcheck shell=bash disable=SC2034
# Common part of the scripts here, one for each family of launchers.
# usage of each: SCRIPT PROJECT FOLDER HELLO MEET GLOO ROUNDS WORK LOOP
# FOLDER keeps downloads for later runs.
set -u
project=$1 folder=$2 hello=$3 meet=$4 gloo=$5 rounds=$6 work=$7 loop=$8
# Ranks on other hosts, and children of daemons, have other working directories.
for name in hello meet gloo rounds work loop; do
  case ${!name} in /*) ;; *) declare "$name=$PWD/${!name}" ;; esac
done
# shellcheck source=tests/tools/tap.sh
. "$project/tests/tools/tap.sh"
# shellcheck source=/dev/null
. "$project/scripts/lib.sh"
mkdir -p "$folder"

# Unset the variables of a launcher that may have started this script.
for name in $(env | sed -nE 's/^((GLOO|PMI|PMIX|OMPI|OPAL|PRTE|SLURM|TORCHELASTIC|I_MPI|MASTER)_[A-Z0-9_]*|RANK|WORLD_SIZE|JOB_COMPLETION_INDEX)=.*/\1/p'); do
  unset "$name"
done
# Open MPI refuses to run as root, or more ranks than cores, unless told otherwise.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# need COMMAND PACKAGE...: installs the Debian packages unless the command exists.
# Sets $why on failure.
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null && return 0
  if (install_packages "$@") 2>"$scratch/install" && command -v "$command" >/dev/null; then
    return 0
  fi
  why="$command is not installed ($*): $(tail -n 1 "$scratch/install")"
  return 1
}

# wheel PACKAGE COMMAND: installs a Python package into a separate virtual environment,
# $venv. Sets $why on failure.
wheel() {
  venv=$folder/${1%%=*}
  [ ! -x "$venv/bin/$2" ] || return 0
  rm -rf "$venv"
  if ! python3 -m venv "$venv" >"$scratch/install" 2>&1; then
    why="virtual environments cannot be made (python3-venv)"
    return 1
  fi
  if "$venv/bin/pip" --disable-pip-version-check install -q "$1" >"$scratch/install" 2>&1 &&
    [ -x "$venv/bin/$2" ]; then
    return 0
  fi
  why="pip cannot install $1: $(tail -n 1 "$scratch/install")"
  rm -rf "$venv"
  return 1
}

# library NAME: prints the path of a library of Debian.
library() { find /usr/lib -maxdepth 2 -name "$1" | head -n 1; }

# skip_all WHY: skips this family of launchers.
skip_all() {
  echo "1..0 # SKIP $1"
  exit 0
}

# play COMMAND...: runs a command for at most a minute. Sets $out to its sorted output
# and $status to its exit status.
play() {
  timeout -k 5 60 "$@" >"$scratch/said" 2>"$scratch/erred" </dev/null
  status=$?
  LC_ALL=C sort "$scratch/said" >"$scratch/sorted"
  out=$(cat "$scratch/sorted")
  tail -n 40 "$scratch/erred" | cat - "$scratch/sorted" >"$scratch/all"
}

# hellos N: prints the expected output of N ranks of hello.
hellos() {
  local n=$1 r
  for ((r = 0; r < n; r++)); do
    echo "rank $r of $n: 1 + ... + $n = $((n * (n + 1) / 2))"
  done
}

# says_hello NAME N COMMAND...: runs N ranks of a program that knows no launcher.
says_hello() {
  local name=$1 n=$2
  shift 2
  play "$@" "$hello"
  [ "$status" -eq 0 ] && equal "$out" "$(hellos "$n")"
  result "$name: $n ranks of a program that says nothing of launchers" "$scratch/all"
}

# count TEXT: prints the number of output lines that contain it.
count() { grep -cF -- "$1" "$scratch/all"; }

# meetings NAME KIND COMMAND...: runs four ranks that use the launcher's interface
# directly.
meetings() {
  local name=$1 kind=$2
  shift 2
  play "$@" "$meet" "$kind" meet meet fork meet
  [ "$status" -eq 0 ] && [ "$(count "of 4: met ")" -eq 12 ] && [ "$(count "of 4: ends")" -eq 4 ]
  result "$name: ranks meet three times, whatever children they have" "$scratch/all"

  # Unless ranks finalize, hydra ends the last rank with the first.
  play "$@" "$meet" "$kind" meet late=700
  [ "$status" -eq 0 ] && [ "$(count "of 4: ends")" -eq 4 ]
  result "$name: the end of one is not that of the others" "$scratch/all"

  play "$@" "$meet" "$kind" meet exit=3
  [ "$status" -eq 3 ]
  result "$name: the status of a rank is that of the job" "$scratch/all"

  # srun ends the other ranks only on request, and its status is then theirs, not
  # that of the rank that failed.
  SLURM_KILL_BAD_EXIT=1 play "$@" "$meet" "$kind" meet kill=1 late=60000
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
  result "$name: a rank that is killed ends the job" "$scratch/all"

  play "$@" "$meet" "$kind" never=1 wait=1500 meet
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ "$(count "not all 4 ranks of the job")" -ge 1 ]
  result "$name: a rank that does not come is waited for until the time is up" "$scratch/all"

  play "$@" "$meet" "$kind" away=2 wait=5000 meet
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ "$(count "called gloo_init")" -ge 1 ]
  result "$name: a rank that leaves instead is noticed" "$scratch/all"
}

# beside_mpi NAME KIND LIBRARY WORDS COMMAND...: runs an MPI program.
beside_mpi() {
  local name=$1 kind=$2 library=$3 words=$4
  shift 4
  if [ ! -e "$library" ]; then
    skipped "$name: beside MPI: $words" "there is no $library"
    return
  fi
  # shellcheck disable=SC2086  # several words
  play "$@" "$meet" "$kind" ${words//init/init=$library}
  [ "$status" -eq 0 ] && [ "$(count "of 4: ends")" -eq 4 ]
  result "$name: beside MPI: $words" "$scratch/all"
}

# carries NAME COMMAND...: runs four ranks that get a secret without a user's setting.
carries() {
  local name=$1
  shift
  GLOO_SECURITY=required play "$@" "$rounds" 0
  [ "$status" -eq 0 ] && [ "$(count ": well, in ")" -eq 4 ]
  result "$name: the launcher carries a secret to all ranks" "$scratch/all"
}

# strangers NAME COMMAND...: runs four ranks while another user attacks them.
strangers() {
  local name=$1
  shift
  GLOO_LOG_LEVEL=error play sh "$project/tests/security/strangers.sh" "$(command -v python3)" "$rounds" 2 "$@"
  if [ "$status" -eq 77 ]; then
    skipped "$name: beside another user" "$out"
    return
  fi
  [ "$status" -eq 0 ] && [ "$(count ": well, in ")" -eq 4 ]
  result "$name: four ranks work, and another user gets nothing" "$scratch/all"
}
