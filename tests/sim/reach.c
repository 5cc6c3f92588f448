/* Memory of other ranks in the simulated world: reading by reference.
 *
 * A reference is the number of a grant and an offset. What is referred to must
 * not change until it has been read; after the owner has closed the pair, or
 * died, junk stands where it was. Only a test that plays the peer gets anything
 * for writing: a mapping that must be cut off is beyond this world (tests/ranks
 * does that). */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define OFFSET_BITS 40

bool sim_refer(gli_pair *pair, const void *memory, size_t bytes, bool write,
               uint64_t *reference) {
  sim_side *side = (sim_side *)pair;
  sim_world *world = side->world;
  if (bytes == 0 || !side->attached) return false;
  if (write && world->n_lent >= world->options.lends) return false;
  if (!sim_chance(world, world->options.refer_percent)) return false;
  if (write) world->n_lent++;
  sim_grant *grant = sim_alloc(sizeof *grant);
  *grant =
      (sim_grant){.owner = side,
                  .number = ++world->n_grants,
                  .memory = memory,
                  .bytes = bytes,
                  .digest = sim_digest(memory, bytes),
                  .mapped = world->options.helps > 0 || sim_chance(world, 50),
                  .writable = write,
                  .next = world->grants};
  grant->junk = sim_alloc(bytes);
  memset(grant->junk, 0xee, bytes);
  world->grants = grant;
  *reference = grant->number << OFFSET_BITS;
  return true;
}

static sim_grant *find(sim_side *reader, uint64_t reference, size_t bytes) {
  sim_grant *grant = reader->world->grants;
  uint64_t number = reference >> OFFSET_BITS;
  uint64_t offset = reference & ((UINT64_C(1) << OFFSET_BITS) - 1);
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

static sim_grant *must_find(sim_side *side, uint64_t reference, size_t bytes) {
  if (side->closed) {
    sim_violation(side->world, "rank %u reads through a pair it has closed",
                  side->rank);
  }
  sim_grant *grant = find(side, reference, bytes);
  if (grant == NULL) {
    sim_violation(side->world,
                  "rank %u reads %zu bytes at a reference nobody gave it",
                  side->rank, bytes);
  }
  return grant;
}

gloo_status sim_reach(gli_pair *pair, uint64_t reference, size_t bytes,
                      bool write, void **memory, gloo_error *error) {
  sim_side *side = (sim_side *)pair;
  if (side->world->options.lends > 0 && !find(side, reference, bytes)) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)sim_other(side)->rank,
                    "rank %u refers to nothing", sim_other(side)->rank);
  }
  sim_grant *grant = must_find(side, reference, bytes);
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

gloo_status sim_fetch(gli_pair *pair, uint64_t reference, void *dst,
                      size_t bytes, gloo_error *error) {
  sim_side *side = (sim_side *)pair;
  sim_grant *grant = must_find(side, reference, bytes);
  if (is_gone(grant) && sim_chance(side->world, 50)) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)grant->owner->rank,
                    "there is no memory any more where rank %u had some",
                    grant->owner->rank);
  }
  uint64_t offset = reference & ((UINT64_C(1) << OFFSET_BITS) - 1);
  memcpy(dst, look(grant) + offset, bytes);
  return GLOO_OK;
}

bool sim_recalled(gli_pair *pair) {
  sim_side *owner = sim_other((sim_side *)pair);
  return owner->closed || owner->node->dead;
}

gli_help *sim_help(gli_pair *pair, bool sends) {
  sim_side *side = (sim_side *)pair;
  if (sends) side = sim_other(side);
  if (side->help == NULL) {
    size_t bytes = GLI_HELPS * sizeof *side->help;
    side->help = aligned_alloc(_Alignof(gli_help), bytes);
    if (side->help == NULL) abort();
    memset(side->help, 0, bytes);
  }
  return side->help;
}

void sim_help_asked(sim_side *side, const gli_header *header) {
  gli_help *help = &side->help[header->slot % GLI_HELPS];
  uint64_t seen = atomic_load(&help->claimed);
  uint32_t piece;
  for (uint32_t i = 0; i < side->world->options.helps; i++) {
    gli_help_claim_also(help, &seen, UINT16_MAX, &piece);
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
