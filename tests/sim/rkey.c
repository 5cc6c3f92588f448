/* Memory of other ranks in the simulated world: reads through an rkey.
 *
 * An rkey is the number of a grant and an offset. The referenced memory must
 * not change until it has been read; once the owner has closed the pair or
 * died, reads return junk. Only a test that plays the peer gets writable
 * memory: a mapping that must be detached is beyond this world (tests/ranks
 * covers it). */
#include <stdlib.h>
#include <string.h>

#include "core/aligned.h"
#include "internal.h"

#define OFFSET_BITS 40

bool sim_rkey_pack(gli_pair *pair, const void *memory, size_t bytes,
                   gli_access access, uint64_t *rkey) {
  sim_side *side = (sim_side *)pair;
  sim_world *world = side->world;
  bool write = access == GLI_ACCESS_WRITE;
  world->access = (int)access;
  if (bytes == 0 || !side->attached) return false;
  if (write && world->n_windowed >= world->options.exposes) return false;
  if (!sim_chance(world, world->options.rkey_percent)) return false;
  if (write) world->n_windowed++;
  sim_grant *grant = sim_alloc(sizeof *grant);
  *grant =
      (sim_grant){.owner = side,
                  .number = ++world->n_grants,
                  .memory = memory,
                  .bytes = bytes,
                  .digest = sim_digest(memory, bytes),
                  .mapped = world->options.shares > 0 || sim_chance(world, 50),
                  .writable = write,
                  .next = world->grants};
  grant->junk = sim_alloc(bytes);
  memset(grant->junk, 0xee, bytes);
  world->grants = grant;
  *rkey = grant->number << OFFSET_BITS;
  return true;
}

int sim_last_access(const sim_world *world) {
  return world->access;
}

static sim_grant *find(sim_side *reader, uint64_t rkey, size_t bytes) {
  sim_grant *grant = reader->world->grants;
  uint64_t number = rkey >> OFFSET_BITS;
  uint64_t offset = rkey & ((UINT64_C(1) << OFFSET_BITS) - 1);
  while (grant != NULL && grant->number != number) grant = grant->next;
  if (grant == NULL || grant->owner != sim_other(reader)) return NULL;
  bool inside = offset <= grant->bytes && bytes <= grant->bytes - offset;
  return inside ? grant : NULL;
}

static bool is_gone(const sim_grant *grant) {
  return grant->owner->closed || grant->owner->node->dead;
}

static const uint8_t *look(sim_grant *grant) {
  if (is_gone(grant)) return grant->junk;
  if (sim_digest(grant->memory, grant->bytes) != grant->digest) {
    sim_violation(grant->owner->world,
                  "rank %u changed %zu bytes that it shows to rank %u",
                  grant->owner->rank, grant->bytes,
                  sim_other(grant->owner)->rank);
  }
  return grant->memory;
}

static sim_grant *must_find(sim_side *side, uint64_t rkey, size_t bytes) {
  if (side->closed) {
    sim_violation(side->world, "rank %u reads through a pair it has closed",
                  side->rank);
  }
  sim_grant *grant = find(side, rkey, bytes);
  if (grant == NULL) {
    sim_violation(side->world,
                  "rank %u reads %zu bytes at a reference nobody gave it",
                  side->rank, bytes);
  }
  return grant;
}

gloo_status sim_rkey_map(gli_pair *pair, uint64_t rkey, size_t bytes,
                         bool write, void **memory, gloo_error *error) {
  sim_side *side = (sim_side *)pair;
  if (side->world->options.exposes > 0 && !find(side, rkey, bytes)) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)sim_other(side)->rank,
                    "rank %u refers to nothing", sim_other(side)->rank);
  }
  sim_grant *grant = must_find(side, rkey, bytes);
  if (write && !grant->writable) {
    sim_violation(side->world, "rank %u wants to write where it may not",
                  side->rank);
  }
  if (write) {
    *memory = (void *)(uintptr_t)grant->memory;
    return GLOO_OK;
  }
  *memory = grant->mapped ? (void *)(uintptr_t)look(grant) : NULL;
  return GLOO_OK;
}

gloo_status sim_get(gli_pair *pair, uint64_t rkey, void *dst, size_t bytes,
                    gloo_error *error) {
  sim_side *side = (sim_side *)pair;
  sim_grant *grant = must_find(side, rkey, bytes);
  if (is_gone(grant) && sim_chance(side->world, 50)) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)grant->owner->rank,
                    "there is no memory any more where rank %u had some",
                    grant->owner->rank);
  }
  uint64_t offset = rkey & ((UINT64_C(1) << OFFSET_BITS) - 1);
  memcpy(dst, look(grant) + offset, bytes);
  return GLOO_OK;
}

bool sim_revoked(gli_pair *pair) {
  sim_side *owner = sim_other((sim_side *)pair);
  return owner->closed || owner->node->dead;
}

gli_shared_copy *sim_shared_copy(gli_pair *pair, bool sends) {
  sim_side *side = (sim_side *)pair;
  if (sends) side = sim_other(side);
  if (side->shared_copy == NULL) {
    size_t bytes = GLI_SHARED_COPIES * sizeof *side->shared_copy;
    side->shared_copy = gli_aligned_alloc(_Alignof(gli_shared_copy), bytes);
    if (side->shared_copy == NULL) abort();
    memset(side->shared_copy, 0, bytes);
  }
  return side->shared_copy;
}

void sim_shared_copy_asked(sim_side *side, const gli_header *header) {
  gli_shared_copy *copy = &side->shared_copy[header->slot % GLI_SHARED_COPIES];
  uint64_t seen = atomic_load(&copy->claimed);
  uint32_t piece;
  for (uint32_t i = 0; i < side->world->options.shares; i++) {
    gli_shared_copy_claim_back(copy, &seen, UINT16_MAX, &piece);
  }
}

void sim_free_grants(sim_world *world) {
  while (world->grants != NULL) {
    sim_grant *grant = world->grants;
    world->grants = grant->next;
    free(grant->junk);
    free(grant);
  }
}
