/* Opening, states and end of pairs. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "core/random.h"
#include "memory/sealed.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

/* ---- opening ------------------------------------------------------------- */

uint32_t gli_shm_data_for(uint64_t used) {
  static const struct {
    uint64_t until;
    uint32_t data_bytes;
  } tiers[] = {{GLI_SHM_MEMORY_MAX / 4, 1024 * 1024},
               {GLI_SHM_MEMORY_MAX / 4 * 3, 256 * 1024},
               {GLI_SHM_MEMORY_MAX, 64 * 1024}};
  for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++)
    if (used + gli_shm_ring_bytes(tiers[i].data_bytes) <= tiers[i].until)
      return tiers[i].data_bytes;
  return 0;
}

/* Makes the ring. Returns 0, or errno with the failed step in `what`. */
static int make_ring(gli_shm_pair *pair, const char **what) {
  gli_shm *t = pair->t;
  gli_shm_out *out = &pair->out;
  uint32_t data = gli_shm_data_for(t->memory_bytes);
  if (data == 0) return ENOSPC;
  int fd;
  void *memory;
  int code = gli_shm_memory_make(gli_shm_ring_bytes(data), GLI_SHM_FIRST_BYTES,
                                 &fd, &memory, what);
  if (code != 0) return code;
  gli_shm_out_begin(out, fd, memory, data);
  t->memory_bytes += out->bytes;
  return 0;
}

static gloo_status no_ring(const gli_pair_config *config, int code,
                           const char *what, gloo_error *error) {
  if (code == ENOSPC)
    return gli_fail(
        error, GLOO_ERR_NO_MEMORY, -1,
        "no shared memory for rank %" PRIu32
        ": the limit of %u MiB per rank is reached, or none is left",
        config->peer_rank, (unsigned)(GLI_SHM_MEMORY_MAX / 1024 / 1024));
  if (code == ENOMEM)
    return gli_fail(
        error, GLOO_ERR_NO_MEMORY, -1,
        "no shared memory for rank %" PRIu32
        ": too little memory is left on this host or in its control group",
        config->peer_rank);
  return gli_fail(error,
                  gli_is_exhaustion(code) ? gli_exhaustion_status(code)
                                          : GLOO_ERR_NO_MEMORY,
                  -1, "no shared memory for rank %" PRIu32 ": %s: %s",
                  config->peer_rank, what, gli_exhaustion_text(code));
}

gloo_status gli_shm_pair_open(gli_transport *base,
                              const gli_pair_config *config, gli_pair **pair,
                              gloo_error *error) {
  gli_shm *t = (gli_shm *)base;
  gli_shm_endpoint peer;
  if (!gli_shm_endpoint_decode(&config->address, &peer))
    return gli_fail(error, GLOO_ERR_ADDRESS, (int)config->peer_rank,
                    "rank %" PRIu32
                    " published an invalid shared memory address; all ranks "
                    "must use the same transport",
                    config->peer_rank);
  const char *apart = gli_shm_endpoint_unreachable(&t->here, &peer);
  if (apart != NULL)
    return gli_fail(
        error, GLOO_ERR_ADDRESS, (int)config->peer_rank,
        "cannot reach rank %" PRIu32
        " through shared memory: it %s; use the transport auto or tcp",
        config->peer_rank, apart);
  gli_shm_pair *made = calloc(1, sizeof *made);
  if (made == NULL) return no_ring(config, ENOMEM, "", error);
  made->peer.checked = t->here.checksum || peer.checksum;
  made->peer.base.ops =
      made->peer.checked ? &gli_transport_shm_checked : &gli_transport_shm;
  made->out.checked = made->peer.checked;
  made->t = t;
  made->there = peer;
  made->watch.fd = made->out.fd = -1;
  gloo_status status = gli_peer_init(&made->peer, &t->peers, config, error);
  if (status != GLOO_OK) {
    free(made);
    return status;
  }
  const char *what = "";
  int code = t->reading.single_copy == GLI_SHM_READ_NEVER
                 ? 0
                 : gli_random(&made->proof, sizeof made->proof, &what);
  if (code == 0) code = make_ring(made, &what);
  if (code != 0) {
    gli_wipe(&made->peer.key, sizeof made->peer.key);
    free(made);
    return no_ring(config, code, what, error);
  }
  t->connecting++;
  gli_peer_add(&made->peer);
  *pair = &made->peer.base;
  return GLOO_OK;
}

