/* Opening and closing of the end point, and the table of operations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/error.h"
#include "core/exhaustion.h"
#include "memory/region.h"
#include "memory/sealed.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

static const int64_t close_nap_ns = 5000000;

static void shm_transport_release(gli_shm *t) {
  if (t->listener.fd >= 0) gli_shm_unlisten(&t->here);
  gli_watch_close(&t->listener);
  if (t->ringer != t->bell.fd) gli_fd_close(t->ringer);
  gli_watch_close(&t->bell);
  gli_shm_memory_drop(t->page, GLI_SHM_PAGE_BYTES);
  gli_sealed_close(t->page_fd);
  gli_events_close(t->events);
  uv_mutex_destroy(&t->up_lock);
  free(t->up);
  free(t);
}

/* Makes the next poll register new watches, where the system needs one. */
static void shm_transport_touched(void *user) {
  gli_shm *t = user;
  atomic_store(&t->look, true);
  gli_peers_touch(&t->peers);
}

/* Returns 0, or errno with the failed part in `what`. */
static int shm_open_parts(gli_shm *t, const char **what) {
  int code = gli_shm_endpoint_here(&t->here, what);
  if (code != 0) return code;
  void *page;
  code = gli_shm_memory_make(GLI_SHM_PAGE_BYTES, GLI_SHM_PAGE_BYTES,
                             &t->page_fd, &page, what);
  if (code != 0) return code == ENOSPC ? ENOMEM : code;
  t->page = page;
  *what = "cannot watch descriptors";
  t->events = gli_events_open(shm_transport_touched, t);
  if (t->events == NULL) return errno;
  *what = "no descriptor to wake threads with";
  int fd;
  code = gli_shm_bell_make(&fd, &t->ringer);
  if (code != 0) return code;
  if (!gli_shm_watch(t, &t->bell, fd, gli_shm_bell_ready, t)) return errno;
  *what = "no socket to listen at";
  fd = gli_shm_listen(&t->here);
  if (fd < 0) return errno;
  if (!gli_shm_watch(t, &t->listener, fd, gli_shm_listener_ready, t))
    return errno;
  return 0;
}

/* ---- callbacks of peer.h ------------------------------------------------- */

static void shm_peer_begin(gli_transport_peer *peer) {
  gli_shm_pair *pair = (gli_shm_pair *)peer;
  if (pair->state == GLI_SHM_IDLE && !peer->broken) gli_shm_begin(pair);
}

static void shm_peer_due(gli_transport_peer *peer, uint64_t now_ns) {
  gli_shm_pair *pair = (gli_shm_pair *)peer;
  if (pair->due_ns != 0 && pair->due_ns <= now_ns) {
    pair->due_ns = 0;
    if (pair->state == GLI_SHM_WAITING && !peer->broken) gli_shm_begin(pair);
  } else if (pair->due_ns != 0) {
    gli_peers_schedule(peer->set, pair->due_ns);
  }
  if (!peer->closed) return;
  if (peer->linger_until_ns > now_ns)
    gli_peers_schedule(peer->set, peer->linger_until_ns);
  gli_shm_linger_check(pair, now_ns);
}

static void shm_peer_update_undelivered(gli_transport_peer *peer) {
  gli_shm_update_undelivered((gli_shm_pair *)peer);
}

static void shm_peer_dispose(gli_transport_peer *peer) {
  gli_shm_pair_dispose((gli_shm_pair *)peer);
}

static const gli_peer_kind shm_peers = {
    .without = "no shared memory with rank",
    .begin = shm_peer_begin,
    .due = shm_peer_due,
    .update_undelivered = shm_peer_update_undelivered,
    .end = gli_shm_pair_end,
    .dispose = shm_peer_dispose,
};

static gloo_status shm_open_endpoint(const gli_transport_config *config,
                                     gli_transport **transport,
                                     gloo_error *error) {
  gli_shm *t = calloc(1, sizeof *t);
  if (t == NULL || uv_mutex_init(&t->up_lock) != 0) {
    free(t);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the shared memory transport");
  }
  t->peers.base.ops = &gli_transport_shm;
  t->peers.base.owed = config->owed;
  t->peers.kind = &shm_peers;
  t->region_generation = gli_region_generation();
  t->peers.upcalls = config->upcalls;
  t->here.checksum = config->checksum;
  t->peers.device_user = config->device_user;
  t->page_fd = t->listener.fd = t->bell.fd = t->ringer = -1;
  for (int i = 0; i < GLI_SHM_HALF_OPEN_MAX; i++) {
    t->half_opens[i].t = t;
    t->half_opens[i].watch.fd = -1;
  }
  gloo_status status = gli_shm_reading_read(&t->reading, error);
  if (status != GLOO_OK) {
    shm_transport_release(t);
    return status;
  }
  const char *what = "";
  int code = shm_open_parts(t, &what);
  if (code != 0) {
    shm_transport_release(t);
    return gli_fail(error,
                    gli_is_exhaustion(code) ? gli_exhaustion_status(code)
                                            : GLOO_ERR_UNSUPPORTED,
                    -1,
                    "shared memory between processes is not available: %s: %s",
                    what, gli_exhaustion_text(code));
  }
  *transport = &t->peers.base;
  return GLOO_OK;
}

