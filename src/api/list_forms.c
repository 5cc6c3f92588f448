/* Blocks and pieces that lie apart: arguments and the three forms of each. */
#include "api/call.h"
#include "gloo_c/lists.h"

/* ---- allgather ----------------------------------------------------------- */

static gli_arguments list_allgather(const void *input, void *const *outputs,
                                    size_t count, gloo_dtype dtype) {
  return (gli_arguments){.collective = GLI_ALLGATHER,
                         .function = "gloo_allgather_list",
                         .several = true,
                         .listed = GLI_LISTS_OUTPUTS,
                         .input = input,
                         .outputs = outputs,
                         .count = count,
                         .dtype = dtype};
}

gloo_status gloo_allgather_list(gloo_context *context, const void *input,
                                void *const *outputs, size_t count,
                                gloo_dtype dtype, const gloo_options *options,
                                gloo_error *error) {
  gli_arguments a = list_allgather(input, outputs, count, dtype);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_allgather_list_start(gloo_context *context, const void *input,
                                      void *const *outputs, size_t count,
                                      gloo_dtype dtype,
                                      const gloo_options *options,
                                      gloo_request **request,
                                      gloo_error *error) {
  gli_arguments a = list_allgather(input, outputs, count, dtype);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_allgather_list_init(gloo_context *context, const void *input,
                                     void *const *outputs, size_t count,
                                     gloo_dtype dtype,
                                     const gloo_options *options,
                                     gloo_request **request,
                                     gloo_error *error) {
  gli_arguments a = list_allgather(input, outputs, count, dtype);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- gather -------------------------------------------------------------- */

static gli_arguments list_gather(const void *input, void *const *outputs,
                                 size_t count, gloo_dtype dtype, int root) {
  return (gli_arguments){.collective = GLI_GATHER,
                         .function = "gloo_gather_list",
                         .several = true,
                         .listed = GLI_LISTS_OUTPUTS,
                         .input = input,
                         .outputs = outputs,
                         .count = count,
                         .dtype = dtype,
                         .root = root};
}

gloo_status gloo_gather_list(gloo_context *context, const void *input,
                             void *const *outputs, size_t count,
                             gloo_dtype dtype, int root,
                             const gloo_options *options, gloo_error *error) {
  gli_arguments a = list_gather(input, outputs, count, dtype, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_gather_list_start(gloo_context *context, const void *input,
                                   void *const *outputs, size_t count,
                                   gloo_dtype dtype, int root,
                                   const gloo_options *options,
                                   gloo_request **request, gloo_error *error) {
  gli_arguments a = list_gather(input, outputs, count, dtype, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_gather_list_init(gloo_context *context, const void *input,
                                  void *const *outputs, size_t count,
                                  gloo_dtype dtype, int root,
                                  const gloo_options *options,
                                  gloo_request **request, gloo_error *error) {
  gli_arguments a = list_gather(input, outputs, count, dtype, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- scatter ------------------------------------------------------------- */

static gli_arguments list_scatter(const void *const *inputs,
                                  void *const *output, size_t count,
                                  gloo_dtype dtype, int root) {
  return (gli_arguments){.collective = GLI_SCATTER,
                         .function = "gloo_scatter_list",
                         .several = true,
                         .inputs = inputs,
                         .outputs = output,
                         .n_outputs = 1,
                         .count = count,
                         .dtype = dtype,
                         .root = root};
}

gloo_status gloo_scatter_list(gloo_context *context, const void *const *inputs,
                              void *output, size_t count, gloo_dtype dtype,
                              int root, const gloo_options *options,
                              gloo_error *error) {
  gli_arguments a = list_scatter(inputs, &output, count, dtype, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_scatter_list_start(gloo_context *context,
                                    const void *const *inputs, void *output,
                                    size_t count, gloo_dtype dtype, int root,
                                    const gloo_options *options,
                                    gloo_request **request, gloo_error *error) {
  gli_arguments a = list_scatter(inputs, &output, count, dtype, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_scatter_list_init(gloo_context *context,
                                   const void *const *inputs, void *output,
                                   size_t count, gloo_dtype dtype, int root,
                                   const gloo_options *options,
                                   gloo_request **request, gloo_error *error) {
  gli_arguments a = list_scatter(inputs, &output, count, dtype, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- alltoall ------------------------------------------------------------ */

static gli_arguments list_alltoall(const void *const *inputs,
                                   void *const *outputs, size_t count,
                                   gloo_dtype dtype) {
  return (gli_arguments){.collective = GLI_ALLTOALL,
                         .function = "gloo_alltoall_list",
                         .several = true,
                         .listed = GLI_LISTS_INPUTS | GLI_LISTS_OUTPUTS,
                         .inputs = inputs,
                         .outputs = outputs,
                         .count = count,
                         .dtype = dtype};
}

gloo_status gloo_alltoall_list(gloo_context *context, const void *const *inputs,
                               void *const *outputs, size_t count,
                               gloo_dtype dtype, const gloo_options *options,
                               gloo_error *error) {
  gli_arguments a = list_alltoall(inputs, outputs, count, dtype);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_alltoall_list_start(
    gloo_context *context, const void *const *inputs, void *const *outputs,
    size_t count, gloo_dtype dtype, const gloo_options *options,
    gloo_request **request, gloo_error *error) {
  gli_arguments a = list_alltoall(inputs, outputs, count, dtype);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_alltoall_list_init(gloo_context *context,
                                    const void *const *inputs,
                                    void *const *outputs, size_t count,
                                    gloo_dtype dtype,
                                    const gloo_options *options,
                                    gloo_request **request, gloo_error *error) {
  gli_arguments a = list_alltoall(inputs, outputs, count, dtype);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- reduce_scatter ------------------------------------------------------ */

static gli_arguments list_reduce_scatter(const void *const *inputs,
                                         void *output, size_t count,
                                         gloo_dtype dtype, gloo_op op) {
  return (gli_arguments){.collective = GLI_REDUCE_SCATTER,
                         .function = "gloo_reduce_scatter_list",
                         .several = true,
                         .listed = GLI_LISTS_INPUTS,
                         .inputs = inputs,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .op = op};
}

gloo_status gloo_reduce_scatter_list(gloo_context *context,
                                     const void *const *inputs, void *output,
                                     size_t count, gloo_dtype dtype, gloo_op op,
                                     const gloo_options *options,
                                     gloo_error *error) {
  gli_arguments a = list_reduce_scatter(inputs, output, count, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_reduce_scatter_list_start(
    gloo_context *context, const void *const *inputs, void *output,
    size_t count, gloo_dtype dtype, gloo_op op, const gloo_options *options,
    gloo_request **request, gloo_error *error) {
  gli_arguments a = list_reduce_scatter(inputs, output, count, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_reduce_scatter_list_init(
    gloo_context *context, const void *const *inputs, void *output,
    size_t count, gloo_dtype dtype, gloo_op op, const gloo_options *options,
    gloo_request **request, gloo_error *error) {
  gli_arguments a = list_reduce_scatter(inputs, output, count, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- allreduce ----------------------------------------------------------- */

static gli_arguments list_allreduce(const void *const *inputs,
                                    void *const *outputs, const size_t *counts,
                                    size_t n, gloo_dtype dtype, gloo_op op) {
  return (gli_arguments){.collective = GLI_ALLREDUCE,
                         .function = "gloo_allreduce_list",
                         .several = true,
                         .listed = GLI_LISTS_INPUTS | GLI_LISTS_OUTPUTS,
                         .inputs = inputs,
                         .outputs = outputs,
                         .in_counts = counts,
                         .n_inputs = n,
                         .dtype = dtype,
                         .op = op};
}

gloo_status gloo_allreduce_list(gloo_context *context,
                                const void *const *inputs, void *const *outputs,
                                const size_t *counts, size_t n,
                                gloo_dtype dtype, gloo_op op,
                                const gloo_options *options,
                                gloo_error *error) {
  gli_arguments a = list_allreduce(inputs, outputs, counts, n, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_allreduce_list_start(
    gloo_context *context, const void *const *inputs, void *const *outputs,
    const size_t *counts, size_t n, gloo_dtype dtype, gloo_op op,
    const gloo_options *options, gloo_request **request, gloo_error *error) {
  gli_arguments a = list_allreduce(inputs, outputs, counts, n, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_allreduce_list_init(
    gloo_context *context, const void *const *inputs, void *const *outputs,
    const size_t *counts, size_t n, gloo_dtype dtype, gloo_op op,
    const gloo_options *options, gloo_request **request, gloo_error *error) {
  gli_arguments a = list_allreduce(inputs, outputs, counts, n, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}
