#include "engine/contexts/settings.h"

#include <stdlib.h>

#include "engine/state/context.h"
#include "engine/state/device.h"

void gli_context_set_hosts(gloo_context *context, gli_hosts *hosts,
                           gli_subscription oversubscribed) {
  context->oversubscribed = oversubscribed;
  gli_hosts_free(context->hosts);
  context->hosts = hosts->n > 1 ? hosts : NULL;
  if (hosts->n == 1) gli_hosts_free(hosts);
}

const gli_hosts *gli_context_hosts(const gloo_context *context) {
  return context->hosts;
}

void gli_context_set_tuning(gloo_context *context, gli_tuning *tuning) {
  free(context->tuning);
  context->tuning = tuning;
  context->choices = 0;
  if (tuning == NULL) return;
  uint64_t hash = tuning->hash ^ tuning->hash >> 32;
  hash ^= hash >> 16;
  uint8_t choices = (uint8_t)(hash ^ hash >> 8);
  context->choices = choices != 0 ? choices : 1;
}

const gli_tuning *gli_context_tuning(const gloo_context *context) {
  return context->tuning;
}

gli_subscription gli_context_oversubscribed(const gloo_context *context) {
  return context->oversubscribed;
}

void gli_context_promise_buffers(gloo_context *context) {
  context->buffers_promised = true;
}

/* Sets `maps` if each pair of consecutive ranks on a host can share memory. */
void gli_context_learn_locality(gloo_context *context) {
  const gli_transport_ops *ops = context->device->ops;
  const gli_hosts *hosts = context->hosts;
  context->maps = ops->maps != NULL;
  for (uint32_t i = 1; i < context->size && context->maps; i++) {
    uint32_t a = hosts != NULL ? hosts->ranks[i - 1] : i - 1;
    uint32_t b = hosts != NULL ? hosts->ranks[i] : i;
    if (hosts != NULL && hosts->of[a] != hosts->of[b]) continue;
    context->maps =
        ops->maps(&context->contacts[a].address, &context->contacts[b].address);
  }
}

gli_locality gli_context_locality(const gloo_context *context) {
  if (!context->maps) return GLI_INTER_NODE;
  return context->buffers_promised ? GLI_MAPPED : GLI_INTRA_NODE;
}

/* ---- ranks --------------------------------------------------------------- */

uint32_t gli_context_root_rank(const gloo_context *context, uint32_t rank) {
  return context->peers[rank].rank;
}

uint32_t gli_context_rank_of(const gloo_context *context, uint32_t root_rank) {
  if (gli_context_is_root(context)) {
    return root_rank < context->size ? root_rank : GLI_NO_RANK;
  }
  for (uint32_t i = 0; i < context->size; i++) {
    if (context->peers[i].rank == root_rank) return i;
  }
  return GLI_NO_RANK;
}

void gli_context_localize(const gloo_context *context, gloo_error *error) {
  if (error->root_rank < 0 || gli_context_is_root(context)) return;
  uint32_t rank = gli_context_rank_of(context, (uint32_t)error->root_rank);
  error->rank = rank == GLI_NO_RANK ? -1 : (int)rank;
}

uint32_t gli_context_rank_since(const gloo_context *from, uint32_t root_rank,
                                const gloo_context *to) {
  const gloo_context *root = to->family->root;
  if (root->origin == NULL || root->origin_key != from->family->root->key)
    return GLI_NO_RANK;
  for (uint32_t i = 0; i < root->size; i++)
    if (root->origin[i] == root_rank) return i;
  return GLI_NO_RANK;
}

bool gli_context_related(const gloo_context *a, const gloo_context *b) {
  return a->family == b->family;
}

uint32_t gli_group_id(const gloo_context *group) {
  return group->id;
}