static void shm_address(const gli_transport *t, gli_address *address) {
  gli_shm_endpoint_encode(&((const gli_shm *)t)->here, address);
}

static uint64_t shm_now_ns(gli_transport *t) {
  (void)t;
  struct timespec now; /* the clock of uv_hrtime, without its overhead */
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void shm_set_oversubscribed(gli_transport *t, bool oversubscribed) {
  atomic_store_explicit(&((gli_shm *)t)->oversubscribed, oversubscribed,
                        memory_order_relaxed);
}

static bool shm_maps(const gli_address *a, const gli_address *b) {
  gli_shm_endpoint x, y;
  return gli_shm_endpoint_decode(a, &x) && gli_shm_endpoint_decode(b, &y) &&
         gli_shm_endpoint_unreachable(&x, &y) == NULL;
}

static bool shm_reachable(const gli_transport *t, const gli_address *address,
                          char why[GLI_WHY_BYTES]) {
  gli_shm_endpoint there;
  const char *apart = "published no shared memory address";
  if (gli_shm_endpoint_decode(address, &there))
    apart = gli_shm_endpoint_unreachable(&((const gli_shm *)t)->here, &there);
  if (apart == NULL) return true;
  (void)snprintf(why, GLI_WHY_BYTES, "it %s", apart);
  return false;
}

static void shm_close_endpoint(gli_transport *base) {
  gli_shm *t = (gli_shm *)base;
  t->peers.closing = true;
  gli_shm_poll(base);
  while (gli_shm_lingering(t)) {
    gli_shm_sleep(base, close_nap_ns);
    gli_shm_poll(base);
  }
  gli_shm_half_open_close(t);
  gli_shm_free_garbage(t);
  shm_transport_release(t);
}

static uint64_t shm_heard_at(const gli_pair *base) {
  const gli_shm_page *page = ((const gli_shm_pair *)base)->peer_page;
  if (page == NULL) return 0;
  return atomic_load_explicit(&page->looked_ns, memory_order_relaxed);
}

static uint64_t shm_heard(const gli_pair *base) {
  const gli_shm_pair *pair = (const gli_shm_pair *)base;
  uint64_t messages =
      atomic_load_explicit(&pair->in.next, memory_order_relaxed);
  return messages + pair->answers + shm_heard_at(base);
}

static bool shm_obstacle(const gli_pair *base, gli_obstacle *obstacle) {
  const gli_shm_pair *pair = (const gli_shm_pair *)base;
  *obstacle = (gli_obstacle){.lack = pair->peer.up ? 0 : pair->lack};
  return obstacle->lack != 0;
}

const gli_transport_ops gli_transport_shm = {
    .name = "shm",
    .open = shm_open_endpoint,
    .address = shm_address,
    .now_ns = shm_now_ns,
    .pair_open = gli_shm_pair_open,
    .send = gli_shm_send,
    .send_now = gli_shm_send_now,
    .take_now = gli_shm_take_now,
    .pair_close = gli_shm_pair_close,
    .heard = shm_heard,
    .heard_at = shm_heard_at,
    .obstacle = shm_obstacle,
    .shows_polls = gli_shm_pair_up,
    .rested = gli_shm_rested,
    .poll = gli_shm_poll,
    .sleep = gli_shm_sleep,
    .wake = gli_shm_wake,
    .close = shm_close_endpoint,
    .forked = gli_shm_forked,
    .abandon = gli_shm_abandon,
    .maps = shm_maps,
    .reachable = shm_reachable,
    .pair_up = gli_shm_pair_up,
    .sleep_begin = gli_shm_sleep_begin,
    .sleep_end = gli_shm_sleep_end,
    .rkey_pack = gli_shm_rkey_pack,
    .rkey_map = gli_shm_rkey_map,
    .get = gli_shm_rkey_get,
    .revoked = gli_shm_pair_revoked,
    .shared_copy = gli_shm_shared_copy,
    .set_oversubscribed = shm_set_oversubscribed,
};

/* Lacks the short paths for small messages, so that all messages go through the
 * ring. */
const gli_transport_ops gli_transport_shm_checked = {
    .name = "shm",
    .send = gli_shm_send,
    .pair_close = gli_shm_pair_close,
    .heard = shm_heard,
    .heard_at = shm_heard_at,
    .obstacle = shm_obstacle,
    .shows_polls = gli_shm_pair_up,
    .pair_up = gli_shm_pair_up,
};
