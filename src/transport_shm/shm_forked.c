/* End point in a forked child, which releases it without any effect on peers.
 * The parent also has the set of watches, the bell and the rings. */
#include <stdlib.h>
#include <unistd.h>

#include "memory/sealed.h"
#include "transport_shm/memory.h"
#include "transport_shm/shm.h"

static void close_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static void close_regions(gli_shm_map_cache *map_cache) {
  for (size_t i = 0; i < map_cache->n; i++) close_fd(&map_cache->regions[i].fd);
}

static void close_pairs(gli_transport_peer *list) {
  for (; list != NULL; list = list->next) {
    gli_shm_pair *pair = (gli_shm_pair *)list;
    close_fd(&pair->watch.fd);
    close_fd(&pair->out.fd);
    close_regions(&pair->map_cache);
  }
}

void gli_shm_forked(gli_transport *base) {
  gli_shm *t = (gli_shm *)base;
  close_pairs(t->peers.pairs);
  close_pairs(t->peers.leaving);
  close_pairs(t->peers.garbage);
  for (int i = 0; i < GLI_SHM_HALF_OPEN_MAX; i++)
    close_fd(&t->half_opens[i].watch.fd);
  close_fd(&t->listener.fd);
  if (t->ringer != t->bell.fd) close_fd(&t->ringer);
  close_fd(&t->bell.fd);
  close_fd(&t->page_fd);
  gli_events_abandon(t->events);
}

static void free_pairs(gli_transport_peer *list) {
  while (list != NULL) {
    gli_shm_pair *pair = (gli_shm_pair *)list;
    list = list->next;
    /* Requests of open pairs belong to the engine. */
    if (pair->peer.closed) gli_request_free_all(&pair->queue);
    gli_watch_close(&pair->watch);
    gli_shm_memory_drop(pair->out.memory, pair->out.bytes);
    gli_shm_memory_drop(pair->in.memory, pair->in.bytes);
    gli_shm_memory_drop(pair->peer_page, GLI_SHM_PAGE_BYTES);
    gli_shm_map_cache_empty(&pair->map_cache);
    free(pair->announced);
    gli_wipe(&pair->peer.key, sizeof pair->peer.key);
    free(pair);
  }
}

void gli_shm_abandon(gli_transport *base) {
  gli_shm *t = (gli_shm *)base;
  free_pairs(t->peers.pairs);
  free_pairs(t->peers.leaving);
  free_pairs(t->peers.garbage);
  gli_shm_half_open_close(t);
  gli_watch_close(&t->listener);
  gli_watch_close(&t->bell);
  gli_shm_memory_drop(t->page, GLI_SHM_PAGE_BYTES);
  gli_events_close(t->events);
  free(t->up);
  free(t);
}
