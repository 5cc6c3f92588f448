/* The one loop of all reduction kernels. */
#ifndef GLI_CORE_REDUCE_KERNEL_H
#define GLI_CORE_REDUCE_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/reduce.h"

/* dst may be left or right, so that compilers cannot see that iterations are
 * independent of each other. They are: element i depends on elements i only. */
#if defined(__clang__)
#define GLI_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define GLI_INDEPENDENT _Pragma("GCC ivdep")
#else
#define GLI_INDEPENDENT
#endif

/* Define static void name(dst, left, right, count) that stores `expression` of
 * `a` and `b`, elements of `type`. memcpy is how portable C reads and writes
 * unaligned memory; it costs nothing. */
#define GLI_KERNEL(name, type, expression)                               \
  static void name(void *dst, const void *left, const void *right,       \
                   size_t count) {                                       \
    GLI_INDEPENDENT                                                      \
    for (size_t i = 0; i < count; i++) {                                 \
      type a, b, result;                                                 \
      memcpy(&a, (const unsigned char *)left + i * sizeof a, sizeof a);  \
      memcpy(&b, (const unsigned char *)right + i * sizeof b, sizeof b); \
      result = (type)(expression);                                       \
      memcpy((unsigned char *)dst + i * sizeof a, &result, sizeof a);    \
    }                                                                    \
  }

/* The kernel files are compiled once for any processor and once more for each
 * extension in reduce.c's list, with GLI_VARIANT naming it. All variants give
 * the same bits. */
#ifndef GLI_VARIANT
#define GLI_VARIANT portable
#endif
#define GLI_PASTE(name, variant) name##_##variant
#define GLI_PASTE_VALUE(name, variant) GLI_PASTE(name, variant)
#define GLI_OF_VARIANT(name) GLI_PASTE_VALUE(name, GLI_VARIANT)

/* Kernels by type and operation, NULL where there is none. */
typedef struct gli_reduce_table {
  gli_reduce_fn at[GLOO_DTYPE_COUNT][GLOO_OP_COUNT];
} gli_reduce_table;

extern const gli_reduce_table gli_reduce_integer_portable,
    gli_reduce_float_portable, gli_reduce_integer_avx2, gli_reduce_float_avx2;

typedef struct gli_reduce_variant {
  const char *name;
  const gli_reduce_table *integer, *floating;
} gli_reduce_variant;

/* Widest first; the last one runs everywhere. */
extern const gli_reduce_variant gli_reduce_variants[];
extern const size_t gli_reduce_variant_count;

/* Can this processor run it? */
bool gli_reduce_variant_usable(const gli_reduce_variant *variant);

gli_reduce_fn gli_reduce_variant_kernel(const gli_reduce_variant *variant,
                                        gloo_dtype dtype, gloo_op op);

#endif
