/* A message there and one back: two operations with one handle. */
#include "api/call_read.h"
#include "core/error.h"
#include "core/options.h"

static gloo_status exchange_refuse(gloo_context *context,
                                   const gloo_options *ours,
                                   const gloo_error *error) {
  if (ours->error != NULL) *ours->error = *error;
  return gli_context_refuse(context, error);
}

/* What is copied before it is sent may be where something is received. */
static bool exchange_collide(const gli_arguments *send,
                             const gli_arguments *recv) {
  if (send->side == GLI_SENDS_COPY) return false;
  uint64_t elem = gloo_dtype_size(send->dtype);
  return gli_overlap(send->input, send->count * elem, recv->output,
                     recv->count * elem);
}

/* Both are fine by themselves. */
static gloo_status exchange_join(
    gloo_context *context, const gli_arguments *send, const gli_arguments *recv,
    const gloo_options *ours, gloo_request *sending, gloo_request *receiving) {
  if (!exchange_collide(send, recv)) {
    gli_operation_join(receiving, sending);
    return GLOO_OK;
  }
  gloo_error error;
  gli_fail(&error, GLOO_ERR_INVALID, -1,
           "%s: input and output overlap; use GLOO_IN_PLACE or buffers that do "
           "not",
           send->function);
  return exchange_refuse(context, ours, &error);
}

static gloo_status exchange_make(gloo_context *context,
                                 const gli_arguments *send,
                                 const gli_arguments *recv,
                                 const gloo_options *options,
                                 gloo_options *ours, gloo_request **request) {
  static const gli_arguments nothing = {.collective = GLI_SENDRECV,
                                        .function = "gloo_sendrecv",
                                        .side = GLI_NEITHER};
  if (context == NULL || request == NULL) return GLOO_ERR_INVALID;
  gloo_error error;
  gloo_status status =
      gli_options_load(ours, sizeof *ours, options, "gloo_options", &error);
  if (status != GLOO_OK) return exchange_refuse(context, ours, &error);
  if (recv == NULL) {
    return gli_call_init(context, send != NULL ? send : &nothing, options,
                         request);
  }
  gloo_request *receiving, *sending = NULL;
  status = gli_call_init(context, recv, options, &receiving);
  if (status != GLOO_OK) return status;
  if (send != NULL) {
    status = gli_call_init(context, send, options, &sending);
    if (status == GLOO_OK) {
      status = exchange_join(context, send, recv, ours, sending, receiving);
      if (status != GLOO_OK) gloo_request_destroy(sending);
    }
  }
  if (status == GLOO_OK) {
    *request = receiving;
  } else {
    gloo_request_destroy(receiving);
  }
  return status;
}

gloo_status gli_exchange_init(gloo_context *context, const gli_arguments *send,
                              const gli_arguments *recv,
                              const gloo_options *options,
                              gloo_request **request) {
  gloo_options ours;
  return exchange_make(context, send, recv, options, &ours, request);
}

gloo_status gli_exchange_start(gloo_context *context, const gli_arguments *send,
                               const gli_arguments *recv,
                               const gloo_options *options,
                               gloo_request **request) {
  gloo_options ours;
  gloo_request *op;
  if (request == NULL) return GLOO_ERR_INVALID;
  gloo_status status = exchange_make(context, send, recv, options, &ours, &op);
  if (status != GLOO_OK) return status;
  return gli_call_launch(op, ours.error, request);
}

gloo_status gli_exchange_run(gloo_context *context, const gli_arguments *send,
                             const gli_arguments *recv,
                             const gloo_options *options) {
  gloo_options ours;
  gloo_request *op;
  gloo_status status = exchange_make(context, send, recv, options, &ours, &op);
  if (status != GLOO_OK) return status;
  status = gli_call_launch(op, ours.error, &op);
  if (status != GLOO_OK) return status;
  status = gloo_request_wait(op);
  if (status != GLOO_OK && ours.error != NULL)
    gloo_request_error(op, ours.error);
  gloo_request_destroy(op);
  return status;
}
