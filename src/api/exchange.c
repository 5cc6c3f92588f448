/* A message there and one back: two operations with one handle. */
#include "api/call_read.h"
#include "core/error.h"
#include "core/options.h"

static gloo_status refuse(gloo_context *context, const gloo_options *ours,
                          const gloo_error *error) {
  if (ours->error) *ours->error = *error;
  return gli_context_refuse(context, error);
}

/* What is copied before it is sent may be where something is received. */
static bool collide(const gli_arguments *send, const gli_arguments *recv) {
  if (send->side == GLI_SENDS_COPY) return false;
  uint64_t elem = gloo_dtype_size(send->dtype);
  return gli_overlap(send->input, send->count * elem, recv->output,
                     recv->count * elem);
}

/* Both are fine by themselves. */
static gloo_status join(gloo_context *context, const gli_arguments *send,
                        const gli_arguments *recv, const gloo_options *ours,
                        gloo_operation *sending, gloo_operation *receiving) {
  if (!collide(send, recv)) {
    gli_operation_join(receiving, sending);
    return GLOO_OK;
  }
  gloo_error error;
  gli_fail(&error, GLOO_ERR_INVALID, -1,
           "%s: input and output overlap; use GLOO_IN_PLACE or buffers that do "
           "not",
           send->function);
  return refuse(context, ours, &error);
}

static gloo_status make(gloo_context *context, const gli_arguments *send,
                        const gli_arguments *recv, const gloo_options *options,
                        gloo_options *ours, gloo_operation **operation) {
  static const gli_arguments nothing = {.collective = GLI_SENDRECV,
                                        .function = "gloo_sendrecv",
                                        .side = GLI_NEITHER};
  if (!context || !operation) return GLOO_ERR_INVALID;
  gloo_error error;
  gloo_status status =
      gli_options_load(ours, sizeof *ours, options, "gloo_options", &error);
  if (status != GLOO_OK) return refuse(context, ours, &error);
  if (!recv) {
    return gli_call_init(context, send ? send : &nothing, options, operation);
  }
  gloo_operation *receiving, *sending = NULL;
  status = gli_call_init(context, recv, options, &receiving);
  if (status != GLOO_OK) return status;
  if (send) {
    status = gli_call_init(context, send, options, &sending);
    if (status == GLOO_OK) {
      status = join(context, send, recv, ours, sending, receiving);
      if (status != GLOO_OK) gloo_operation_destroy(sending);
    }
  }
  if (status == GLOO_OK) {
    *operation = receiving;
  } else {
    gloo_operation_destroy(receiving);
  }
  return status;
}

gloo_status gli_exchange_init(gloo_context *context, const gli_arguments *send,
                              const gli_arguments *recv,
                              const gloo_options *options,
                              gloo_operation **operation) {
  gloo_options ours;
  return make(context, send, recv, options, &ours, operation);
}

gloo_status gli_exchange_start(gloo_context *context, const gli_arguments *send,
                               const gli_arguments *recv,
                               const gloo_options *options,
                               gloo_operation **operation) {
  gloo_options ours;
  gloo_operation *op;
  if (!operation) return GLOO_ERR_INVALID;
  gloo_status status = make(context, send, recv, options, &ours, &op);
  if (status != GLOO_OK) return status;
  return gli_call_launch(op, ours.error, operation);
}

gloo_status gli_exchange_run(gloo_context *context, const gli_arguments *send,
                             const gli_arguments *recv,
                             const gloo_options *options) {
  gloo_options ours;
  gloo_operation *op;
  gloo_status status = make(context, send, recv, options, &ours, &op);
  if (status != GLOO_OK) return status;
  status = gli_call_launch(op, ours.error, &op);
  if (status != GLOO_OK) return status;
  status = gloo_operation_wait(op);
  if (status != GLOO_OK && ours.error) gloo_operation_error(op, ours.error);
  gloo_operation_destroy(op);
  return status;
}
