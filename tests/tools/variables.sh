#!/bin/sh
# Variables that begin with GLOO_ and that the documentation does not name.
# usage: variables.sh GLOO ENVIRONMENT_PAGE
gloo=$1 page=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
unset GLOO_LOG_LEVEL

# warned VARIABLE=VALUE...: runs with these variables, and keeps the warnings.
warned() {
  warnings=$(env "$@" "$gloo" info 2>&1 > /dev/null | grep "without effect")
}

warned GLOO_TRANSPROT=tcp
has "$warnings" "environment variables without effect: GLOO_TRANSPROT (did you mean GLOO_TRANSPORT?)" &&
  equal "$(echo "$warnings" | wc -l)" 1
result "a misspelled variable is named once, with a guess"

warned GLOO_TIMOUT=5 GLOO_STOER=tcp://127.0.0.1:1 GLOO_SOCKET_IFNAMES=lo
has "$warnings" "GLOO_TIMOUT (did you mean GLOO_TIMEOUT?)" && has "$warnings" "GLOO_STOER (did you mean GLOO_STORE?)" &&
  has "$warnings" "GLOO_SOCKET_IFNAMES (did you mean GLOO_SOCKET_IFNAME?)" && equal "$(echo "$warnings" | wc -l)" 1
result "so are several, in one line"

warned GLOO_SOMETHING_OF_OTHERS=1
has "$warnings" "without effect: GLOO_SOMETHING_OF_OTHERS" && ! has "$warnings" "did you mean" > /dev/null
result "without a guess if none is similar"

warned GLOO_TRANSPROT=
equal "$warnings" ""
result "an empty variable is not set"

warnings=$(env GLOO_RANK=0 GLOO_SIZ=2 "$gloo" doctor 2>&1 > /dev/null)
has "$warnings" "GLOO_SIZ (did you mean GLOO_SIZE?)"
result "also if the start fails for lack of the variable"

# An invalid value may end the command, but after the warning.
# shellcheck disable=SC2013,SC2016
for name in $(grep -o '`GLOO_[A-Z0-9_]*`' "$page" | tr -d '`' | sort -u) GLOO_SERVICE_HOST GLOO_SERVICE_PORT_GRPC \
  GLOO_PORT_9977_TCP GLOO_PORT_9977_TCP_ADDR; do
  case $name in GLOO_ERR_* | GLOO_LOG_LEVEL) continue ;; esac
  warned "$name=1"
  [ -z "$warnings" ] || echo "# $warnings"
  [ -z "$warnings" ] || break
done
known=$warnings
warned GLOO_PORT=tcp://10.0.0.1:9977
equal "$known$warnings" ""
result "the variables of the page, and those of Kubernetes' services, are known"

finish
