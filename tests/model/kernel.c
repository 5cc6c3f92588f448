#include "kernel.h"

#include <string.h>

#include "core/fork.h"
#include "memory/sealed.h"
#include "model.h"
#include "transport_shm/memory.h"
#include "transport_shm/system.h"

struct gli_events {
  int process;
};
static gli_events sets[2] = {{0}, {1}};

static void host_update_undelivered(gli_transport_peer *peer) {
  gli_shm_update_undelivered((gli_shm_pair *)peer);
}

static void host_due(gli_transport_peer *peer, uint64_t now_ns) {
  if (peer->closed) gli_shm_linger_check((gli_shm_pair *)peer, now_ns);
}

static void host_dispose(gli_transport_peer *peer) {
  gli_shm_pair_dispose((gli_shm_pair *)peer);
}

static const gli_peer_kind host_peers = {
    .without = "no shared memory with rank",
    .due = host_due,
    .update_undelivered = host_update_undelivered,
    .end = gli_shm_pair_end,
    .dispose = host_dispose,
};
static const gli_transport_ops host_ops = {.wake = gli_shm_wake};

/* Runs without locks: the model never forks, and its threads take turns. */
void gli_once(atomic_bool *done, void (*init)(void)) {
  if (!*done) init();
  *done = true;
}

void host_set_up(host *h, int process, gli_shm_page *pages[2],
                 const gli_upcalls *upcalls) {
  h->t.peers.base.ops = &host_ops;
  h->t.peers.kind = &host_peers;
  h->t.peers.upcalls = upcalls;
  h->t.peers.base.owed = &h->owed;
  h->t.page = pages[process];
  h->t.page_fd = -1;
  h->t.events = &sets[process];
  h->t.bell =
      (gli_watch){.fd = process, .ready = gli_shm_bell_ready, .owner = &h->t};
  h->t.ringer = process;
  h->t.up = h->up;
  h->t.n_up = h->t.up_capacity = 1;
  h->up[0] = &h->pair;
  h->pair.peer.set = &h->t.peers;
  h->t.peers.pairs = &h->pair.peer;
  h->pair.peer.link = &h->t.peers.pairs;
  h->pair.t = &h->t;
  h->pair.watch = (gli_watch){.fd = LIVENESS + process,
                              .ready = gli_shm_liveness_ready,
                              .owner = &h->pair};
  h->pair.state = GLI_SHM_UP;
  h->pair.peer.live = h->pair.peer.up = h->pair.peer.greeted = true;
  h->pair.peer_page = pages[1 - process];
  h->pair.peer.config.self_rank = (uint32_t)process;
  h->pair.peer.config.peer_rank = (uint32_t)(1 - process);
}

/* ---- the kernel ---------------------------------------------------------- */

int gli_events_poll(gli_events *set) {
  host *h = host_of_thread();
  unsigned found = model_look(set->process);
  bool rung = (found & MODEL_RUNG) != 0;
  bool spoke = (found & (MODEL_HUNG_UP | MODEL_NOTED)) != 0;
  if (rung) h->t.bell.ready(h->t.bell.owner, GLI_READABLE);
  if (spoke && h->pair.watch.fd >= 0)
    h->pair.watch.ready(h->pair.watch.owner, GLI_READABLE);
  return rung + spoke;
}

int gli_events_fd(const gli_events *set) {
  return set->process;
}

void gli_watch_close(gli_watch *watch) {
  if (watch->fd >= LIVENESS) model_hang_up();
  watch->fd = -1;
}

void gli_sleep_add(gli_sleep *sleep, int fd, uint64_t due_ns) {
  (void)due_ns; /* no time passes */
  sleep->fd[sleep->fds++] = fd;
}

void gli_sleep_wait(const gli_sleep *sleep, uint64_t now_ns,
                    int64_t timeout_ns) {
  (void)now_ns, (void)timeout_ns;
  model_wait(sleep->fd[0], host_of_thread()->pair.watch.fd >= 0);
}

void gli_shm_bell_ring(int ringer) {
  model_bell_ring(ringer);
}

void gli_shm_bell_quiet(int fd) {
  model_bell_quiet(fd);
}

/* Rings through the liveness socket, whose number is that of the process at
 * this end. */
void gli_shm_note_ring(int socket) {
  model_bell_ring(MODEL_NOTES + (1 - (socket - LIVENESS)));
}

int model_close(int fd) {
  if (fd >= LIVENESS) model_hang_up();
  return 0;
}

uint64_t uv_hrtime(void) {
  return 1;
}

/* Locks the endpoint's mutex; in a process with one thread it is always
 * free. */
void uv_mutex_lock(uv_mutex_t *mutex) {
  if (model_is_shared(mutex)) model_lock(UP_LOCK);
}

void uv_mutex_unlock(uv_mutex_t *mutex) {
  if (model_is_shared(mutex)) model_unlock(UP_LOCK);
}

void *model_malloc(size_t bytes) {
  heap *h = heap_of_thread();
  size_t at = (h->used + 15) / 16 * 16;
  model_check(bytes <= HEAP_BYTES - at, "the heap is too small");
  h->used = at + bytes;
  return h->bytes + at;
}

void model_free(void *memory) {
  (void)memory;
}

/* ---- connections --------------------------------------------------------- */

/* Handles the liveness socket, on which the peer sends only RING, and finally
 * hangs up. */
bool gli_shm_pair_ready(gli_shm_pair *pair) {
  int process = pair->watch.fd - LIVENESS;
  if ((model_look(process) & MODEL_NOTED) != 0) {
    model_bell_quiet(MODEL_NOTES + process);
    gli_shm_ring_received(pair->t);
    return true;
  }
  pair->peer.peer_closed = true;
  gli_watch_close(&pair->watch);
  return true;
}

static void never(void) {
  model_check(false, "it goes beyond the scene");
}

void gli_shm_half_open_due(gli_shm *t, uint64_t now_ns) {
  (void)t, (void)now_ns;
  never();
}

void gli_shm_begin(gli_shm_pair *pair) {
  (void)pair;
  never();
}

void gli_shm_copy(gli_store_policy *copier, void *dst, const void *src,
                  size_t bytes) {
  (void)copier, (void)dst, (void)src, (void)bytes;
  never(); /* chunks are short */
}

void gli_shm_forget_freed(gli_shm *t) {
  (void)t;
}

void gli_shm_map_cache_empty(gli_shm_map_cache *map_cache) {
  (void)map_cache;
}

int gli_shm_memory_grow(int fd, void *memory, size_t from, size_t until,
                        bool must) {
  (void)fd, (void)memory, (void)from, (void)until, (void)must;
  return 1; /* out of memory */
}

void gli_shm_memory_drop(void *memory, size_t bytes) {
  (void)memory, (void)bytes;
}

void gli_sealed_close(int fd) {
  (void)fd;
}
