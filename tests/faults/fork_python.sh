#!/bin/sh
# A job whose ranks are Python programs that fork by multiprocessing.
# usage: fork_python.sh GLOO LIBRARY FORK.PY SANITIZE
gloo=$1
library=$2
program=$3
if [ "$4" != none ]; then
  echo '1..0 # SKIP the library is instrumented, python3 is not'
  exit 0
fi
if ! command -v python3 >/dev/null; then
  echo '1..0 # SKIP there is no python3'
  exit 0
fi
echo 1..3
number=0
for transport in tcp shm auto; do
  number=$((number + 1))
  if GLOO_TRANSPORT=$transport "$gloo" run -n 3 -- python3 "$program" "$library"; then
    echo "ok $number - workers_of_multiprocessing_$transport"
  else
    echo "not ok $number - workers_of_multiprocessing_$transport"
  fi
done
