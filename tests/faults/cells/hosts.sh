#!/bin/sh
# The fault matrix over two hosts: network namespaces joined by a veth pair, with
# shared memory inside one and TCP across.
# usage: hosts.sh FAULT_CELLS OPTION...
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../../tools/tap.sh"
# shellcheck source=tests/tools/networks.sh
. "$(dirname "$0")/../../tools/networks.sh"
enter_network 0 "$0" "$@"
program=$1
shift

# network.c uses the same names and addresses.
{ another_network && link_networks here 10.213.78.1/24 there 10.213.78.2/24; } ||
  skip "network namespaces cannot be joined here"
"$program" --over hosts --other "$other" "$@"
