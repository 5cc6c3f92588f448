#!/bin/sh
# What an MPI launcher calls instead of ssh: HOST COMMAND... on the host that has
# this address. OTHER_HOST is a process there, OTHER_ADDRESS its address.
host=$1
shift
if [ "$host" = "$OTHER_ADDRESS" ]; then
  exec nsenter -t "$OTHER_HOST" -m -n -u -- sh -c "$*"
fi
exec sh -c "$*"
