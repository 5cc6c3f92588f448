/* Several buffers per rank: arguments and the three forms of each. */
#include "gloo_c/multi.h"
#include "api/call.h"

static gli_arguments multi_reduction(gli_collective collective,
                                     const char *function,
                                     const void *const *inputs, size_t n_inputs,
                                     void *const *outputs, size_t n_outputs,
                                     size_t count, gloo_dtype dtype,
                                     gloo_op op) {
  return (gli_arguments){.collective = collective,
                         .function = function,
                         .several = true,
                         .inputs = inputs,
                         .n_inputs = n_inputs,
                         .outputs = outputs,
                         .n_outputs = n_outputs,
                         .count = count,
                         .dtype = dtype,
                         .op = op};
}

/* ---- allreduce ----------------------------------------------------------- */

static gli_arguments multi_allreduce(const void *const *inputs, size_t n_inputs,
                                     void *const *outputs, size_t n_outputs,
                                     size_t count, gloo_dtype dtype,
                                     gloo_op op) {
  return multi_reduction(GLI_ALLREDUCE, "gloo_allreduce_multi", inputs,
                         n_inputs, outputs, n_outputs, count, dtype, op);
}

gloo_status gloo_allreduce_multi(gloo_context *context,
                                 const void *const *inputs, size_t n_inputs,
                                 void *const *outputs, size_t n_outputs,
                                 size_t count, gloo_dtype dtype, gloo_op op,
                                 const gloo_options *options,
                                 gloo_error *error) {
  gli_arguments a =
      multi_allreduce(inputs, n_inputs, outputs, n_outputs, count, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_allreduce_multi_start(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_request **request,
    gloo_error *error) {
  gli_arguments a =
      multi_allreduce(inputs, n_inputs, outputs, n_outputs, count, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_allreduce_multi_init(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_request **request,
    gloo_error *error) {
  gli_arguments a =
      multi_allreduce(inputs, n_inputs, outputs, n_outputs, count, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- reduce -------------------------------------------------------------- */

static gli_arguments multi_reduce(const void *const *inputs, size_t n_inputs,
                                  void *const *outputs, size_t n_outputs,
                                  size_t count, gloo_dtype dtype, gloo_op op,
                                  int root) {
  gli_arguments a =
      multi_reduction(GLI_REDUCE, "gloo_reduce_multi", inputs, n_inputs,
                      outputs, n_outputs, count, dtype, op);
  a.root = root;
  return a;
}

gloo_status gloo_reduce_multi(gloo_context *context, const void *const *inputs,
                              size_t n_inputs, void *const *outputs,
                              size_t n_outputs, size_t count, gloo_dtype dtype,
                              gloo_op op, int root, const gloo_options *options,
                              gloo_error *error) {
  gli_arguments a = multi_reduce(inputs, n_inputs, outputs, n_outputs, count,
                                 dtype, op, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_reduce_multi_start(gloo_context *context,
                                    const void *const *inputs, size_t n_inputs,
                                    void *const *outputs, size_t n_outputs,
                                    size_t count, gloo_dtype dtype, gloo_op op,
                                    int root, const gloo_options *options,
                                    gloo_request **request, gloo_error *error) {
  gli_arguments a = multi_reduce(inputs, n_inputs, outputs, n_outputs, count,
                                 dtype, op, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_reduce_multi_init(gloo_context *context,
                                   const void *const *inputs, size_t n_inputs,
                                   void *const *outputs, size_t n_outputs,
                                   size_t count, gloo_dtype dtype, gloo_op op,
                                   int root, const gloo_options *options,
                                   gloo_request **request, gloo_error *error) {
  gli_arguments a = multi_reduce(inputs, n_inputs, outputs, n_outputs, count,
                                 dtype, op, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- reduce_scatter ------------------------------------------------------ */

static gli_arguments multi_reduce_scatter(const void *const *inputs,
                                          size_t n_inputs, void *const *outputs,
                                          size_t n_outputs, size_t count,
                                          gloo_dtype dtype, gloo_op op) {
  return multi_reduction(GLI_REDUCE_SCATTER, "gloo_reduce_scatter_multi",
                         inputs, n_inputs, outputs, n_outputs, count, dtype,
                         op);
}

gloo_status gloo_reduce_scatter_multi(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_error *error) {
  gli_arguments a = multi_reduce_scatter(inputs, n_inputs, outputs, n_outputs,
                                         count, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_reduce_scatter_multi_start(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_request **request,
    gloo_error *error) {
  gli_arguments a = multi_reduce_scatter(inputs, n_inputs, outputs, n_outputs,
                                         count, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_reduce_scatter_multi_init(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_request **request,
    gloo_error *error) {
  gli_arguments a = multi_reduce_scatter(inputs, n_inputs, outputs, n_outputs,
                                         count, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- broadcast ----------------------------------------------------------- */

static gli_arguments multi_broadcast(const void *const *input,
                                     void *const *outputs, size_t n_outputs,
                                     size_t count, gloo_dtype dtype, int root) {
  return (gli_arguments){.collective = GLI_BROADCAST,
                         .function = "gloo_broadcast_multi",
                         .several = true,
                         .inputs = *input == GLOO_IN_PLACE ? NULL : input,
                         .n_inputs = 1,
                         .outputs = outputs,
                         .n_outputs = n_outputs,
                         .count = count,
                         .dtype = dtype,
                         .root = root};
}

gloo_status gloo_broadcast_multi(gloo_context *context, const void *input,
                                 void *const *outputs, size_t n_outputs,
                                 size_t count, gloo_dtype dtype, int root,
                                 const gloo_options *options,
                                 gloo_error *error) {
  gli_arguments a =
      multi_broadcast(&input, outputs, n_outputs, count, dtype, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_broadcast_multi_start(gloo_context *context, const void *input,
                                       void *const *outputs, size_t n_outputs,
                                       size_t count, gloo_dtype dtype, int root,
                                       const gloo_options *options,
                                       gloo_request **request,
                                       gloo_error *error) {
  gli_arguments a =
      multi_broadcast(&input, outputs, n_outputs, count, dtype, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_broadcast_multi_init(gloo_context *context, const void *input,
                                      void *const *outputs, size_t n_outputs,
                                      size_t count, gloo_dtype dtype, int root,
                                      const gloo_options *options,
                                      gloo_request **request,
                                      gloo_error *error) {
  gli_arguments a =
      multi_broadcast(&input, outputs, n_outputs, count, dtype, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- allgather ----------------------------------------------------------- */

static gli_arguments multi_allgather(const void *const *inputs, size_t n_inputs,
                                     void *const *outputs, size_t n_outputs,
                                     size_t count, gloo_dtype dtype) {
  return (gli_arguments){.collective = GLI_ALLGATHER,
                         .function = "gloo_allgather_multi",
                         .several = true,
                         .inputs = inputs,
                         .n_inputs = n_inputs,
                         .outputs = outputs,
                         .n_outputs = n_outputs,
                         .count = count,
                         .dtype = dtype};
}

gloo_status gloo_allgather_multi(gloo_context *context,
                                 const void *const *inputs, size_t n_inputs,
                                 void *const *outputs, size_t n_outputs,
                                 size_t count, gloo_dtype dtype,
                                 const gloo_options *options,
                                 gloo_error *error) {
  gli_arguments a =
      multi_allgather(inputs, n_inputs, outputs, n_outputs, count, dtype);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_allgather_multi_start(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    const gloo_options *options, gloo_request **request, gloo_error *error) {
  gli_arguments a =
      multi_allgather(inputs, n_inputs, outputs, n_outputs, count, dtype);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_allgather_multi_init(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    const gloo_options *options, gloo_request **request, gloo_error *error) {
  gli_arguments a =
      multi_allgather(inputs, n_inputs, outputs, n_outputs, count, dtype);
  return gli_call_init(context, &a, options, request, error);
}
