#include "transport/peer.h"

#include <inttypes.h>
#include <stdarg.h>

#include "core/error.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "security/trust.h"

/* ---- opening ------------------------------------------------------------- */

gloo_status gli_peer_key(const gli_pair_config *config, gli_key *key,
                         gloo_error *error) {
  const gli_trust_end self = {config->self_rank, config->local_key};
  const gli_trust_end other = {config->peer_rank, config->remote_key};
  return gli_trust_pair_key(config->job_key, self, other, key, error);
}

gloo_status gli_peer_init(gli_transport_peer *peer, gli_transport_peers *set,
                          const gli_pair_config *config, gloo_error *error) {
  peer->set = set;
  peer->config = *config;
  peer->config.job_key = NULL;
  peer->asks = config->job_key != NULL;
  return peer->asks ? gli_peer_key(config, &peer->key, error) : GLOO_OK;
}

void gli_peer_move(gli_transport_peer *peer, gli_transport_peer **list) {
  if (peer->link != NULL) {
    *peer->link = peer->next;
    if (peer->next != NULL) peer->next->link = peer->link;
  }
  peer->next = *list;
  peer->link = list;
  if (peer->next != NULL) peer->next->link = &peer->next;
  *list = peer;
}

void gli_peer_add(gli_transport_peer *peer) {
  gli_transport_peers *set = peer->set;
  if (peer->checked)
    gli_log(GLOO_LOG_INFO,
            "checksums (CRC32C) are on between ranks %" PRIu32 " and %" PRIu32,
            peer->config.self_rank, peer->config.peer_rank);
  peer->live = true;
  gli_peer_move(peer, &set->pairs);
  set->to_begin = true;
  gli_peers_touch(set);
}

void gli_peer_leave(gli_transport_peer *peer) {
  peer->live = false;
  peer->closed = true;
  gli_peer_move(peer, &peer->set->leaving);
}

/* ---- a hello from a peer ------------------------------------------------- */

/* Returns a pair that is closed here and still delivering, if the peer connects
 * only now. */
static gli_transport_peer *peer_find_leaving(const gli_transport_peers *set,
                                             const gli_peer_name *name) {
  gli_transport_peer *peer = set->leaving;
  while (peer != NULL && (peer->config.local_key != name->key ||
                          peer->config.peer_rank != name->from))
    peer = peer->next;
  return peer;
}

gloo_status gli_peer_expect(gli_transport_peers *set, const gli_peer_name *name,
                            gli_peer_expected *expected, gloo_error *error) {
  const gli_transport_peer *leaving = peer_find_leaving(set, name);
  *expected = (gli_peer_expected){.known = leaving != NULL};
  if (leaving != NULL) {
    expected->asks = leaving->asks;
    expected->self_rank = leaving->config.self_rank;
    expected->key = leaving->key;
    expected->address = leaving->config.address;
    return GLOO_OK;
  }
  gli_pair_config config;
  if (set->closing || set->upcalls->expect == NULL) return GLOO_OK;
  if (!set->upcalls->expect(set->device_user, name->key, name->from, &config))
    return GLOO_OK;
  expected->known = true;
  expected->asks = config.job_key != NULL;
  expected->self_rank = config.self_rank;
  expected->address = config.address;
  return expected->asks ? gli_peer_key(&config, &expected->key, error)
                        : GLOO_OK;
}

gli_transport_peer *gli_peer_find(gli_transport_peers *set,
                                  const gli_peer_name *name,
                                  gli_peer_refusal *refusal) {
  *refusal = GLI_PEER_UNKNOWN;
  gli_transport_peer *peer = peer_find_leaving(set, name);
  if (peer == NULL && !set->closing) {
    gli_pair *accepted =
        set->upcalls->accept(set->device_user, name->key, name->from);
    if (accepted == GLI_PAIR_LATER)
      *refusal = GLI_PEER_LATER;
    else if (accepted == GLI_PAIR_ELSEWHERE)
      *refusal = GLI_PEER_ELSEWHERE;
    else
      peer = (gli_transport_peer *)accepted;
  }
  if (peer == NULL || peer->broken) return NULL;
  if (peer->config.local_key != name->key) return NULL;
  if (peer->config.peer_rank != name->from) return NULL;
  return peer->config.self_rank == name->to ? peer : NULL;
}

