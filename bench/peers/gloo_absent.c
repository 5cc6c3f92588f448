/* Collectives of gloo_c that Gloo does not have. */
#include "core/error.h"
#include "gloo_c/gloo_c.h"

static gloo_status no_such(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "Gloo has no such collective");
}

gloo_status gloo_scan(gloo_context *context, const void *input, void *output,
                      size_t count, gloo_dtype dtype, gloo_op op,
                      const gloo_options *options, gloo_error *error) {
  (void)options;
  (void)context, (void)input, (void)output, (void)count, (void)dtype, (void)op;
  return no_such(error);
}

gloo_status gloo_exscan(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, gloo_op op,
                        const gloo_options *options, gloo_error *error) {
  (void)options;
  (void)context, (void)input, (void)output, (void)count, (void)dtype, (void)op;
  return no_such(error);
}

gloo_status gloo_gatherv(gloo_context *context, const void *input,
                         size_t input_count, void *output, const size_t *counts,
                         const size_t *displacements, gloo_dtype dtype,
                         int root, const gloo_options *options,
                         gloo_error *error) {
  (void)options;
  (void)context, (void)input, (void)input_count, (void)output, (void)counts;
  (void)displacements, (void)dtype, (void)root;
  return no_such(error);
}

gloo_status gloo_scatterv(gloo_context *context, const void *input,
                          const size_t *counts, const size_t *displacements,
                          void *output, size_t output_count, gloo_dtype dtype,
                          int root, const gloo_options *options,
                          gloo_error *error) {
  (void)options;
  (void)context, (void)input, (void)counts, (void)displacements, (void)output;
  (void)output_count, (void)dtype, (void)root;
  return no_such(error);
}
