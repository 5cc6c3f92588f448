/* Point-to-point messages. */
#include "api/call.h"
#include "gloo_c/collectives.h"

/* The peer is handed on as a list of one, which must outlive the call. */
static gli_arguments send_arguments(const void *input, size_t count,
                                    gloo_dtype dtype, const int *peer) {
  return (gli_arguments){.collective = GLI_SENDRECV,
                         .function = "gloo_send",
                         .input = input,
                         .count = count,
                         .dtype = dtype,
                         .peers = peer,
                         .n_peers = 1};
}

gloo_status gloo_send(gloo_context *context, const void *input, size_t count,
                      gloo_dtype dtype, int peer, const gloo_options *options,
                      gloo_error *error) {
  gli_arguments a = send_arguments(input, count, dtype, &peer);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_send_start(gloo_context *context, const void *input,
                            size_t count, gloo_dtype dtype, int peer,
                            const gloo_options *options, gloo_request **request,
                            gloo_error *error) {
  gli_arguments a = send_arguments(input, count, dtype, &peer);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_send_init(gloo_context *context, const void *input,
                           size_t count, gloo_dtype dtype, int peer,
                           const gloo_options *options, gloo_request **request,
                           gloo_error *error) {
  gli_arguments a = send_arguments(input, count, dtype, &peer);
  return gli_call_init(context, &a, options, request, error);
}

static gli_arguments recv_arguments(void *output, size_t count,
                                    gloo_dtype dtype, const int *peers,
                                    size_t n_peers) {
  return (gli_arguments){.collective = GLI_SENDRECV,
                         .function = "gloo_recv",
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .side = GLI_RECEIVES,
                         .peers = peers,
                         .n_peers = n_peers};
}

gloo_status gloo_recv(gloo_context *context, void *output, size_t count,
                      gloo_dtype dtype, int peer, const gloo_options *options,
                      gloo_error *error) {
  gli_arguments a = recv_arguments(output, count, dtype, &peer, 1);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_recv_start(gloo_context *context, void *output, size_t count,
                            gloo_dtype dtype, int peer,
                            const gloo_options *options, gloo_request **request,
                            gloo_error *error) {
  gli_arguments a = recv_arguments(output, count, dtype, &peer, 1);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_recv_init(gloo_context *context, void *output, size_t count,
                           gloo_dtype dtype, int peer,
                           const gloo_options *options, gloo_request **request,
                           gloo_error *error) {
  gli_arguments a = recv_arguments(output, count, dtype, &peer, 1);
  return gli_call_init(context, &a, options, request, error);
}

gloo_status gloo_recv_any(gloo_context *context, void *output, size_t count,
                          gloo_dtype dtype, const int *peers, size_t n_peers,
                          const gloo_options *options, int *source,
                          gloo_error *error) {
  gli_arguments a = recv_arguments(output, count, dtype, peers, n_peers);
  return gli_call_run(context, &a, options, source, error);
}
gloo_status gloo_recv_any_start(gloo_context *context, void *output,
                                size_t count, gloo_dtype dtype,
                                const int *peers, size_t n_peers,
                                const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  gli_arguments a = recv_arguments(output, count, dtype, peers, n_peers);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_recv_any_init(gloo_context *context, void *output,
                               size_t count, gloo_dtype dtype, const int *peers,
                               size_t n_peers, const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  gli_arguments a = recv_arguments(output, count, dtype, peers, n_peers);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- both at once -------------------------------------------------------- */

/* The two messages of an exchange, and the ranks that they name. */
typedef struct exchange {
  gli_arguments send, recv;
  const gli_arguments *to, *from; /* NULL: no rank */
  int peers[2];
} exchange;

static void messages_describe(exchange *e, const void *input, size_t send_count,
                              int to, void *output, size_t recv_count, int from,
                              gloo_dtype dtype) {
  bool both = to != GLOO_NO_RANK && from != GLOO_NO_RANK;
  bool in_place =
      input == GLOO_IN_PLACE || (both && output != NULL && input == output);
  e->peers[0] = to;
  e->peers[1] = from;
  e->send = send_arguments(in_place ? output : input, send_count, dtype,
                           &e->peers[0]);
  e->recv = recv_arguments(output, recv_count, dtype, &e->peers[1], 1);
  if (in_place) e->send.side = GLI_SENDS_COPY;
  e->send.function = e->recv.function = "gloo_sendrecv";
  e->to = to == GLOO_NO_RANK ? NULL : &e->send;
  e->from = from == GLOO_NO_RANK ? NULL : &e->recv;
}

gloo_status gloo_sendrecv(gloo_context *context, const void *input,
                          size_t send_count, int to, void *output,
                          size_t recv_count, int from, gloo_dtype dtype,
                          const gloo_options *options, gloo_error *error) {
  exchange e;
  messages_describe(&e, input, send_count, to, output, recv_count, from, dtype);
  return gli_exchange_run(context, e.to, e.from, options, error);
}
gloo_status gloo_sendrecv_start(gloo_context *context, const void *input,
                                size_t send_count, int to, void *output,
                                size_t recv_count, int from, gloo_dtype dtype,
                                const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  exchange e;
  messages_describe(&e, input, send_count, to, output, recv_count, from, dtype);
  return gli_exchange_start(context, e.to, e.from, options, request, error);
}
gloo_status gloo_sendrecv_init(gloo_context *context, const void *input,
                               size_t send_count, int to, void *output,
                               size_t recv_count, int from, gloo_dtype dtype,
                               const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  exchange e;
  messages_describe(&e, input, send_count, to, output, recv_count, from, dtype);
  return gli_exchange_init(context, e.to, e.from, options, request, error);
}
