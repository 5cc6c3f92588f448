/* The public collectives and messages: each names its arguments, in three
 * forms. */
#include "gloo_c/collectives.h"

#include "api/call.h"

/* ---- barrier ------------------------------------------------------------- */

static const gli_arguments barrier = {.collective = GLI_BARRIER,
                                      .function = "gloo_barrier"};

gloo_status gloo_barrier(gloo_context *context, const gloo_options *options,
                         gloo_error *error) {
  return gli_call_run(context, &barrier, options, NULL, error);
}
gloo_status gloo_barrier_start(gloo_context *context,
                               const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  return gli_call_start(context, &barrier, options, request, error);
}
gloo_status gloo_barrier_init(gloo_context *context,
                              const gloo_options *options,
                              gloo_request **request, gloo_error *error) {
  return gli_call_init(context, &barrier, options, request, error);
}

/* ---- broadcast ----------------------------------------------------------- */

static gli_arguments collectives_broadcast(const void *input, void *output,
                                           size_t count, gloo_dtype dtype,
                                           int root) {
  return (gli_arguments){.collective = GLI_BROADCAST,
                         .function = "gloo_broadcast",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .root = root};
}

gloo_status gloo_broadcast(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           int root, const gloo_options *options,
                           gloo_error *error) {
  gli_arguments a = collectives_broadcast(input, output, count, dtype, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_broadcast_start(gloo_context *context, const void *input,
                                 void *output, size_t count, gloo_dtype dtype,
                                 int root, const gloo_options *options,
                                 gloo_request **request, gloo_error *error) {
  gli_arguments a = collectives_broadcast(input, output, count, dtype, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_broadcast_init(gloo_context *context, const void *input,
                                void *output, size_t count, gloo_dtype dtype,
                                int root, const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  gli_arguments a = collectives_broadcast(input, output, count, dtype, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- allreduce ----------------------------------------------------------- */

static gli_arguments collectives_allreduce(const void *input, void *output,
                                           size_t count, gloo_dtype dtype,
                                           gloo_op op) {
  return (gli_arguments){.collective = GLI_ALLREDUCE,
                         .function = "gloo_allreduce",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .op = op};
}

gloo_status gloo_allreduce(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           gloo_op op, const gloo_options *options,
                           gloo_error *error) {
  gli_arguments a = collectives_allreduce(input, output, count, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_allreduce_start(gloo_context *context, const void *input,
                                 void *output, size_t count, gloo_dtype dtype,
                                 gloo_op op, const gloo_options *options,
                                 gloo_request **request, gloo_error *error) {
  gli_arguments a = collectives_allreduce(input, output, count, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_allreduce_init(gloo_context *context, const void *input,
                                void *output, size_t count, gloo_dtype dtype,
                                gloo_op op, const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  gli_arguments a = collectives_allreduce(input, output, count, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- reduce_scatter ------------------------------------------------------ */

static gli_arguments collectives_reduce_scatter(const void *input, void *output,
                                                size_t count, gloo_dtype dtype,
                                                gloo_op op) {
  return (gli_arguments){.collective = GLI_REDUCE_SCATTER,
                         .function = "gloo_reduce_scatter",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .op = op};
}

gloo_status gloo_reduce_scatter(gloo_context *context, const void *input,
                                void *output, size_t count, gloo_dtype dtype,
                                gloo_op op, const gloo_options *options,
                                gloo_error *error) {
  gli_arguments a = collectives_reduce_scatter(input, output, count, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_reduce_scatter_start(gloo_context *context, const void *input,
                                      void *output, size_t count,
                                      gloo_dtype dtype, gloo_op op,
                                      const gloo_options *options,
                                      gloo_request **request,
                                      gloo_error *error) {
  gli_arguments a = collectives_reduce_scatter(input, output, count, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_reduce_scatter_init(gloo_context *context, const void *input,
                                     void *output, size_t count,
                                     gloo_dtype dtype, gloo_op op,
                                     const gloo_options *options,
                                     gloo_request **request,
                                     gloo_error *error) {
  gli_arguments a = collectives_reduce_scatter(input, output, count, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- allgather ----------------------------------------------------------- */

static gli_arguments collectives_allgather(const void *input, void *output,
                                           size_t count, gloo_dtype dtype) {
  return (gli_arguments){.collective = GLI_ALLGATHER,
                         .function = "gloo_allgather",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype};
}

gloo_status gloo_allgather(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           const gloo_options *options, gloo_error *error) {
  gli_arguments a = collectives_allgather(input, output, count, dtype);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_allgather_start(gloo_context *context, const void *input,
                                 void *output, size_t count, gloo_dtype dtype,
                                 const gloo_options *options,
                                 gloo_request **request, gloo_error *error) {
  gli_arguments a = collectives_allgather(input, output, count, dtype);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_allgather_init(gloo_context *context, const void *input,
                                void *output, size_t count, gloo_dtype dtype,
                                const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  gli_arguments a = collectives_allgather(input, output, count, dtype);
  return gli_call_init(context, &a, options, request, error);
}
