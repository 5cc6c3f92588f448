/* The collectives that combine inputs and are not in collectives.c: arguments
 * and the three forms of each. */
#include "api/call.h"
#include "gloo_c/collectives.h"

/* ---- reduce -------------------------------------------------------------- */

static gli_arguments reductions_reduce(const void *input, void *output,
                                       size_t count, gloo_dtype dtype,
                                       gloo_op op, int root) {
  return (gli_arguments){.collective = GLI_REDUCE,
                         .function = "gloo_reduce",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .op = op,
                         .root = root};
}

gloo_status gloo_reduce(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, gloo_op op, int root,
                        const gloo_options *options, gloo_error *error) {
  gli_arguments a = reductions_reduce(input, output, count, dtype, op, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_reduce_start(gloo_context *context, const void *input,
                              void *output, size_t count, gloo_dtype dtype,
                              gloo_op op, int root, const gloo_options *options,
                              gloo_request **request, gloo_error *error) {
  gli_arguments a = reductions_reduce(input, output, count, dtype, op, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_reduce_init(gloo_context *context, const void *input,
                             void *output, size_t count, gloo_dtype dtype,
                             gloo_op op, int root, const gloo_options *options,
                             gloo_request **request, gloo_error *error) {
  gli_arguments a = reductions_reduce(input, output, count, dtype, op, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- scan ---------------------------------------------------------------- */

static gli_arguments reductions_scan(const void *input, void *output,
                                     size_t count, gloo_dtype dtype,
                                     gloo_op op) {
  return (gli_arguments){.collective = GLI_SCAN,
                         .function = "gloo_scan",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .op = op};
}

gloo_status gloo_scan(gloo_context *context, const void *input, void *output,
                      size_t count, gloo_dtype dtype, gloo_op op,
                      const gloo_options *options, gloo_error *error) {
  gli_arguments a = reductions_scan(input, output, count, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_scan_start(gloo_context *context, const void *input,
                            void *output, size_t count, gloo_dtype dtype,
                            gloo_op op, const gloo_options *options,
                            gloo_request **request, gloo_error *error) {
  gli_arguments a = reductions_scan(input, output, count, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_scan_init(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           gloo_op op, const gloo_options *options,
                           gloo_request **request, gloo_error *error) {
  gli_arguments a = reductions_scan(input, output, count, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- exscan -------------------------------------------------------------- */

static gli_arguments reductions_exscan(const void *input, void *output,
                                       size_t count, gloo_dtype dtype,
                                       gloo_op op) {
  return (gli_arguments){.collective = GLI_EXSCAN,
                         .function = "gloo_exscan",
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .op = op};
}

gloo_status gloo_exscan(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, gloo_op op,
                        const gloo_options *options, gloo_error *error) {
  gli_arguments a = reductions_exscan(input, output, count, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_exscan_start(gloo_context *context, const void *input,
                              void *output, size_t count, gloo_dtype dtype,
                              gloo_op op, const gloo_options *options,
                              gloo_request **request, gloo_error *error) {
  gli_arguments a = reductions_exscan(input, output, count, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_exscan_init(gloo_context *context, const void *input,
                             void *output, size_t count, gloo_dtype dtype,
                             gloo_op op, const gloo_options *options,
                             gloo_request **request, gloo_error *error) {
  gli_arguments a = reductions_exscan(input, output, count, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}
