#!/bin/sh
# The code uses standard terms: replaced words (docs/internals/glossary.md) do
# not come back, the glossary's files exist, and names of static functions are
# distinct.
# usage: words.sh PROJECT
set -u
project=$1
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
number=0

# Where it is forbidden, what, an example of it, the replacement.
cat >"$work/retired" <<'END'
src include|gloo_operation|gloo_operation *op;|gloo_request
include src|context that was there first|/* the context that was there first */|root context
src/engine src/transport|[Pp]ark(s|ed|ing)?|parked = true;|early (message)
src/engine src/transport|charged|t->charged = 1;|eager
src/engine src/transport|WANTs?|/* a WANT */|RTS
src/engine src/transport|STARTED|/* STARTED */|CTS
src/engine src/transport|TAKEN|/* TAKEN */|READ_DONE
src/engine src/transport|LEFT|/* LEFT */|DEPARTED
src/engine src/transport|HELP(ED)?|/* HELP */|SHARE, SHARE_DONE
src|GLI_MESSAGE_(WANT|STARTED|TAKEN|LEFT|HELP|HELPED)|GLI_MESSAGE_WANT|GLI_MESSAGE_RTS and so on
src|GLI_POST_AGAIN|GLI_POST_AGAIN|GLI_POST_NO_ROOM
src/engine|again_(links|queued|next)|again_links = NULL;|pending_...
src|gli_(late|straight|parked|help|reach|numbers|terms)_[a-z_]*|gli_late_arm(op);|gli_blame_..., gli_in_order_..., gli_early_..., gli_shared_copy_..., gli_expose_... or gli_get_..., gli_given_counts_..., gli_agreement
src/engine|stray(s|ed)?|op->strayed++;|fall back, fallbacks
src/engine|put_off[a-z_]*|op->put_off = true;|deferred
src/engine|innocent|bool innocent;|cleared
src/engine|alarm(s|_ns)?|op->alarm_ns = 0;|timer
src/engine src/api|lobb(y|ies)|/* the lobby */|control context
src/engine|carriers?|link->carrier = link;|base link
src/engine|rootless|family->rootless = true;|orphaned
src|incoming_left|bool incoming_left;|incoming_first
src/engine|steps_left|op->steps_left--;|steps_todo
src tools|[Cc]rowded|bool crowded;|oversubscribed
src|GLI_(SETTLED|NOT_NEAR|NEAR|IN_REACH)|GLI_NEAR|GLI_PINNED, GLI_INTER_NODE, GLI_INTRA_NODE, GLI_MAPPED
src|(is_)?vast|bool vast;|nontemporal
src|gli_storing[a-z_]*|gli_storing *s;|gli_store_policy
src/transport_shm|shel(f|ves)|gli_shm_region *shelf;|map cache
src/transport_shm src/transport_tcp|guests?|/* a guest */|half-open connection
src/transport_shm|mood|uint32_t mood;|rx_state
src/transport_shm|unrest|uint32_t unrest;|pending_work
src/transport_shm|deaf|t->deaf = true;|accept_paused
src/transport_shm|life lines?|/* the life line */|liveness socket
src/plan src/engine|JOINs?|/* a JOIN */|LOCAL_REDUCE
src/plan src/engine|SPREAD|/* a SPREAD */|LOCAL_BCAST
src/plan src/algorithms src/engine/memory|views?|uint32_t view;|get
src/algorithms src/engine/memory|loans?|uint32_t loan;|put
src/plan src/algorithms|lend(s|ing)?|/* lends it */|expose for a put
src|GLI_(ROLE_(VIEW|LEND|FILL)|FORM_(REFERENCE|PLACED))|GLI_ROLE_LEND|GLI_ROLE_EXPOSE_GET, ..._EXPOSE_PUT, ..._PUT, GLI_FORM_RKEY, ..._PUT_DONE
src/rendezvous/join|cards?|record *card;|address record
src|gli_tcp_attempt_(in_vain|greets|denied|wrong|again|later)|gli_tcp_attempt_wrong(attempt, "x");|..._failed_because, ..._hello_sent, ..._rejected, ..._bad_peer, ..._retry_at, ..._postpone
src|gli_(peer|tcp_listener|tcp_pair)_lacks|gli_peer_lacks(peer, ENOMEM);|..._fail_resource
src|gli_lacking|gli_lacking(errno)|gli_is_exhaustion
src|gli_lack_(status|text)|gli_lack_text(errno)|gli_exhaustion_...
src|gli_owe|gli_owe(t, pair, true);|gli_mark_undelivered
src|([a-z_]+_)?reckon|gli_tcp_reckon(pair);|..._update_undelivered
src|gli_[a-z_]+_hidden|gli_tls_hidden(tls)|..._pending
src/transport_tcp|(next_)?hidden|bool hidden;|tls_pending
END

