/* The public collectives and messages: a table of their arguments.
 * gloo_sendrecv is in sendrecv.c. */
#include "gloo_c/collectives.h"

#include "api/call.h"
#include "gloo_c/lists.h"
#include "gloo_c/multi.h"

#define UNPACK(...) __VA_ARGS__

/* Each entry of the table, FORMS(NAME, ...), defines three functions: NAME,
 * NAME_start and NAME_init. Their parameters are the context, `parameters`, the
 * options, and the results. The rest of an entry initialises the fields of a
 * gli_arguments. */
#define FORMS(name, parameters, ...)                                 \
  gloo_status name(gloo_context *context, UNPACK parameters,         \
                   const gloo_options *options, gloo_error *error) { \
    const gli_arguments a = {.function = #name, __VA_ARGS__};        \
    return gli_call_run(context, &a, options, NULL, error);          \
  }                                                                  \
  REQUEST_FORMS(name, parameters, __VA_ARGS__)

/* Defines NAME_start and NAME_init only. */
#define REQUEST_FORMS(name, parameters, ...)                                   \
  gloo_status name##_start(gloo_context *context, UNPACK parameters,           \
                           const gloo_options *options,                        \
                           gloo_request **request, gloo_error *error) {        \
    const gli_arguments a = {.function = #name, __VA_ARGS__};                  \
    return gli_call_start(context, &a, options, request, error);               \
  }                                                                            \
  gloo_status name##_init(gloo_context *context, UNPACK parameters,            \
                          const gloo_options *options, gloo_request **request, \
                          gloo_error *error) {                                 \
    const gli_arguments a = {.function = #name, __VA_ARGS__};                  \
    return gli_call_init(context, &a, options, request, error);                \
  }

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

/* ---- one input and one output -------------------------------------------- */

FORMS(gloo_broadcast,
      (const void *input, void *output, size_t count, gloo_dtype dtype,
       int root),
      .collective = GLI_BROADCAST, .input = input, .output = output,
      .count = count, .dtype = dtype, .root = root)

FORMS(gloo_allreduce,
      (const void *input, void *output, size_t count, gloo_dtype dtype,
       gloo_op op),
      .collective = GLI_ALLREDUCE, .input = input, .output = output,
      .count = count, .dtype = dtype, .op = op)

FORMS(gloo_reduce,
      (const void *input, void *output, size_t count, gloo_dtype dtype,
       gloo_op op, int root),
      .collective = GLI_REDUCE, .input = input, .output = output,
      .count = count, .dtype = dtype, .op = op, .root = root)

FORMS(gloo_reduce_scatter,
      (const void *input, void *output, size_t count, gloo_dtype dtype,
       gloo_op op),
      .collective = GLI_REDUCE_SCATTER, .input = input, .output = output,
      .count = count, .dtype = dtype, .op = op)

FORMS(gloo_scan,
      (const void *input, void *output, size_t count, gloo_dtype dtype,
       gloo_op op),
      .collective = GLI_SCAN, .input = input, .output = output, .count = count,
      .dtype = dtype, .op = op)

FORMS(gloo_exscan,
      (const void *input, void *output, size_t count, gloo_dtype dtype,
       gloo_op op),
      .collective = GLI_EXSCAN, .input = input, .output = output,
      .count = count, .dtype = dtype, .op = op)

FORMS(gloo_allgather,
      (const void *input, void *output, size_t count, gloo_dtype dtype),
      .collective = GLI_ALLGATHER, .input = input, .output = output,
      .count = count, .dtype = dtype)

FORMS(gloo_alltoall,
      (const void *input, void *output, size_t count, gloo_dtype dtype),
      .collective = GLI_ALLTOALL, .input = input, .output = output,
      .count = count, .dtype = dtype)

FORMS(gloo_gather,
      (const void *input, void *output, size_t count, gloo_dtype dtype,
       int root),
      .collective = GLI_GATHER, .input = input, .output = output,
      .count = count, .dtype = dtype, .root = root)

FORMS(gloo_scatter,
      (const void *input, void *output, size_t count, gloo_dtype dtype,
       int root),
      .collective = GLI_SCATTER, .input = input, .output = output,
      .count = count, .dtype = dtype, .root = root)

/* ---- one count per rank -------------------------------------------------- */

FORMS(gloo_allgatherv,
      (const void *input, void *output, const size_t *counts,
       const size_t *displacements, gloo_dtype dtype),
      .collective = GLI_ALLGATHERV, .input = input, .output = output,
      .out_counts = counts, .out_first = displacements, .dtype = dtype)

FORMS(gloo_reduce_scatterv,
      (const void *input, void *output, const size_t *counts, gloo_dtype dtype,
       gloo_op op),
      .collective = GLI_REDUCE_SCATTERV, .input = input, .output = output,
      .in_counts = counts, .dtype = dtype, .op = op)

FORMS(gloo_gatherv,
      (const void *input, size_t input_count, void *output,
       const size_t *counts, const size_t *displacements, gloo_dtype dtype,
       int root),
      .collective = GLI_GATHERV, .input = input, .count = input_count,
      .output = output, .out_counts = counts, .out_first = displacements,
      .dtype = dtype, .root = root)

FORMS(gloo_scatterv,
      (const void *input, const size_t *counts, const size_t *displacements,
       void *output, size_t output_count, gloo_dtype dtype, int root),
      .collective = GLI_SCATTERV, .input = input, .in_counts = counts,
      .in_first = displacements, .output = output, .count = output_count,
      .dtype = dtype, .root = root)

FORMS(gloo_alltoallv,
      (const void *input, const size_t *input_counts,
       const size_t *input_displacements, void *output,
       const size_t *output_counts, const size_t *output_displacements,
       gloo_dtype dtype),
      .collective = GLI_ALLTOALLV, .input = input, .in_counts = input_counts,
      .in_first = input_displacements, .output = output,
      .out_counts = output_counts, .out_first = output_displacements,
      .dtype = dtype)

/* ---- several buffers per rank -------------------------------------------- */

FORMS(gloo_broadcast_multi,
      (const void *input, void *const *outputs, size_t n_outputs, size_t count,
       gloo_dtype dtype, int root),
      .collective = GLI_BROADCAST, .several = true,
      .inputs = input == GLOO_IN_PLACE ? NULL : &input, .n_inputs = 1,
      .outputs = outputs, .n_outputs = n_outputs, .count = count,
      .dtype = dtype, .root = root)

FORMS(gloo_allreduce_multi,
      (const void *const *inputs, size_t n_inputs, void *const *outputs,
       size_t n_outputs, size_t count, gloo_dtype dtype, gloo_op op),
      .collective = GLI_ALLREDUCE, .several = true, .inputs = inputs,
      .n_inputs = n_inputs, .outputs = outputs, .n_outputs = n_outputs,
      .count = count, .dtype = dtype, .op = op)

FORMS(gloo_reduce_multi,
      (const void *const *inputs, size_t n_inputs, void *const *outputs,
       size_t n_outputs, size_t count, gloo_dtype dtype, gloo_op op, int root),
      .collective = GLI_REDUCE, .several = true, .inputs = inputs,
      .n_inputs = n_inputs, .outputs = outputs, .n_outputs = n_outputs,
      .count = count, .dtype = dtype, .op = op, .root = root)

FORMS(gloo_reduce_scatter_multi,
      (const void *const *inputs, size_t n_inputs, void *const *outputs,
       size_t n_outputs, size_t count, gloo_dtype dtype, gloo_op op),
      .collective = GLI_REDUCE_SCATTER, .several = true, .inputs = inputs,
      .n_inputs = n_inputs, .outputs = outputs, .n_outputs = n_outputs,
      .count = count, .dtype = dtype, .op = op)

FORMS(gloo_allgather_multi,
      (const void *const *inputs, size_t n_inputs, void *const *outputs,
       size_t n_outputs, size_t count, gloo_dtype dtype),
      .collective = GLI_ALLGATHER, .several = true, .inputs = inputs,
      .n_inputs = n_inputs, .outputs = outputs, .n_outputs = n_outputs,
      .count = count, .dtype = dtype)

/* ---- separate blocks ----------------------------------------------------- */

FORMS(gloo_allgather_list,
      (const void *input, void *const *outputs, size_t count, gloo_dtype dtype),
      .collective = GLI_ALLGATHER, .several = true, .listed = GLI_LISTS_OUTPUTS,
      .input = input, .outputs = outputs, .count = count, .dtype = dtype)

FORMS(gloo_gather_list,
      (const void *input, void *const *outputs, size_t count, gloo_dtype dtype,
       int root),
      .collective = GLI_GATHER, .several = true, .listed = GLI_LISTS_OUTPUTS,
      .input = input, .outputs = outputs, .count = count, .dtype = dtype,
      .root = root)

/* The plan of a scatter reads one input per block, so no block is staged. */
FORMS(gloo_scatter_list,
      (const void *const *inputs, void *output, size_t count, gloo_dtype dtype,
       int root),
      .collective = GLI_SCATTER, .several = true, .inputs = inputs,
      .outputs = &output, .n_outputs = 1, .count = count, .dtype = dtype,
      .root = root)

FORMS(gloo_alltoall_list,
      (const void *const *inputs, void *const *outputs, size_t count,
       gloo_dtype dtype),
      .collective = GLI_ALLTOALL, .several = true,
      .listed = GLI_LISTS_INPUTS | GLI_LISTS_OUTPUTS, .inputs = inputs,
      .outputs = outputs, .count = count, .dtype = dtype)

FORMS(gloo_reduce_scatter_list,
      (const void *const *inputs, void *output, size_t count, gloo_dtype dtype,
       gloo_op op),
      .collective = GLI_REDUCE_SCATTER, .several = true,
      .listed = GLI_LISTS_INPUTS, .inputs = inputs, .output = output,
      .count = count, .dtype = dtype, .op = op)

FORMS(gloo_allreduce_list,
      (const void *const *inputs, void *const *outputs, const size_t *counts,
       size_t n, gloo_dtype dtype, gloo_op op),
      .collective = GLI_ALLREDUCE, .several = true,
      .listed = GLI_LISTS_INPUTS | GLI_LISTS_OUTPUTS, .inputs = inputs,
      .outputs = outputs, .in_counts = counts, .n_inputs = n, .dtype = dtype,
      .op = op)

/* ---- messages ------------------------------------------------------------ */

FORMS(gloo_send, (const void *input, size_t count, gloo_dtype dtype, int peer),
      .collective = GLI_SENDRECV, .input = input, .count = count,
      .dtype = dtype, .peers = &peer, .n_peers = 1)

FORMS(gloo_recv, (void *output, size_t count, gloo_dtype dtype, int peer),
      .collective = GLI_SENDRECV, .side = GLI_RECEIVES, .output = output,
      .count = count, .dtype = dtype, .peers = &peer, .n_peers = 1)

gloo_status gloo_recv_any(gloo_context *context, void *output, size_t count,
                          gloo_dtype dtype, const int *peers, size_t n_peers,
                          const gloo_options *options, int *source,
                          gloo_error *error) {
  const gli_arguments a = {.function = "gloo_recv_any",
                           .collective = GLI_SENDRECV,
                           .side = GLI_RECEIVES,
                           .output = output,
                           .count = count,
                           .dtype = dtype,
                           .peers = peers,
                           .n_peers = n_peers};
  return gli_call_run(context, &a, options, source, error);
}
REQUEST_FORMS(gloo_recv_any,
              (void *output, size_t count, gloo_dtype dtype, const int *peers,
               size_t n_peers),
              .collective = GLI_SENDRECV, .side = GLI_RECEIVES,
              .output = output, .count = count, .dtype = dtype, .peers = peers,
              .n_peers = n_peers)
