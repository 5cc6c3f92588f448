/* Memory of contexts. */
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "engine/contexts/contexts.h"
#include "engine/life/life.h"
#include "engine/state/device.h"
#include "engine/wire/wire.h"

/* The limit of the steps of all cached plans together; a step takes about 80
 * bytes. */
enum { CACHED_STEPS = 1 << 18 };

gloo_context *gli_context_new(gloo_device *device, uint32_t size) {
  gloo_context *context = calloc(1, sizeof *context);
  if (context == NULL) return NULL;
  context->cache = gli_plan_cache_create(CACHED_STEPS, gli_operation_free_pool);
  context->peers = calloc(size > 0 ? size : 1, sizeof *context->peers);
  context->device = device;
  context->size = size;
  if (context->cache != NULL && context->peers != NULL) return context;
  gli_context_free(context);
  return NULL;
}

static uint32_t budget_for(uint32_t size) {
  uint32_t each = GLI_EAGER_BUDGET_ALL / size;
  if (each > GLI_EAGER_BUDGET_MAX) return GLI_EAGER_BUDGET_MAX;
  return each < GLI_EAGER_BUDGET_MIN ? GLI_EAGER_BUDGET_MIN : each;
}

gloo_context *gli_context_new_root(gloo_device *device, uint32_t rank,
                                   uint32_t size, uint64_t key,
                                   const uint8_t *job_key) {
  gloo_context *context = gli_context_new(device, size);
  if (context == NULL) return NULL;
  context->contacts = calloc(size, sizeof *context->contacts);
  context->family = calloc(1, sizeof *context->family);
  if (context->contacts == NULL || context->family == NULL) goto no_memory;
  context->family->trace = context->trace = gli_trace_new(GLI_TRACE_USUAL);
  context->family->totals = gli_totals_new(size);
  if (context->trace == NULL || context->family->totals == NULL) goto no_memory;
  for (uint32_t i = 0; i < size; i++) context->peers[i].rank = i;
  context->family->root = context;
  context->rank = context->root_rank = rank;
  context->key = key;
  context->asks = job_key != NULL;
  if (context->asks) memcpy(context->job_key, job_key, sizeof context->job_key);
  context->budget = budget_for(size);
  context->maps = device->ops->rkey_pack != NULL; /* until more is known */
  context->next = device->contexts;
  device->contexts = context;
  return context;

no_memory:
  if (context->family != NULL) {
    gli_trace_free(context->family->trace);
    free(context->family->totals);
  }
  free(context->family);
  gli_context_free(context);
  return NULL;
}

void gli_context_free(gloo_context *context) {
  if (context == NULL) return;
  if (context->cache != NULL) gli_plan_cache_destroy(context->cache);
  gli_hosts_free(context->hosts);
  free(context->tuning);
  free(context->contacts);
  free(context->peers);
  free(context->origin);
  gli_counters_free(&context->counters);
  gli_counters_free(&context->init_runs);
  gli_wipe(context->job_key, sizeof context->job_key);
  free(context);
}
