# shellcheck shell=sh
# Included by the tests here, after $wine is set.
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
LC_ALL=C.UTF-8 WINEDEBUG=-all
export LC_ALL WINEDEBUG
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT GLOO_JOB_SECRET GLOO_TRANSPORT GLOO_STORE

# win PROGRAM ARGUMENT...: runs a program of Windows, and prints lines as Linux has them.
# shellcheck disable=SC2154
win() {
  "$wine" "$@" > "$scratch/out" 2> "$scratch/err" < /dev/null
  won=$?
  tr -d '\r' < "$scratch/out"
  tr -d '\r' < "$scratch/err" >&2
  return $won
}
