/* A message there and one back: two operations with one handle. */
#include "api/call_read.h"
#include "core/error.h"

/* Returns true if a send reads what the receive overwrites. A send that copies
 * first may overlap. */
static bool exchange_collide(const gli_arguments *send,
                             const gli_arguments *recv) {
  if (send->side == GLI_SENDS_COPY) return false;
  uint64_t elem = gloo_dtype_size(send->dtype);
  return gli_overlap(send->input, send->count * elem, recv->output,
                     recv->count * elem);
}

/* Both are fine by themselves. What is sent comes first: it may have to be
 * copied before something is received there. */
static gloo_status exchange_join(gloo_context *context,
                                 const gli_arguments *send,
                                 const gli_arguments *recv,
                                 gloo_request *sending, gloo_request *receiving,
                                 gloo_error *error) {
  if (!exchange_collide(send, recv)) {
    gli_operation_join(sending, receiving);
    return GLOO_OK;
  }
  gli_fail(error, GLOO_ERR_BUFFER, -1,
           "%s: input and output overlap; use GLOO_IN_PLACE or buffers that do "
           "not",
           send->function);
  return gli_context_refuse(context, error);
}

static gloo_status exchange_make(gloo_context *context,
                                 const gli_arguments *send,
                                 const gli_arguments *recv,
                                 const gloo_options *options,
                                 gloo_request **request, gloo_error *error) {
  static const gli_arguments nothing = {.collective = GLI_SENDRECV,
                                        .function = "gloo_sendrecv",
                                        .side = GLI_NEITHER};
  if (request == NULL) return gli_call_no_place("gloo_sendrecv", error);
  if (send == NULL || recv == NULL) {
    const gli_arguments *one = send != NULL ? send : recv;
    return gli_call_init(context, one != NULL ? one : &nothing, options,
                         request, error);
  }
  gloo_request *receiving, *sending;
  gloo_status status = gli_call_init(context, recv, options, &receiving, error);
  if (status != GLOO_OK) return status;
  status = gli_call_init(context, send, options, &sending, error);
  if (status == GLOO_OK) {
    status = exchange_join(context, send, recv, sending, receiving, error);
    if (status != GLOO_OK) gloo_request_destroy(sending);
  }
  if (status == GLOO_OK) {
    *request = sending;
  } else {
    gloo_request_destroy(receiving);
  }
  return status;
}

gloo_status gli_exchange_init(gloo_context *context, const gli_arguments *send,
                              const gli_arguments *recv,
                              const gloo_options *options,
                              gloo_request **request, gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  return exchange_make(context, send, recv, options, request, error);
}

gloo_status gli_exchange_start(gloo_context *context, const gli_arguments *send,
                               const gli_arguments *recv,
                               const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  gloo_request *op;
  if (request == NULL) return gli_call_no_place("gloo_sendrecv", error);
  gloo_status status =
      gli_exchange_init(context, send, recv, options, &op, error);
  if (status != GLOO_OK) return status;
  return gli_call_launch(op, request, error);
}

gloo_status gli_exchange_run(gloo_context *context, const gli_arguments *send,
                             const gli_arguments *recv,
                             const gloo_options *options, gloo_error *error) {
  gloo_request *op;
  gloo_status status =
      gli_exchange_start(context, send, recv, options, &op, error);
  if (status != GLOO_OK) return status;
  status = gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, error);
  gloo_request_destroy(op);
  return status;
}
