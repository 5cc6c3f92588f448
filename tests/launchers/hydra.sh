#!/usr/bin/env bash
# mpiexec of MPICH, from Debian and from PyPI, and of Intel MPI.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"

hydra() { # name, library of MPI, mpiexec
  says_hello "$1" 3 "$3" -n 3
  meetings "$1" simple "$3" -n 4
  carries "$1" "$3" -n 4
  strangers "$1" "$3" -n 4
  for words in "init meet end" "meet init meet end"; do
    beside_mpi "$1" simple "$2" "$words" "$3" -n 4
  done
  # shellcheck disable=SC2016  # the ranks' own
  play "$3" -n 2 sh -c 'eval "exec $PMI_FD>&-"; exec "$0"' "$hello"
  [ "$status" -ne 0 ] && has "$out" PMI_FD && has "$out" "not open"
  result "$1: a launcher that cannot be talked to makes no jobs of one rank" "$scratch/all"
}

# MPI_Finalize also finalizes PMI.
finalized() { # name, library of MPI, mpiexec
  play "$3" -n 4 "$meet" simple "init=$2" end meet
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && has "$out" "has called MPI_Finalize"
  result "$1: after MPI_Finalize it is an error" "$scratch/all"
}

if need mpiexec.hydra mpich; then
  hydra "MPICH of Debian" "$(library libmpich.so.12)" mpiexec.hydra
  finalized "MPICH of Debian" "$(library libmpich.so.12)" mpiexec.hydra
else
  skipped "MPICH of Debian" "$why"
fi
if wheel mpich mpiexec; then
  hydra "MPICH of PyPI" "$venv/lib/libmpi.so.12" "$venv/bin/mpiexec"
else
  skipped "MPICH of PyPI" "$why"
fi
if wheel impi-rt mpiexec; then
  hydra "Intel MPI" "$venv/lib/libmpi.so.12" "$venv/bin/mpiexec"
  finalized "Intel MPI" "$venv/lib/libmpi.so.12" "$venv/bin/mpiexec"
else
  skipped "Intel MPI" "$why"
fi
finish