# The pattern may contain bars: the fields are the first, the last two, and
# everything between.
fields() {
  awk -F'|' '{ what = $2; for (i = 3; i <= NF - 2; i++) what = what "|" $i
    print $1; print what; print $(NF - 1); print $NF }' "$work/retired"
}

check_words() { # DIRECTORY
  fields | while read -r where && read -r what && IFS= read -r example && IFS= read -r use; do
    for part in $where; do
      [ -d "$1/$part" ] || continue
      grep -rnE --include='*.[ch]' "(^|[^A-Za-z0-9_])($what)([^A-Za-z0-9_]|\$)" "$1/$part" |
        sed "s|^$1/||; s|\$| <- say: $use|"
    done
  done
}

# Static functions with a name of one word (algorithms and POSIX have their own
# vocabulary), or with a name that is used twice.
check_statics() { # DIRECTORY
  (cd "$1" && grep -rnE --include='*.[ch]' '^(GLI_[A-Z_]+ )*static [^=;(]*\(' src) |
    sed -nE 's/^([^:]*):[0-9]+:.*[ *]([A-Za-z_0-9]+)\(.*$/\2 \1/p' | sort -u |
    awk '$1 ~ /^(gli_|gloo_)/ || $1 ~ /^[A-Z_0-9]+$/ { next }
      $1 !~ /_/ && $2 !~ /^src\/(algorithms|windows)\// { print $2 ": " $1 " is one word" }
      $1 == name { print $2 ": " $1 " is also in " file }
      { name = $1; file = $2 }'
}

verdict() { # name, file with what was found, wanted: none or some
  number=$((number + 1))
  if [ -s "$2" ]; then has=some; else has=none; fi
  if [ "$has" = "$3" ]; then
    echo "ok $number - $1"
  else
    sed 's/^/# /' "$2" | head -n 40
    echo "not ok $number - $1"
  fi
}

check_words "$project" >"$work/found"
verdict "no word that was given up is in use" "$work/found" none

: >"$work/silent"
fields | while read -r where && read -r what && IFS= read -r example && IFS= read -r use; do
  for part in $where; do
    rm -rf "$work/tree"
    mkdir -p "$work/tree/$part"
    printf '%s\n' "$example" >"$work/tree/$part/plant.c"
    [ -n "$(check_words "$work/tree")" ] || echo "$example in $part is not found"
  done
done >"$work/silent"
verdict "each of them would be found" "$work/silent" none

check_statics "$project" >"$work/found"
verdict "static functions can be told apart" "$work/found" none
rm -rf "$work/tree"
mkdir -p "$work/tree/src/core" "$work/tree/src/plan"
echo 'static int find(void) {' >"$work/tree/src/core/plant.c"
check_statics "$work/tree" >"$work/found"
verdict "one of one word is found" "$work/found" some
echo 'static int find_it(void) {' >"$work/tree/src/core/plant.c"
echo 'static const char *find_it(int a) {' >"$work/tree/src/plan/plant.c"
check_statics "$work/tree" >"$work/found"
verdict "two of one name are found" "$work/found" some

glossary=$project/docs/internals/glossary.md
grep -oE '[a-z_]+/[a-z_/]*\.[ch]' "$glossary" | sort -u |
  while read -r file; do
    [ -f "$project/src/$file" ] || [ -f "$project/$file" ] || echo "$file: is not there"
  done >"$work/found"
[ -s "$glossary" ] || echo "no glossary" >>"$work/found"
verdict "the files that the glossary names are there" "$work/found" none
echo "1..$number"
