/* Kernels by variant, type and operation, and their building blocks. */
#ifndef GLI_KERNELS_REDUCE_KERNEL_H
#define GLI_KERNELS_REDUCE_KERNEL_H

#include "kernels/reduce.h"
#include "kernels/reduce_loop.h"

/* Combines two sources in one pass, into two destinations or into one around
 * the caches. `bytes` is a multiple of GLI_FUSED_BYTES, and a destination that
 * is stored around the caches is aligned to as much. No fence. */
#define GLI_FUSED_BYTES ((size_t)64)
typedef enum gli_fused_mode {
  GLI_STREAM_ONE,   /* `second` is not used */
  GLI_STORE_TWO,    /* both through the caches */
  GLI_STORE_STREAM, /* the second around the caches */
  GLI_STREAM_TWO,
} gli_fused_mode;
typedef void (*gli_fused_fn)(void *first, void *second, const void *left,
                             const void *right, size_t bytes,
                             gli_fused_mode mode);

/* Functions that combine many operands. Intermediate results have a type that
 * may be wider than the elements. */
typedef struct gli_combine_parts {
  size_t element_bytes, wide_bytes;
  gli_reduce_fn both;   /* element = element op element */
  gli_reduce_fn begin;  /* wide = element op element */
  gli_reduce_fn step;   /* wide = wide op element, in place */
  gli_reduce_fn finish; /* element = wide op element */
  gli_fused_fn fused;   /* same as `both`; NULL if it would not pay off */
  /* Averages only, else NULL: `both` and `finish` halve the value they round,
   * so larger sums are divided by half the number of operands first. */
  void (*divide)(void *wide, size_t count, float by);
  const void
      *nothing; /* elements that `finish` adds without effect, -0.0; NULL:
                          the wide value, as the half of its double is equal */
} gli_combine_parts;

/* Largest number of elements in a block of intermediate results, and arrays
 * with that many times -0.0, in 16 and in 8 bits (reduce_combine.c). */
#define GLI_WIDE_BLOCK 1024
extern const uint16_t gli_nothing16[GLI_WIDE_BLOCK];
extern const uint8_t gli_nothing8[GLI_WIDE_BLOCK];

/* Implements a gli_combine_fn by these parts. */
void gli_combine(const gli_combine_parts *parts, void *const *dsts,
                 size_t n_dsts, const void *const *srcs, size_t n_srcs,
                 size_t count, uint64_t streamed);

/* Defines name_combine, whose elements are `factor` elements of the parts. */
#define GLI_COMBINE(name, parts, factor)                               \
  static void name##_combine(void *const *dsts, size_t n_dsts,         \
                             const void *const *srcs, size_t n_srcs,   \
                             size_t count, uint64_t streamed) {        \
    gli_combine(&(parts), dsts, n_dsts, srcs, n_srcs, count *(factor), \
                streamed);                                             \
  }

/* Defines the kernels name and name_combine. */
#define GLI_KERNEL_AS(name, type, expression, fused)  \
  GLI_GROUP(name, type, type, type, expression)       \
  GLI_WALK(name, type, 1, sizeof(type), sizeof(type), \
           GLI_GROUP_BYTES / sizeof(type))            \
  fused(name, type, sizeof(type)) GLI_COMBINE(name, name##_parts, 1)
#define GLI_KERNEL(name, type, expression) \
  GLI_KERNEL_AS(name, type, expression, GLI_WITHOUT_FUSED)
#define GLI_KERNEL_FUSED(name, type, expression) \
  GLI_KERNEL_AS(name, type, expression, GLI_WITH_FUSED)

#define GLI_WITHOUT_FUSED(name, type, bytes)      \
  static const gli_combine_parts name##_parts = { \
      bytes, bytes, name, name, name, name, NULL, NULL, NULL};
#define GLI_WITH_FUSED(name, type, bytes)         \
  GLI_FUSE(name, type)                            \
  static const gli_combine_parts name##_parts = { \
      bytes, bytes, name, name, name, name, name##_fused, NULL, NULL};

