#!/bin/sh
# The include law holds in this tree, and is seen to fail on planted violations.
# usage: include_law.sh PROJECT
set -u
project=$1
law=$project/tests/law/include_law.awk
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
number=0

report() { # ok|not ok, name
  number=$((number + 1))
  echo "$1 $number - $2"
}

check() { # project
  (cd "$1" && find src/* include/gloo_c -name '*.[ch]' -exec awk -f "$law" {} +)
}

cases() {
  cat <<'END'
core/plant.c "plan/plan.h"
core/plant.c <uv.h>
plan/plant.c "algorithms/registry.h"
plan/plant.c "transport/transport.h"
plan/plant.c <unistd.h>
algorithms/plant.c "plan/plan.h"
algorithms/plant.c "registry.h"
algorithms/plant.c "core/error.h"
transport/plant.c "transport_tcp/tcp.h"
transport_tcp/plant.c "transport_inproc/inproc.h"
transport_inproc/plant.h "engine/engine.h"
rendezvous/plant.c "transport/transport.h"
memory/plant.c "engine/engine.h"
engine/plant.c "rendezvous/store.h"
engine/plant.c "algorithms/registry.h"
engine/plant.c "../api/api.h"
engine/plant.c <time.h>
engine/plant.c <openssl/ssl.h>
somewhere/plant.c "core/error.h"
END
}

echo "1..$((2 + $(cases | wc -l)))"
if check "$project" >"$work/found"; then
  report ok "the tree obeys the include law"
else
  sed 's/^/# /' "$work/found"
  report "not ok" "the tree obeys the include law"
fi

cases >"$work/cases"
while read -r file include; do
  mkdir -p "$work/tree/src/$(dirname "$file")" "$work/tree/include/gloo_c"
  echo '#include <stddef.h>' >"$work/tree/include/gloo_c/fine.h"
  printf '/* planted */\n#include %s\n' "$include" >"$work/tree/src/$file"
  if check "$work/tree" >"$work/found" || ! grep -q "^src/$file:" "$work/found"
  then
    sed 's/^/# /' "$work/found"
    report "not ok" "$include in $file is refused"
  else
    report ok "$include in $file is refused"
  fi
  rm -rf "$work/tree"
done <"$work/cases"

mkdir -p "$work/tree/src/core" "$work/tree/include/gloo_c"
echo '#include "core/error.h"' >"$work/tree/include/gloo_c/plant.h"
echo '#include "error.h"' >"$work/tree/src/core/fine.c"
if check "$work/tree" >"$work/found" || grep -q fine "$work/found"; then
  report "not ok" "an internal header in a public one is refused"
else
  report ok "an internal header in a public one is refused"
fi
