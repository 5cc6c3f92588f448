/* Memory of contexts. */
#include <stdlib.h>

#include "core/wipe.h"
#include "engine/contexts/contexts.h"
#include "engine/life/life.h"

/* Steps of all cached plans together; a step takes about 80 bytes. */
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

void gli_context_free(gloo_context *context) {
  if (context == NULL) return;
  if (context->cache != NULL) gli_plan_cache_destroy(context->cache);
  gli_hosts_free(context->hosts);
  free(context->tuning);
  free(context->contacts);
  free(context->peers);
  gli_counters_free(&context->counters);
  gli_counters_free(&context->init_runs);
  gli_wipe(context->job_key, sizeof context->job_key);
  free(context);
}
