/* What contexts remember of their operations, as src/api sees it. */
#include <stdlib.h>

#include "core/error.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"

gloo_status gli_context_keep_traces(gloo_context *context, uint64_t kept,
                                    gloo_error *error) {
  gli_trace *trace = gli_trace_new(kept);
  if (trace == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for records of %llu operations",
                    (unsigned long long)kept);
  gli_device_lock(context->device);
  gli_trace *before = context->trace;
  context->family->trace = context->trace = trace;
  gli_device_unlock(context->device);
  free(before);
  return GLOO_OK;
}

gli_snapshot *gli_context_snapshot(gloo_context *context) {
  gli_device_lock(context->device);
  gli_snapshot *snapshot = gli_snapshot_take(context);
  gli_device_unlock(context->device);
  return snapshot;
}

void gli_context_on_failure(gloo_context *context, gli_snapshot_fn function,
                            void *user) {
  gli_device_lock(context->device);
  context->family->on_failure = function;
  context->family->on_failure_user = user;
  gli_device_unlock(context->device);
}
