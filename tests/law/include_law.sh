#!/bin/sh
# The include law holds in this tree, and fails on planted violations.
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
  (cd "$1" && find src/* include/gloo_c examples -name '*.[ch]' -exec awk -f "$law" {} +)
}

# A valid tree, with one more folder.
plain_tree() { # folder
  for folder in src/core src/security src/engine/run src/algorithms include/gloo_c examples "$1"; do
    mkdir -p "$work/tree/$folder"
  done
  echo '#include <stddef.h>' >"$work/tree/include/gloo_c/fine.h"
  echo '#include "error.h"' >"$work/tree/src/core/fine.c"
  printf '#include <openssl/evp.h>\n#include "core/error.h"\n' >"$work/tree/src/security/fine.c"
  echo '#include "plan/builder.h"' >"$work/tree/src/algorithms/fine.c"
  printf '#include "engine/wire/wire.h"\n#  include "transport/transport.h"\n' \
    >"$work/tree/src/engine/run/fine.c"
  echo '#include <gloo_c/gloo_c.h>' >"$work/tree/examples/fine.c"
}

cases() {
  cat <<'END'
src/core/plant.c "plan/plan.h"
src/core/plant.c <uv.h>
src/core/plant.c "security/keys.h"
src/core/plant.c <openssl/evp.h>
src/security/plant.h <openssl/evp.h>
src/security/plant.c <uv.h>
src/security/plant.c "rendezvous/store/store.h"
src/plan/plant.c "algorithms/registry.h"
src/plan/plant.c "transport/transport.h"
src/plan/plant.c <unistd.h>
src/algorithms/plant.c "plan/plan.h"
src/algorithms/plant.c "registry.h"
src/algorithms/plant.c "core/error.h"
src/transport/plant.c "transport_tcp/tcp.h"
src/transport_tcp/plant.c "transport_inproc/inproc.h"
src/transport_inproc/plant.h "engine/engine.h"
src/kernels/plant.c "net/events.h"
src/net/plant.c "rendezvous/store/store.h"
src/net/plant.c <openssl/ssl.h>
src/net/tls_plant.h <openssl/ssl.h>
src/plan/plant.c "proof/check.h"
src/rendezvous/store/plant.c "transport/transport.h"
src/rendezvous/store/plant.c "rendezvous/launch/launch.h"
src/rendezvous/launch/plant.c "rendezvous/join/exchange.h"
src/rendezvous/store/plant.c <openssl/evp.h>
src/engine/run/plant.c "rendezvous/join/record_delta.h"
src/observe/plant.c "api/call.h"
src/transport_tcp/plant.c <openssl/ssl.h>
src/transport_inproc/plant.c "security/keys.h"
src/engine/run/plant.c "security/keys.h"
src/memory/plant.c "engine/engine.h"
src/engine/state/plant.c "rendezvous/store/store.h"
src/engine/run/plant.c "algorithms/registry.h"
src/engine/entry/plant.c "../api/api.h"
src/engine/drive/plant.c <time.h>
src/engine/wire/plant.c <openssl/ssl.h>
src/engine/run/plant.c <uv.h>
src/engine/state/plant.h "engine/wire/wire.h"
src/engine/wire/plant.c "engine/match/match.h"
src/engine/match/plant.c "engine/memory/memory.h"
src/engine/memory/plant.c "engine/run/run.h"
src/engine/run/plant.c "engine/rma/rma.h"
src/engine/rma/plant.c "engine/life/life.h"
src/engine/life/plant.c "engine/contexts/contexts.h"
src/engine/contexts/plant.c "engine/failure/failure.h"
src/engine/failure/plant.c "engine/drive/drive.h"
src/engine/drive/plant.c "engine/engine.h"
src/engine/plant.h "engine/run/run.h"
src/api/plant.c "engine/state/context.h"
src/somewhere/plant.c "core/error.h"
include/gloo_c/plant.h "core/error.h"
examples/plant.c "core/log.h"
examples/plant.c <uv.h>
examples/plant.c <openssl/ssl.h>
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
  plain_tree "$(dirname "$file")"
  printf '/* planted */\n#include %s\n' "$include" >"$work/tree/$file"
  if check "$work/tree" >"$work/found" || ! grep -q "^$file:[12]: " "$work/found" ||
    grep -q fine "$work/found"; then
    sed 's/^/# /' "$work/found"
    report "not ok" "$include in $file is refused"
  else
    report ok "$include in $file is refused"
  fi
  rm -rf "$work/tree"
done <"$work/cases"

plain_tree src/core
if check "$work/tree" >"$work/found"; then
  report ok "what is allowed is not refused"
else
  sed 's/^/# /' "$work/found"
  report "not ok" "what is allowed is not refused"
fi
