/* The choice among the variants of the kernels. */
#include "core/reduce.h"

#include "core/reduce_kernel.h"

const gli_reduce_variant gli_reduce_variants[] = {
#ifdef GLI_HAVE_AVX2
    {"avx2", &gli_reduce_integer_avx2, &gli_reduce_float_avx2},
#endif
    {"portable", &gli_reduce_integer_portable, &gli_reduce_float_portable},
};
const size_t gli_reduce_variant_count =
    sizeof gli_reduce_variants / sizeof gli_reduce_variants[0];

bool gli_reduce_variant_usable(const gli_reduce_variant *variant) {
#ifdef GLI_HAVE_AVX2
  if (variant->integer == &gli_reduce_integer_avx2) {
    return __builtin_cpu_supports("avx2") != 0;
  }
#endif
  return variant->integer == &gli_reduce_integer_portable;
}

gli_reduce_fn gli_reduce_variant_kernel(const gli_reduce_variant *variant,
                                        gloo_dtype dtype, gloo_op op) {
  if ((unsigned)dtype >= GLOO_DTYPE_COUNT) return NULL;
  if ((unsigned)op >= GLOO_OP_COUNT) return NULL;
  gli_reduce_fn fn = variant->integer->at[dtype][op];
  return fn != NULL ? fn : variant->floating->at[dtype][op];
}

gli_reduce_fn gli_reduce_kernel(gloo_dtype dtype, gloo_op op) {
  const gli_reduce_variant *variant = gli_reduce_variants;
  while (!gli_reduce_variant_usable(variant)) variant++;
  return gli_reduce_variant_kernel(variant, dtype, op);
}
