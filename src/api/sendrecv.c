/* gloo_sendrecv: two concurrent messages, as two operations with one handle. */
#include "api/call_read.h"
#include "core/error.h"
#include "gloo_c/collectives.h"

/* Returns true if a send reads memory that the receive overwrites. A send that
 * copies first may overlap. */
static bool exchange_collide(const gli_arguments *send,
                             const gli_arguments *recv) {
  if (send->side == GLI_SENDS_COPY) return false;
  uint64_t elem = gloo_dtype_size(send->dtype);
  return gli_overlap(send->input, send->count * elem, recv->output,
                     recv->count * elem);
}

/* Joins two valid operations, the send first: it may have to copy its input
 * before the receive overwrites it. */
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

gloo_status gloo_sendrecv_init(gloo_context *context, const void *input,
                               size_t send_count, int to, void *output,
                               size_t recv_count, int from, gloo_dtype dtype,
                               const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  static const gli_arguments nothing = {.function = "gloo_sendrecv",
                                        .collective = GLI_SENDRECV,
                                        .side = GLI_NEITHER};
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (request == NULL) return gli_call_null_request("gloo_sendrecv", error);
  bool sends = to != GLOO_NO_RANK, receives = from != GLOO_NO_RANK;
  bool in_place = input == GLOO_IN_PLACE ||
                  (sends && receives && output != NULL && input == output);
  const gli_arguments send = {.function = "gloo_sendrecv",
                              .collective = GLI_SENDRECV,
                              .side = in_place ? GLI_SENDS_COPY : GLI_SENDS,
                              .input = in_place ? output : input,
                              .count = send_count,
                              .dtype = dtype,
                              .peers = &to,
                              .n_peers = 1};
  const gli_arguments recv = {.function = "gloo_sendrecv",
                              .collective = GLI_SENDRECV,
                              .side = GLI_RECEIVES,
                              .output = output,
                              .count = recv_count,
                              .dtype = dtype,
                              .peers = &from,
                              .n_peers = 1};
  if (sends && receives)
    return exchange_make(context, &send, &recv, options, request, error);
  return gli_call_init(context,
                       sends      ? &send
                       : receives ? &recv
                                  : &nothing,
                       options, request, error);
}

gloo_status gloo_sendrecv_start(gloo_context *context, const void *input,
                                size_t send_count, int to, void *output,
                                size_t recv_count, int from, gloo_dtype dtype,
                                const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  gloo_request *op;
  if (request == NULL) return gli_call_null_request("gloo_sendrecv", error);
  gloo_status status =
      gloo_sendrecv_init(context, input, send_count, to, output, recv_count,
                         from, dtype, options, &op, error);
  if (status != GLOO_OK) return status;
  return gli_call_launch(op, request, error);
}

gloo_status gloo_sendrecv(gloo_context *context, const void *input,
                          size_t send_count, int to, void *output,
                          size_t recv_count, int from, gloo_dtype dtype,
                          const gloo_options *options, gloo_error *error) {
  gloo_request *op;
  gloo_status status =
      gloo_sendrecv_start(context, input, send_count, to, output, recv_count,
                          from, dtype, options, &op, error);
  if (status != GLOO_OK) return status;
  status = gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, error);
  gloo_request_destroy(op);
  return status;
}