/* Defines name_fused, which applies name_group to GLI_GROUP_BYTES at a time. */
#define GLI_FUSE(name, type)                                                   \
  GLI_INLINE void name##_fused_as(void *first, void *second, const void *left, \
                                  const void *right, size_t bytes,             \
                                  gli_fused_mode mode) {                       \
    for (size_t i = 0; i < bytes; i += GLI_GROUP_BYTES) {                      \
      type t[GLI_GROUP_BYTES / sizeof(type)];                                  \
      name##_group(t, (const unsigned char *)left + i,                         \
                   (const unsigned char *)right + i,                           \
                   GLI_GROUP_BYTES / sizeof(type));                            \
      gli_put_group((unsigned char *)first + i, t, sizeof t,                   \
                    mode == GLI_STREAM_ONE || mode == GLI_STREAM_TWO);         \
      if (mode == GLI_STREAM_ONE) continue;                                    \
      gli_put_group((unsigned char *)second + i, t, sizeof t,                  \
                    mode != GLI_STORE_TWO);                                    \
    }                                                                          \
  }                                                                            \
  static void name##_fused(void *first, void *second, const void *left,        \
                           const void *right, size_t bytes,                    \
                           gli_fused_mode mode) {                              \
    switch (mode) {                                                            \
      case GLI_STREAM_ONE:                                                     \
        name##_fused_as(first, first, left, right, bytes, GLI_STREAM_ONE);     \
        break;                                                                 \
      case GLI_STORE_TWO:                                                      \
        name##_fused_as(first, second, left, right, bytes, GLI_STORE_TWO);     \
        break;                                                                 \
      case GLI_STORE_STREAM:                                                   \
        name##_fused_as(first, second, left, right, bytes, GLI_STORE_STREAM);  \
        break;                                                                 \
      case GLI_STREAM_TWO:                                                     \
        name##_fused_as(first, second, left, right, bytes, GLI_STREAM_TWO);    \
        break;                                                                 \
    }                                                                          \
  }

/* The kernel files are compiled once for any processor, and once more with
 * GLI_VARIANT for each extension in reduce.c's list. All variants produce the
 * same bits. */
#ifndef GLI_VARIANT
#define GLI_VARIANT portable
#endif
#define GLI_PASTE(name, variant) name##_##variant
#define GLI_PASTE_VALUE(name, variant) GLI_PASTE(name, variant)
#define GLI_OF_VARIANT(name) GLI_PASTE_VALUE(name, GLI_VARIANT)

/* Kernels by type and operation, or NULL if unsupported. */
typedef struct gli_reduce_entry {
  gli_reduce_fn two;
  gli_combine_fn many;
} gli_reduce_entry;
typedef struct gli_reduce_table {
  gli_reduce_entry at[GLOO_DTYPE_COUNT][GLOO_OP_COUNT];
} gli_reduce_table;
typedef struct gli_scale_table {
  gli_scale_fn at[GLOO_DTYPE_COUNT];
  gli_widen_fn widen[GLOO_DTYPE_COUNT];
  gli_narrow_fn narrow[GLOO_DTYPE_COUNT];
} gli_scale_table;

#define GLI_ENTRY(name) \
  { name, name##_combine }

/* List of kernel files: X(part, variant). */
#define GLI_REDUCE_PARTS(X, variant) \
  X(integer, variant) X(float, variant) X(narrow, variant)
#define GLI_REDUCE_PART_COUNT 3

#define GLI_DECLARE_PART(part, variant) \
  extern const gli_reduce_table gli_reduce_##part##_##variant;
#define GLI_DECLARE_VARIANT(variant)          \
  GLI_REDUCE_PARTS(GLI_DECLARE_PART, variant) \
  extern const gli_scale_table gli_scale_##variant;
GLI_DECLARE_VARIANT(portable)
GLI_DECLARE_VARIANT(avx2)
GLI_DECLARE_VARIANT(avx512)

typedef struct gli_reduce_variant {
  const char *name;
  bool (*usable)(void); /* true if this processor can run it efficiently */
  const gli_reduce_table *parts[GLI_REDUCE_PART_COUNT];
  const gli_scale_table *scale;
} gli_reduce_variant;

/* Variants, widest first. The last one runs on every processor. */
extern const gli_reduce_variant gli_reduce_variants[];
extern const size_t gli_reduce_variant_count;

/* Return NULL if the variant has no such kernel. */
gli_reduce_fn gli_reduce_variant_kernel(const gli_reduce_variant *variant,
                                        gloo_dtype dtype, gloo_op op);
gli_combine_fn gli_reduce_variant_combine(const gli_reduce_variant *variant,
                                          gloo_dtype dtype, gloo_op op);
gli_scale_fn gli_reduce_variant_scale(const gli_reduce_variant *variant,
                                      gloo_dtype dtype);

#endif