/* ---- states -------------------------------------------------------------- */

static bool is_up_or_ended(gli_shm_state state) {
  return state == GLI_SHM_UP || state == GLI_SHM_ENDED;
}

/* A pair that is not connected yet owes the records in its ring, because the
 * peer gets the ring with the connection. */
void gli_shm_update_undelivered(gli_shm_pair *pair) {
  bool in_ring = !is_up_or_ended(pair->state) && pair->out.next != 0;
  bool owes = in_ring || pair->peer.closed || pair->peer.to_report;
  gli_mark_undelivered(&pair->t->peers.base, &pair->peer.base, owes);
}

static void leave_up(gli_shm_pair *pair) {
  gli_shm *t = pair->t;
  uv_mutex_lock(&t->up_lock);
  size_t i = 0;
  while (t->up[i] != pair) i++;
  t->up[i] = t->up[--t->n_up];
  t->spread_for = -1;
  uv_mutex_unlock(&t->up_lock);
}

static bool room_up(gli_shm *t) {
  if (t->n_up < t->up_capacity) return true;
  size_t capacity = t->up_capacity * 2 + 8;
  gli_shm_pair **more = realloc(t->up, capacity * sizeof(gli_shm_pair *));
  if (more == NULL) return false;
  t->up = more;
  t->up_capacity = capacity;
  return true;
}

static bool enter_up(gli_shm_pair *pair) {
  gli_shm *t = pair->t;
  uv_mutex_lock(&t->up_lock);
  bool room = room_up(t);
  if (room) t->up[t->n_up++] = pair;
  t->spread_for = -1;
  uv_mutex_unlock(&t->up_lock);
  return room;
}

void gli_shm_set_state(gli_shm_pair *pair, gli_shm_state state) {
  if (pair->state == state) return;
  if (pair->state == GLI_SHM_UP) leave_up(pair);
  if (is_up_or_ended(state) && !is_up_or_ended(pair->state))
    pair->t->connecting--;
  pair->state = state;
  pair->peer.up = state == GLI_SHM_UP && enter_up(pair);
  gli_shm_update_undelivered(pair);
  if (state != GLI_SHM_UP || pair->peer.up) return;
  pair->state = GLI_SHM_ENDED;
  gli_peer_fail_resource(&pair->peer, ENOMEM);
}

bool gli_shm_pair_up(const gli_pair *base) {
  const gli_shm_pair *pair = (const gli_shm_pair *)base;
  return pair->state == GLI_SHM_UP;
}

/* ---- ending -------------------------------------------------------------- */

void gli_shm_pair_end(gli_transport_peer *peer) {
  gli_shm_pair *pair = (gli_shm_pair *)peer;
  gli_shm_set_state(pair, GLI_SHM_ENDED);
  gli_watch_close(&pair->watch);
}

void gli_shm_pair_dispose(gli_shm_pair *pair) {
  gli_shm_pair_end(&pair->peer);
  gli_request_free_all(&pair->queue);
  pair->peer.to_report = false;
  gli_wipe(&pair->peer.key, sizeof pair->peer.key);
  gli_mark_undelivered(&pair->t->peers.base, &pair->peer.base, false);
  pair->t->peers.to_report = true;
  gli_peer_move(&pair->peer, &pair->t->peers.garbage);
}

void gli_shm_free_garbage(gli_shm *t) {
  while (t->peers.garbage != NULL) {
    gli_shm_pair *pair = (gli_shm_pair *)t->peers.garbage;
    t->peers.garbage = pair->peer.next;
    t->memory_bytes -= pair->out.bytes;
    gli_shm_memory_drop(pair->out.memory, pair->out.bytes);
    gli_shm_memory_drop(pair->in.memory, pair->in.bytes);
    gli_shm_memory_drop(pair->peer_page, GLI_SHM_PAGE_BYTES);
    gli_shm_map_cache_empty(&pair->map_cache);
    free(pair->announced);
    gli_sealed_close(pair->out.fd);
    free(pair);
  }
}

void gli_shm_tidy(gli_shm *t) {
  gli_peers_report(&t->peers);
  gli_shm_free_garbage(t);
}
