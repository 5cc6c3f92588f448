/* The collectives that move blocks between ranks: arguments and the three forms
 * of each. */
#include "api/call.h"
#include "gloo_c/collectives.h"

/* ---- alltoall ------------------------------------------------------------ */

static gli_arguments blocks_alltoall(const void *input, void *output,
                                     size_t count, gloo_dtype dtype) {
  return (gli_arguments){.collective = GLI_ALLTOALL,
                         .function = "gloo_alltoall",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype};
}

gloo_status gloo_alltoall(gloo_context *context, const void *input,
                          void *output, size_t count, gloo_dtype dtype,
                          const gloo_options *options, gloo_error *error) {
  gli_arguments a = blocks_alltoall(input, output, count, dtype);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_alltoall_start(gloo_context *context, const void *input,
                                void *output, size_t count, gloo_dtype dtype,
                                const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  gli_arguments a = blocks_alltoall(input, output, count, dtype);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_alltoall_init(gloo_context *context, const void *input,
                               void *output, size_t count, gloo_dtype dtype,
                               const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  gli_arguments a = blocks_alltoall(input, output, count, dtype);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- gather -------------------------------------------------------------- */

static gli_arguments blocks_gather(const void *input, void *output,
                                   size_t count, gloo_dtype dtype, int root) {
  return (gli_arguments){.collective = GLI_GATHER,
                         .function = "gloo_gather",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .root = root};
}

gloo_status gloo_gather(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, int root,
                        const gloo_options *options, gloo_error *error) {
  gli_arguments a = blocks_gather(input, output, count, dtype, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_gather_start(gloo_context *context, const void *input,
                              void *output, size_t count, gloo_dtype dtype,
                              int root, const gloo_options *options,
                              gloo_request **request, gloo_error *error) {
  gli_arguments a = blocks_gather(input, output, count, dtype, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_gather_init(gloo_context *context, const void *input,
                             void *output, size_t count, gloo_dtype dtype,
                             int root, const gloo_options *options,
                             gloo_request **request, gloo_error *error) {
  gli_arguments a = blocks_gather(input, output, count, dtype, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- scatter ------------------------------------------------------------- */

static gli_arguments blocks_scatter(const void *input, void *output,
                                    size_t count, gloo_dtype dtype, int root) {
  return (gli_arguments){.collective = GLI_SCATTER,
                         .function = "gloo_scatter",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .root = root};
}

gloo_status gloo_scatter(gloo_context *context, const void *input, void *output,
                         size_t count, gloo_dtype dtype, int root,
                         const gloo_options *options, gloo_error *error) {
  gli_arguments a = blocks_scatter(input, output, count, dtype, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_scatter_start(gloo_context *context, const void *input,
                               void *output, size_t count, gloo_dtype dtype,
                               int root, const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  gli_arguments a = blocks_scatter(input, output, count, dtype, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_scatter_init(gloo_context *context, const void *input,
                              void *output, size_t count, gloo_dtype dtype,
                              int root, const gloo_options *options,
                              gloo_request **request, gloo_error *error) {
  gli_arguments a = blocks_scatter(input, output, count, dtype, root);
  return gli_call_init(context, &a, options, request, error);
}
