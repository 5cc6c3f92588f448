/* Calls from src/api. */
#include "engine/contexts/settings.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/life/life.h"
#include "engine/state/fail.h"
#include "memory/gpu.h"

/* Creates and begins an operation. A failure to begin is recorded as a refused
 * call. */
static gloo_status make_and_begin(gloo_context *context, const gli_call *call,
                                  gli_operation **out, gloo_error *error) {
  gloo_status status = gli_operation_make(context, call, out, error);
  if (status != GLOO_OK) gli_context_note_refused(context, error);
  return status;
}

gloo_status gli_operation_prepare(gloo_context *context, const gli_call *call,
                                  gli_operation **operation,
                                  gloo_error *error) {
  gli_device_lock(context->device);
  gloo_status status = make_and_begin(context, call, operation, error);
  if (status != GLOO_OK) gli_context_localize(context, error);
  gli_device_unlock(context->device);
  return status;
}

static gloo_status call_complete(gli_operation *op, int *source,
                                 gloo_error *error) {
  gloo_status status = gli_operation_begin(op, true, error);
  gli_device_settle(op->device);
  if (status != GLOO_OK) return status;
  if (!gli_operation_is(op, GLI_OPERATION_DONE))
    gli_device_wait(op->device, op);
  status = op->error.status;
  if (status != GLOO_OK) *error = op->error;
  if (status == GLOO_OK && source != NULL) *source = op->p2p.source;
  return status;
}

gloo_status gli_operation_run(gloo_context *context, const gli_call *call,
                              const gli_repeated_call *remembered, int *source,
                              gloo_error *error) {
  gloo_device *device = context->device;
  gli_operation *op = NULL;
  gli_device_lock(device);
  gloo_status status = make_and_begin(context, call, &op, error);
  if (status == GLOO_OK) {
    status = call_complete(op, source, error);
    gli_repeat_keep(op, status == GLOO_OK ? remembered : NULL);
  }
  if (status != GLOO_OK) gli_context_localize(context, error);
  gli_device_unlock(device);
  if (call->params.staged != 0) gli_pinned_trim();
  return status;
}

/* ---- repeated calls ------------------------------------------------------ */

static void set_buffers(gli_operation *op, const gli_repeat_key *key) {
  op->base[GLI_IN] = (uint8_t *)(uintptr_t)key->input;
  op->base[GLI_OUT] = key->output;
}

gloo_status gli_repeat_run(gloo_context *context, const gli_repeat_key *key,
                           gli_fits_fn fits, const void *arguments, int *source,
                           gloo_error *error) {
  gloo_device *device = context->device;
  gloo_status status = GLOO_IN_PROGRESS;
  gli_device_lock(device);
  gli_repeat *r = gli_repeat_find(context, key);
  if (r != NULL && fits(context, arguments, &r->call)) {
    set_buffers(r->operation, key);
    r->busy = true;
    status = call_complete(r->operation, source, error);
    r->busy = false;
    if (status != GLOO_OK) gli_context_localize(context, error);
  }
  gli_device_unlock(device);
  return status;
}

gli_operation *gli_repeat_prepare(gloo_context *context,
                                  const gli_repeat_key *key, gli_fits_fn fits,
                                  const void *arguments) {
  gli_operation *op = NULL;
  gli_device_lock(context->device);
  const gli_repeat *r = gli_repeat_find(context, key);
  if (r != NULL && fits(context, arguments, &r->call)) {
    op = gli_repeat_like(r->operation);
  }
  if (op != NULL) set_buffers(op, key);
  gli_device_unlock(context->device);
  return op;
}

void gli_repeat_remember(const gli_operation *op,
                         const gli_repeated_call *call) {
  gli_device_lock(op->device);
  gli_repeat_keep_like(op, call);
  gli_device_unlock(op->device);
}
