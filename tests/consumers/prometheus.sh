#!/usr/bin/env bash
# Prometheus, promtool and node_exporter of Debian read what gloo metrics serves, and Prometheus answers the
# queries of the Grafana board (prometheus.py).
# usage: prometheus.sh PROJECT FOLDER GLOO TRACE_RANK
# FOLDER keeps downloads for later runs.
set -u
project=$1 folder=$2 gloo=$3 rank=$4
# shellcheck source=/dev/null
. "$project/scripts/lib.sh"
mkdir -p "$folder"

# get PACKAGE: unpacks a Debian package into FOLDER. It is not installed, since both packages start services.
get() { # package
  local log=$folder/log
  [ -d "$folder/$1" ] && return 0
  (cd "$folder" && apt-get download "$1" || {
    can_be_root && as_root apt-get update && apt-get download "$1"
  }) >"$log" 2>&1 </dev/null &&
    dpkg-deb -x "$folder/$1"_*.deb "$folder/$1.new" >>"$log" 2>&1 &&
    mv "$folder/$1.new" "$folder/$1"
}

for package in prometheus prometheus-node-exporter; do
  if ! get "$package"; then
    echo "1..0 # SKIP $package cannot be downloaded: $(tail -n 1 "$folder/log")"
    exit 0
  fi
done
export PATH="$folder/prometheus/usr/bin:$folder/prometheus-node-exporter/usr/bin:$PATH"
if ! command -v python3 >/dev/null || ! prometheus --version >"$folder/log" 2>&1; then
  echo "1..0 # SKIP python3 or prometheus does not run here: $(tail -n 1 "$folder/log")"
  exit 0
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 "$project/tests/consumers/prometheus.py" "$project/share" "$gloo" "$rank"
