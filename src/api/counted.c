/* The collectives whose blocks differ in length: arguments and the three forms
 * of each. */
#include "api/call.h"
#include "gloo_c/collectives.h"

/* ---- allgatherv ---------------------------------------------------------- */

static gli_arguments counted_allgatherv(const void *input, void *output,
                                        const size_t *counts,
                                        const size_t *displacements,
                                        gloo_dtype dtype) {
  return (gli_arguments){.collective = GLI_ALLGATHERV,
                         .function = "gloo_allgatherv",
                         .input = input,
                         .output = output,
                         .out_counts = counts,
                         .out_first = displacements,
                         .dtype = dtype};
}

gloo_status gloo_allgatherv(gloo_context *context, const void *input,
                            void *output, const size_t *counts,
                            const size_t *displacements, gloo_dtype dtype,
                            const gloo_options *options, gloo_error *error) {
  gli_arguments a =
      counted_allgatherv(input, output, counts, displacements, dtype);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_allgatherv_start(gloo_context *context, const void *input,
                                  void *output, const size_t *counts,
                                  const size_t *displacements, gloo_dtype dtype,
                                  const gloo_options *options,
                                  gloo_request **request, gloo_error *error) {
  gli_arguments a =
      counted_allgatherv(input, output, counts, displacements, dtype);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_allgatherv_init(gloo_context *context, const void *input,
                                 void *output, const size_t *counts,
                                 const size_t *displacements, gloo_dtype dtype,
                                 const gloo_options *options,
                                 gloo_request **request, gloo_error *error) {
  gli_arguments a =
      counted_allgatherv(input, output, counts, displacements, dtype);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- reduce_scatterv ----------------------------------------------------- */

static gli_arguments reduce_scatterv(const void *input, void *output,
                                     const size_t *counts, gloo_dtype dtype,
                                     gloo_op op) {
  return (gli_arguments){.collective = GLI_REDUCE_SCATTERV,
                         .function = "gloo_reduce_scatterv",
                         .input = input,
                         .output = output,
                         .in_counts = counts,
                         .dtype = dtype,
                         .op = op};
}

gloo_status gloo_reduce_scatterv(gloo_context *context, const void *input,
                                 void *output, const size_t *counts,
                                 gloo_dtype dtype, gloo_op op,
                                 const gloo_options *options,
                                 gloo_error *error) {
  gli_arguments a = reduce_scatterv(input, output, counts, dtype, op);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_reduce_scatterv_start(gloo_context *context, const void *input,
                                       void *output, const size_t *counts,
                                       gloo_dtype dtype, gloo_op op,
                                       const gloo_options *options,
                                       gloo_request **request,
                                       gloo_error *error) {
  gli_arguments a = reduce_scatterv(input, output, counts, dtype, op);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_reduce_scatterv_init(gloo_context *context, const void *input,
                                      void *output, const size_t *counts,
                                      gloo_dtype dtype, gloo_op op,
                                      const gloo_options *options,
                                      gloo_request **request,
                                      gloo_error *error) {
  gli_arguments a = reduce_scatterv(input, output, counts, dtype, op);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- gatherv ------------------------------------------------------------- */

static gli_arguments counted_gatherv(const void *input, size_t input_count,
                                     void *output, const size_t *counts,
                                     const size_t *displacements,
                                     gloo_dtype dtype, int root) {
  return (gli_arguments){.collective = GLI_GATHERV,
                         .function = "gloo_gatherv",
                         .input = input,
                         .output = output,
                         .count = input_count,
                         .out_counts = counts,
                         .out_first = displacements,
                         .dtype = dtype,
                         .root = root};
}

gloo_status gloo_gatherv(gloo_context *context, const void *input,
                         size_t input_count, void *output, const size_t *counts,
                         const size_t *displacements, gloo_dtype dtype,
                         int root, const gloo_options *options,
                         gloo_error *error) {
  gli_arguments a = counted_gatherv(input, input_count, output, counts,
                                    displacements, dtype, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_gatherv_start(gloo_context *context, const void *input,
                               size_t input_count, void *output,
                               const size_t *counts,
                               const size_t *displacements, gloo_dtype dtype,
                               int root, const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  gli_arguments a = counted_gatherv(input, input_count, output, counts,
                                    displacements, dtype, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_gatherv_init(gloo_context *context, const void *input,
                              size_t input_count, void *output,
                              const size_t *counts, const size_t *displacements,
                              gloo_dtype dtype, int root,
                              const gloo_options *options,
                              gloo_request **request, gloo_error *error) {
  gli_arguments a = counted_gatherv(input, input_count, output, counts,
                                    displacements, dtype, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- scatterv ------------------------------------------------------------ */

static gli_arguments counted_scatterv(const void *input, const size_t *counts,
                                      const size_t *displacements, void *output,
                                      size_t output_count, gloo_dtype dtype,
                                      int root) {
  return (gli_arguments){.collective = GLI_SCATTERV,
                         .function = "gloo_scatterv",
                         .input = input,
                         .output = output,
                         .count = output_count,
                         .in_counts = counts,
                         .in_first = displacements,
                         .dtype = dtype,
                         .root = root};
}

gloo_status gloo_scatterv(gloo_context *context, const void *input,
                          const size_t *counts, const size_t *displacements,
                          void *output, size_t output_count, gloo_dtype dtype,
                          int root, const gloo_options *options,
                          gloo_error *error) {
  gli_arguments a = counted_scatterv(input, counts, displacements, output,
                                     output_count, dtype, root);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_scatterv_start(gloo_context *context, const void *input,
                                const size_t *counts,
                                const size_t *displacements, void *output,
                                size_t output_count, gloo_dtype dtype, int root,
                                const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  gli_arguments a = counted_scatterv(input, counts, displacements, output,
                                     output_count, dtype, root);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_scatterv_init(gloo_context *context, const void *input,
                               const size_t *counts,
                               const size_t *displacements, void *output,
                               size_t output_count, gloo_dtype dtype, int root,
                               const gloo_options *options,
                               gloo_request **request, gloo_error *error) {
  gli_arguments a = counted_scatterv(input, counts, displacements, output,
                                     output_count, dtype, root);
  return gli_call_init(context, &a, options, request, error);
}

/* ---- alltoallv ----------------------------------------------------------- */

static gli_arguments counted_alltoallv(const void *input,
                                       const size_t *input_counts,
                                       const size_t *input_displacements,
                                       void *output,
                                       const size_t *output_counts,
                                       const size_t *output_displacements,
                                       gloo_dtype dtype) {
  return (gli_arguments){.collective = GLI_ALLTOALLV,
                         .function = "gloo_alltoallv",
                         .input = input,
                         .output = output,
                         .in_counts = input_counts,
                         .in_first = input_displacements,
                         .out_counts = output_counts,
                         .out_first = output_displacements,
                         .dtype = dtype};
}

gloo_status gloo_alltoallv(gloo_context *context, const void *input,
                           const size_t *input_counts,
                           const size_t *input_displacements, void *output,
                           const size_t *output_counts,
                           const size_t *output_displacements, gloo_dtype dtype,
                           const gloo_options *options, gloo_error *error) {
  gli_arguments a =
      counted_alltoallv(input, input_counts, input_displacements, output,
                        output_counts, output_displacements, dtype);
  return gli_call_run(context, &a, options, NULL, error);
}
gloo_status gloo_alltoallv_start(gloo_context *context, const void *input,
                                 const size_t *input_counts,
                                 const size_t *input_displacements,
                                 void *output, const size_t *output_counts,
                                 const size_t *output_displacements,
                                 gloo_dtype dtype, const gloo_options *options,
                                 gloo_request **request, gloo_error *error) {
  gli_arguments a =
      counted_alltoallv(input, input_counts, input_displacements, output,
                        output_counts, output_displacements, dtype);
  return gli_call_start(context, &a, options, request, error);
}
gloo_status gloo_alltoallv_init(gloo_context *context, const void *input,
                                const size_t *input_counts,
                                const size_t *input_displacements, void *output,
                                const size_t *output_counts,
                                const size_t *output_displacements,
                                gloo_dtype dtype, const gloo_options *options,
                                gloo_request **request, gloo_error *error) {
  gli_arguments a =
      counted_alltoallv(input, input_counts, input_displacements, output,
                        output_counts, output_displacements, dtype);
  return gli_call_init(context, &a, options, request, error);
}