/* ---- failing ------------------------------------------------------------- */

static void peer_fail(gli_transport_peer *peer, gloo_status status,
                      const char *format, va_list arguments) {
  gli_transport_peers *set = peer->set;
  if (peer->live && !peer->departed) {
    (void)gli_vfail(&peer->cause, status, (int)peer->config.peer_rank, format,
                    arguments);
    peer->to_tell = true;
  }
  peer->live = false;
  peer->to_report = true;
  set->kind->update_undelivered(peer);
  set->to_report = true;
  gli_peers_touch(set);
}

void gli_peer_break(gli_transport_peer *peer, gloo_status status,
                    const char *format, ...) {
  if (peer->broken) return;
  peer->broken = true;
  va_list arguments;
  va_start(arguments, format);
  peer_fail(peer, status, format, arguments);
  va_end(arguments);
}

void gli_peer_fail_resource(gli_transport_peer *peer, int code) {
  if (peer->broken) return;
  gli_peer_break(peer, gli_exhaustion_status(code), "%s %" PRIu32 ": %s",
                 peer->set->kind->without, peer->config.peer_rank,
                 gli_exhaustion_text(code));
  peer->cause.rank = peer->cause.root_rank = (int)peer->config.self_rank;
}

void gli_peer_spoil(gli_transport_peer *peer, const char *format, ...) {
  if (peer->broken) return;
  va_list arguments;
  va_start(arguments, format);
  peer_fail(peer, GLOO_ERR_PROTOCOL, format, arguments);
  va_end(arguments);
  if (peer->set->kind->ignore != NULL) peer->set->kind->ignore(peer);
}

/* ---- one turn ------------------------------------------------------------ */

static void peer_begin(gli_transport_peer *peer) {
  bool begun = peer->begun;
  peer->begun = true;
  if (!begun) peer->set->kind->begin(peer);
}

/* New pairs are at the head of their list, before all that have begun: a
 * process that connects to many ranks visits each once. */
void gli_peers_begin(gli_transport_peers *set) {
  gli_transport_peer *next;
  set->to_begin = false;
  for (gli_transport_peer *peer = set->pairs; peer != NULL && !peer->begun;
       peer = next) {
    next = peer->next;
    peer_begin(peer);
  }
  for (gli_transport_peer *peer = set->leaving; peer != NULL; peer = next) {
    next = peer->next;
    peer_begin(peer);
  }
}

void gli_peers_due(gli_transport_peers *set, uint64_t now_ns) {
  gli_transport_peer *const lists[] = {set->pairs, set->leaving};
  for (int i = 0; i < 2; i++) {
    gli_transport_peer *next;
    for (gli_transport_peer *peer = lists[i]; peer != NULL; peer = next) {
      next = peer->next;
      set->kind->due(peer, now_ns);
    }
  }
}

static gli_transport_peer *peers_find_to_report(
    const gli_transport_peers *set) {
  gli_transport_peer *const lists[] = {set->pairs, set->leaving};
  for (int i = 0; i < 2; i++)
    for (gli_transport_peer *peer = lists[i]; peer != NULL; peer = peer->next)
      if (peer->to_report) return peer;
  return NULL;
}

void gli_peers_report(gli_transport_peers *set) {
  const gli_peer_kind *kind = set->kind;
  gli_transport_peer *peer;
  set->to_report = false;
  while ((peer = peers_find_to_report(set)) != NULL) {
    peer->to_report = false;
    set->happened++;
    if (peer->closed && peer->broken) {
      kind->dispose(peer);
      continue;
    }
    if (peer->broken) kind->end(peer);
    kind->update_undelivered(peer);
    if (peer->closed || !peer->to_tell) continue;
    peer->to_tell = false;
    set->upcalls->failed(peer->config.user, &peer->cause);
  }
}

void gli_peers_touch(gli_transport_peers *set) {
  atomic_store(&set->needs_poll, true);
  if (!set->in_poll && atomic_load(&set->sleepers) > 0)
    set->base.ops->wake(&set->base);
}

void gli_peers_schedule(gli_transport_peers *set, uint64_t due_ns) {
  uint64_t known = atomic_load(&set->next_due_ns);
  if (known != 0 && known <= due_ns) return;
  atomic_store(&set->next_due_ns, due_ns);
  gli_peers_touch(set); /* a present sleeper uses the old time */
}
