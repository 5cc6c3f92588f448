#!/bin/sh
# gloo info: alone, and as the ranks of a job.
# usage: info.sh GLOO JSON_CHECK with|bundled|without
# The last argument says whether it was built with OpenSSL; bundled: with one that reads no openssl.cnf.
gloo=$1 json=$2 openssl=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
unset GLOO_TRANSPORT GLOO_WAIT
export gloo

# ---- alone --------------------------------------------------------------------

out=$("$gloo" info)
equal $? 0 && has "$out" "
  tcp                yes" && has "$out" "
  inproc             yes"
result "it says which transports can be used"
how="shm_open, sockets in /"
! has_linux || how="sealed memfd, abstract sockets"
has "$out" "
  shm                yes" && has "$out" "
shared memory        up to 64M per rank, for messages: $how"
result "it says how much shared memory a rank takes at most, and what it is made by"
has "$out" "effective cores      " && has "$out" "waiting              spin briefly"
result "it says how many cores count, and how ranks wait"
case $out in *pairs*) false ;; esac
result "alone there are no pairs to show"

if [ "$openssl" != without ]; then
  has "$out" "OpenSSL              3." && has "$("$gloo" info --json)" '"openssl": "3.'
  result "it says which OpenSSL there is"
  has "$out" "TLS over TCP         off (set GLOO_TLS=1)" && has "$(GLOO_TLS=1 "$gloo" info)" "TLS with the job secret" &&
    has "$(GLOO_TLS=1 GLOO_TLS_CERTIFICATE=/nowhere GLOO_TLS_AUTHORITY=/ "$gloo" info)" "cannot read the certificate /nowhere"
  result "it says what goes over TCP is encrypted by"
  printf '%s\n' 'openssl_conf = all' '[all]' 'providers = list' '[list]' 'null = one' '[one]' 'activate = 1' \
    > "$scratch/openssl.cnf"
  out=$(OPENSSL_CONF=$scratch/openssl.cnf "$gloo" info)
  if [ "$openssl" = bundled ]; then
    has "$out" "OpenSSL              3."
    result "no configuration of the system changes what is part of the library"
  else
    has "$out" "OpenSSL              no: OpenSSL 3." && has "$out" "openssl.cnf"
    result "it says that the system's configuration leaves out what is needed"
  fi
else
  has "$out" "OpenSSL              no: this build cannot authenticate ranks" && has "$out" "-Dopenssl=enabled" &&
    has "$("$gloo" info --json)" '"openssl": "none"'
  result "it says that there is no OpenSSL, and what to do"
fi

out=$(GLOO_TRANSPORT=tcp GLOO_WAIT=sleep "$gloo" info)
has "$out" "default transport    tcp" && has "$out" "waiting              sleep"
result "it shows what the environment changes"

out=$(GLOO_SOCKET_IFNAME=no-such0 "$gloo" info)
has "$out" "  tcp                no: " && has "$out" "no-such0"
result "a transport that cannot be used is named, with the reason"

# ---- as a job -------------------------------------------------------------------

# The part of a job's output after a heading.
after() {
  echo "$out" | sed -n "/^$1/,/^[^ ]/p" | sed '1d; /^[^ ]/d; s/^ *//; s/  */ /g'
}

for ranks in 2 5; do
  out=$(GLOO_TRANSPORT=tcp "$gloo" run -n $ranks -- gloo info)
  equal $? 0 && equal "$(echo "$out" | grep -c '^gloo_c')" 1
  result "$ranks ranks: one of them prints"
done
has "$(after ranks)" "with 5 ranks and "
result "for each rank: where it is, and how it waits"
equal "$(after pairs)" "0 with 1-4 tcp
1 with 2-4 tcp
2 with 3-4 tcp
3 with 4 tcp"
result "for each pair: what it uses"

# Rank 1 cannot have shared memory. An inner shell expands this:
# shellcheck disable=SC2016
out=$(GLOO_TRANSPORT=auto "$gloo" run -n 2 -- sh -c '[ "$RANK" = 0 ] || ulimit -f 4
  exec "$0" info' "$gloo" 2>&1)
case $(after pairs) in
  "0 with 1 TCP, not shared memory: rank 1 says: "*"File too large"*) ;;
  *) equal "$(after pairs)" "0 with 1 TCP, and why" ;;
esac
result "and why not shared memory, whichever of the two knows"

# Two cores that this process may use; an inner shell expands the text.
cores=$(taskset -cp $$ 2> /dev/null | sed 's/.*: //' | tr , '\n' |
  awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }' | head -n 2)
# shellcheck disable=SC2086
set -- $cores
if [ $# -eq 2 ] && has_linux; then
  for on in "$1 $2 spin" "$1 $1 yield"; do
    # shellcheck disable=SC2086
    set -- $on
    # shellcheck disable=SC2016
    out=$("$gloo" run -n 2 -- sh -c 'shift "$RANK"; exec taskset -c "$1" "$gloo" info' sh "$1" "$2")
    equal "$(after ranks | grep -c "waiting: $3")" "$(echo "$1 $2" | awk '{ print $1 == $2 ? 1 : 2 }')"
    result "ranks on cores $1 and $2 begin waiting with: $3"
  done
else
  skipped "ranks that are bound to cores" "no command taskset, one core, or a build that does not look at them"
fi

if has_linux && [ "$(cat /proc/sys/kernel/sched_autogroup_enabled 2> /dev/null)" = 1 ]; then
  crowd=$(($(nproc) + 1))
  apart=$(GLOO_LOG_LEVEL=info "$gloo" run -n $crowd -- setsid -w "$gloo" info 2>&1)
  together=$(GLOO_LOG_LEVEL=info "$gloo" run -n $crowd -- "$gloo" info 2>&1)
  has "$apart" "kernel.sched_autogroup_enabled" && ! has "$together" "autogroup"
  result "ranks that lead sessions say that they may yield in vain"
else
  skipped "ranks that lead sessions" "the system does not share out cores by session, or is not asked"
fi

# Memory, by line and rank: KiB of the middle rank.
kib() { after memory | sed -n "s/^$1 \([0-9]*\) KiB per rank, [0-9]* at most$/\1/p"; }
if has_linux; then
  out=$("$gloo" run -n 64 -- gloo info --groups 100)
  [ "$(kib context)" -gt 0 ] && [ "$(kib "all pairs")" -gt "$(kib context)" ] &&
    [ "$(kib "100 groups of 8")" -gt "$(kib "all pairs")" ]
  result "64 ranks: the memory of a rank, also with 100 groups of 8"
else
  skipped "the memory of a rank" "the system does not report it"
fi
out=$("$gloo" run -n 2 -- gloo info --groups 3)
has "$(after memory)" "3 groups of 2 "
result "groups have no more members than the job has ranks"
equal "$("$gloo" info --groups 3 2>&1)" "gloo info: --groups requires a job; start it with 'gloo run'"
result "--groups requires a job"

"$gloo" run -n 3 -- gloo info --json > "$scratch/out"
equal "$("$json" < "$scratch/out")" 1 && has "$(cat "$scratch/out")" '"pairs": ["0 with 1-2: '
result "as one JSON object"

equal "$("$gloo" run -n 2 -- gloo info --local | grep -c '^gloo_c')" 2
result "--local: each rank for itself"

out=$(RANK=1 WORLD_SIZE=2 "$gloo" info 2>&1)
equal $? 1 && has "$out" "MASTER_ADDR"
result "half an environment is an error that names what is missing"

finish
