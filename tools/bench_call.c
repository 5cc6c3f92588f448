/* The calls that are timed. */
#include "tools/bench_case.h"

/* Sends a message there and back, as seen by the even rank of a pair. */
static gloo_status ping_pong(const gli_bench_case *c,
                             const gli_bench_buffers *b,
                             const gloo_options *options, gloo_error *error) {
  gloo_dtype dtype = c->call.dtype;
  bool first = c->rank % 2 == 0;
  gloo_status status = GLOO_OK;
  if (first) {
    status = gloo_send(c->context, b->in, c->count, dtype, c->partner, options,
                       error);
    if (status != GLOO_OK) return status;
  }
  status = gloo_recv(c->context, b->out, c->count, dtype, c->partner, options,
                     error);
  if (status != GLOO_OK || first) return status;
  return gloo_send(c->context, b->in, c->count, dtype, c->partner, options,
                   error);
}

/* Sends the same two messages if there is only one rank. */
static gloo_status ping_self(const gli_bench_case *c,
                             const gli_bench_buffers *b,
                             const gloo_options *options, gloo_error *error) {
  gloo_status status = GLOO_OK;
  for (int trip = 0; trip < 2 && status == GLOO_OK; trip++) {
    gloo_request *receive;
    status = gloo_recv_start(c->context, b->out, c->count, c->call.dtype,
                             c->rank, options, &receive, error);
    if (status != GLOO_OK) return status;
    status = gloo_send(c->context, b->in, c->count, c->call.dtype, c->rank,
                       options, error);
    if (status == GLOO_OK)
      status = gloo_request_wait(receive, GLOO_TIMEOUT_DEFAULT, error);
    gloo_request_destroy(receive);
  }
  return status;
}

static gloo_status call_messages(const gli_bench_case *c,
                                 const gli_bench_buffers *b,
                                 const gloo_options *options,
                                 gloo_error *error) {
  if (c->partner < 0) return GLOO_OK;
  return c->partner == c->rank ? ping_self(c, b, options, error)
                               : ping_pong(c, b, options, error);
}

/* Calls for blocks that differ in length. */
static gloo_status call_counted(const gli_bench_case *c,
                                const gli_bench_buffers *b,
                                const gloo_options *options,
                                gloo_error *error) {
  const gli_bench_call *call = &c->call;
  const void *in = gli_case_in_place(c) ? GLOO_IN_PLACE : b->in;
  size_t own = c->counts[c->rank];
  switch (call->collective) {
    case GLI_ALLGATHERV:
      return gloo_allgatherv(c->context, in, b->out, c->counts, NULL,
                             call->dtype, options, error);
    case GLI_GATHERV:
      return gloo_gatherv(c->context, in, own, b->out, c->counts, NULL,
                          call->dtype, call->root, options, error);
    case GLI_SCATTERV:
      return gloo_scatterv(c->context, in, c->counts, NULL, b->out, own,
                           call->dtype, call->root, options, error);
    case GLI_ALLTOALLV:
      return gloo_alltoallv(c->context, in, c->counts, NULL, b->out, c->counts,
                            NULL, call->dtype, options, error);
    default:
      return gloo_reduce_scatterv(c->context, in, b->out, c->counts,
                                  call->dtype, call->op, options, error);
  }
}

static gloo_status call_reduction(const gli_bench_case *c,
                                  const gli_bench_buffers *b,
                                  const gloo_options *options,
                                  gloo_error *error) {
  const gli_bench_call *call = &c->call;
  const void *in = gli_case_in_place(c) ? GLOO_IN_PLACE : b->in;
  switch (call->collective) {
    case GLI_REDUCE_SCATTER:
      return gloo_reduce_scatter(c->context, in, b->out, c->count, call->dtype,
                                 call->op, options, error);
    case GLI_REDUCE:
      return gloo_reduce(c->context, in, b->out, c->count, call->dtype,
                         call->op, call->root, options, error);
    case GLI_SCAN:
      return gloo_scan(c->context, in, b->out, c->count, call->dtype, call->op,
                       options, error);
    case GLI_EXSCAN:
      return gloo_exscan(c->context, in, b->out, c->count, call->dtype,
                         call->op, options, error);
    default:
      return gloo_allreduce(c->context, in, b->out, c->count, call->dtype,
                            call->op, options, error);
  }
}

static gloo_status call_movement(const gli_bench_case *c,
                                 const gli_bench_buffers *b,
                                 const gloo_options *options,
                                 gloo_error *error) {
  const gli_bench_call *call = &c->call;
  const void *in = gli_case_in_place(c) ? GLOO_IN_PLACE : b->in;
  switch (call->collective) {
    case GLI_BROADCAST:
      return gloo_broadcast(c->context, in, b->out, c->count, call->dtype,
                            call->root, options, error);
    case GLI_ALLGATHER:
      return gloo_allgather(c->context, in, b->out, c->count, call->dtype,
                            options, error);
    case GLI_ALLTOALL:
      return gloo_alltoall(c->context, in, b->out, c->count, call->dtype,
                           options, error);
    case GLI_GATHER:
      return gloo_gather(c->context, in, b->out, c->count, call->dtype,
                         call->root, options, error);
    default:
      return gloo_scatter(c->context, in, b->out, c->count, call->dtype,
                          call->root, options, error);
  }
}

gloo_status gli_case_run(const gli_bench_case *c, const gli_bench_buffers *b,
                         gloo_error *error) {
  gli_collective collective = c->call.collective;
  gloo_options options = GLOO_OPTIONS_INIT;
  options.algorithm = c->call.algorithm;
  if (collective == GLI_BARRIER)
    return gloo_barrier(c->context, &options, error);
  if (collective == GLI_SENDRECV) return call_messages(c, b, &options, error);
  if (gli_collective_counted(collective))
    return call_counted(c, b, &options, error);
  if (gli_collective_reduces(collective))
    return call_reduction(c, b, &options, error);
  return call_movement(c, b, &options, error);
}
