/* A rank that consists of its structs alone, for parts of the engine that need
 * no open device, lock or transport. */
#ifndef GLI_TESTS_ENGINE_BARE_H
#define GLI_TESTS_ENGINE_BARE_H

#include <stdlib.h>
#include <string.h>

#include "engine/state/context.h"
#include "engine/state/device.h"
#include "engine/state/link.h"
#include "engine/state/operation.h"

/* Its links go to itself (0) and to the ranks 1 ... of its context. In the root
 * context these have other numbers. */
enum { BARE_SIZE = 4 };
static const uint32_t bare_root_ranks[BARE_SIZE] = {0, 2, 3, 1};

typedef struct bare {
  gloo_device device;
  gli_family family;
  gloo_context context;
  gli_peer peers[BARE_SIZE];
  gli_link links[BARE_SIZE];
} bare;

static inline void bare_begin(bare *b) {
  memset(b, 0, sizeof *b);
  b->family.root = &b->context;
  b->context.device = &b->device;
  b->context.family = &b->family;
  b->context.size = BARE_SIZE;
  b->family.totals = gli_totals_new(BARE_SIZE);
  b->family.trace = b->context.trace = gli_trace_new(0);
  b->context.peers = b->peers;
  for (uint32_t i = 0; i < BARE_SIZE; i++) {
    gli_link *link = &b->links[i];
    link->context = &b->context;
    link->group.base = link;
    link->local = i;
    link->rank = bare_root_ranks[i];
    link->self = i == 0;
    b->peers[i] = (gli_peer){.link = link, .rank = link->rank};
  }
}

static inline void bare_end(bare *b) {
  gli_trace_free(b->family.trace);
  free(b->family.totals);
  gli_counters_free(&b->context.counters);
  for (uint32_t i = 0; i < BARE_SIZE; i++) {
    gli_counters_free(&b->links[i].sent);
    gli_counters_free(&b->links[i].found);
  }
  gli_early_free_pools(&b->device);
  gli_transfer_free_pool(&b->device);
}

#endif
