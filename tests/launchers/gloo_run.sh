#!/usr/bin/env bash
# gloo run, without another launcher.
# shellcheck source=tests/launchers/common.sh
. "$(dirname "$0")/common.sh"

says_hello "gloo run" 3 "$gloo" run -n 3 --
says_hello "no launcher" 1 env
strangers "gloo run" "$gloo" run -n 4 --
finish
