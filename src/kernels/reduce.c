/* Choice among the variants of the kernels, and the supported types and
 * operations. */
#include "kernels/reduce.h"

#include <stdatomic.h>

#include "kernels/reduce_kernel.h"

static bool reduce_always(void) {
  return true;
}

#ifdef GLI_HAVE_AVX2
#include <cpuid.h>

/* Reads CPUID, because some compilers' __builtin_cpu_supports lacks F16C. */
static bool has_avx2(void) {
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) &&
         (c & bit_F16C) != 0;
}
#endif

/* Requires VBMI2: older processors lower their clock for wide vectors. */
#ifdef GLI_HAVE_AVX512
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi2") && has_avx2();
}
#endif

#define PART(part, variant) &gli_reduce_##part##_##variant,
#define VARIANT(variant, usable) \
  {#variant, usable, {GLI_REDUCE_PARTS(PART, variant)}, &gli_scale_##variant},

const gli_reduce_variant gli_reduce_variants[] = {
#ifdef GLI_HAVE_AVX512
    VARIANT(avx512, has_avx512)
#endif
#ifdef GLI_HAVE_AVX2
        VARIANT(avx2, has_avx2)
#endif
            VARIANT(portable, reduce_always)};
const size_t gli_reduce_variant_count =
    sizeof gli_reduce_variants / sizeof gli_reduce_variants[0];

static const gli_reduce_entry *reduce_find(const gli_reduce_variant *variant,
                                           gloo_dtype dtype, gloo_op op) {
  static const gli_reduce_entry none;
  if ((unsigned)dtype >= GLOO_DTYPE_COUNT) return &none;
  if ((unsigned)op >= GLOO_OP_COUNT) return &none;
  for (size_t i = 0; i < GLI_REDUCE_PART_COUNT; i++) {
    const gli_reduce_entry *entry = &variant->parts[i]->at[dtype][op];
    if (entry->two != NULL) return entry;
  }
  return &none;
}

gli_reduce_fn gli_reduce_variant_kernel(const gli_reduce_variant *variant,
                                        gloo_dtype dtype, gloo_op op) {
  return reduce_find(variant, dtype, op)->two;
}

gli_combine_fn gli_reduce_variant_combine(const gli_reduce_variant *variant,
                                          gloo_dtype dtype, gloo_op op) {
  return reduce_find(variant, dtype, op)->many;
}

gli_scale_fn gli_reduce_variant_scale(const gli_reduce_variant *variant,
                                      gloo_dtype dtype) {
  if ((unsigned)dtype >= GLOO_DTYPE_COUNT) return NULL;
  return variant->scale->at[dtype];
}

/* Returns the best variant. It is determined once, because CPUID is slow on
 * virtual machines. Several threads may do so at once, with the same result. */
static const gli_reduce_variant *reduce_chosen(void) {
  static _Atomic(const gli_reduce_variant *) known;
  const gli_reduce_variant *variant =
      atomic_load_explicit(&known, memory_order_relaxed);
  if (variant != NULL) return variant;
  variant = gli_reduce_variants;
  while (!variant->usable()) variant++;
  atomic_store_explicit(&known, variant, memory_order_relaxed);
  return variant;
}

gli_reduce_fn gli_reduce_kernel(gloo_dtype dtype, gloo_op op) {
  return gli_reduce_variant_kernel(reduce_chosen(), dtype, op);
}

gli_combine_fn gli_combine_kernel(gloo_dtype dtype, gloo_op op) {
  return gli_reduce_variant_combine(reduce_chosen(), dtype, op);
}

gli_scale_fn gli_scale_kernel(gloo_dtype dtype) {
  return gli_reduce_variant_scale(reduce_chosen(), dtype);
}

gli_widen_fn gli_widen_kernel(gloo_dtype dtype) {
  if ((unsigned)dtype >= GLOO_DTYPE_COUNT) return NULL;
  return reduce_chosen()->scale->widen[dtype];
}

gli_narrow_fn gli_narrow_kernel(gloo_dtype dtype) {
  if ((unsigned)dtype >= GLOO_DTYPE_COUNT) return NULL;
  return reduce_chosen()->scale->narrow[dtype];
}

gloo_op gli_op_between(gloo_op op) {
  return op == GLOO_AVERAGE || op == GLOO_SCALED_SUM ? GLOO_SUM : op;
}

bool gli_op_rounds(gloo_op op) {
  return op == GLOO_PRODUCT || gli_op_between(op) == GLOO_SUM;
}

typedef enum kind { INTEGER, FLOAT, COMPLEX, BOOL, KINDS } kind;

static kind kind_of(gloo_dtype dtype) {
  switch ((int)dtype) {
    case GLOO_BOOL:
      return BOOL;
    case GLOO_COMPLEX64:
    case GLOO_COMPLEX128:
      return COMPLEX;
    case GLOO_FLOAT16:
    case GLOO_BFLOAT16:
    case GLOO_FLOAT32:
    case GLOO_FLOAT64:
    case GLOO_FLOAT8_E4M3FN:
    case GLOO_FLOAT8_E5M2:
      return FLOAT;
    default:
      return INTEGER;
  }
}

bool gli_dtype_is_inexact(gloo_dtype dtype) {
  if ((unsigned)dtype >= GLOO_DTYPE_COUNT) return false;
  return kind_of(dtype) == FLOAT || kind_of(dtype) == COMPLEX;
}

bool gli_dtype_is_low_precision(gloo_dtype dtype) {
  return gli_dtype_is_inexact(dtype) && gloo_dtype_size(dtype) < 4;
}

#define NO_BITS "bitwise operations apply to integers and bool only"
#define NO_TRUTH "logical operations apply to integers and bool only"
#define NO_ORDER "complex numbers are not ordered"
#define NO_NUMBER "bool is not a numeric type; use lor, land or lxor"

const char *gli_reduce_refusal(gloo_dtype dtype, gloo_op op) {
  static const char *const refusals[KINDS][GLOO_OP_COUNT] = {
      [FLOAT] = {[GLOO_BAND] = NO_BITS,
                 [GLOO_BOR] = NO_BITS,
                 [GLOO_BXOR] = NO_BITS,
                 [GLOO_LAND] = NO_TRUTH,
                 [GLOO_LOR] = NO_TRUTH,
                 [GLOO_LXOR] = NO_TRUTH},
      [COMPLEX] = {[GLOO_MIN] = NO_ORDER,
                   [GLOO_MAX] = NO_ORDER,
                   [GLOO_BAND] = NO_BITS,
                   [GLOO_BOR] = NO_BITS,
                   [GLOO_BXOR] = NO_BITS,
                   [GLOO_LAND] = NO_TRUTH,
                   [GLOO_LOR] = NO_TRUTH,
                   [GLOO_LXOR] = NO_TRUTH},
      [BOOL] = {[GLOO_SUM] = NO_NUMBER,
                [GLOO_PRODUCT] = NO_NUMBER,
                [GLOO_AVERAGE] = NO_NUMBER},
  };
  if ((unsigned)dtype >= GLOO_DTYPE_COUNT) return "no such type";
  if ((unsigned)op >= GLOO_OP_COUNT) return "no such operation";
  return refusals[kind_of(dtype)][op];
}
