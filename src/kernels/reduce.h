/* Reduction kernels, and the names of types and operations. */
#ifndef GLI_KERNELS_REDUCE_H
#define GLI_KERNELS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/types.h"

/* Computes dst[i] = left[i] op right[i] for `count` elements. `dst` may equal
 * `left` or `right`; no other overlap. Pointers need no alignment. */
typedef void (*gli_reduce_fn)(void *dst, const void *left, const void *right,
                              size_t count);

/* Returns the kernel for a type and an operation, or NULL if the pair is not
 * supported or either value is unknown. Averages have a kernel for floats and
 * complex numbers only (gli_dtype_is_inexact), which takes all operands at once;
 * for other types see gli_op_between. */
gli_reduce_fn gli_reduce_kernel(gloo_dtype dtype, gloo_op op);

/* Returns the reason why an operation does not support a type, as the second
 * half of a sentence ("complex numbers have no order"), or that either is
 * unknown. Returns NULL if it is supported, average included. */
const char *gli_reduce_refusal(gloo_dtype dtype, gloo_op op);

/* Returns the operation between operands: sum for an average, which then
 * applies gli_scale_kernel with 1.0 / operands, and for a scaled sum, which has
 * applied it with its factors; otherwise the operation itself. */
gloo_op gli_op_between(gloo_op op);

/* gli_dtype_is_inexact returns true for floats and complex numbers,
 * gli_dtype_is_low_precision for floats narrower than float32, which are added
 * in float32 and then rounded. */
bool gli_dtype_is_inexact(gloo_dtype dtype);
bool gli_dtype_is_low_precision(gloo_dtype dtype);

/* Returns true if the operation rounds inexact numbers: order matters. */
bool gli_op_rounds(gloo_op op);

/* Computes dsts[k][i] = srcs[0][i] op srcs[1][i] op ... for every k, with the
 * operands in this order. One source is copied to all destinations. 16-bit and
 * 8-bit floats are accumulated in float32 and rounded once. So are their
 * averages, whose sum is first divided by n_srcs: they are finite if all
 * operands are (up to 65536 operands). Other types give the same bits as a
 * chain of two-operand kernels, and a division for averages. Any dst may equal any src; no other overlap. At
 * least one source and one destination. If bit k of `streamed` is set, dsts[k]
 * is written around the caches if the processor can; the stores are fenced on
 * return. A dst that is also a src may be written normally, and so may those
 * from the 65th on. */
#define GLI_STREAM_ALL UINT64_MAX
typedef void (*gli_combine_fn)(void *const *dsts, size_t n_dsts,
                               const void *const *srcs, size_t n_srcs,
                               size_t count, uint64_t streamed);

/* Returns the kernel for a type and an operation, or NULL if gli_reduce_kernel
 * has none. */
gli_combine_fn gli_combine_kernel(gloo_dtype dtype, gloo_op op);

/* Computes dst[i] = src[i] * factor. `dst` may equal `src`; no other overlap.
 * If the factor is exactly 1.0 / n for a whole number n up to 2^24, elements
 * are divided by n: floats are rounded once to nearest even, integers truncated
 * toward zero. With other factors, float32 is multiplied in float64, and
 * narrower floats in float32 with the factor rounded to it. Integers are
 * multiplied in float64, truncated toward zero, and clamped to the range of the
 * type. Both parts of a complex number are scaled. */
typedef void (*gli_scale_fn)(void *dst, const void *src, size_t count,
                             double factor);

/* Returns NULL for bool and for unknown types. */
gli_scale_fn gli_scale_kernel(gloo_dtype dtype);

/* Convert low-precision floats to float32 and back. Widening computes src[i] *
 * factor, or src[i] / n if the factor is exactly 1.0 / n as above; narrowing
 * computes src[i] / by, rounded to nearest even. No overlap. */
typedef void (*gli_widen_fn)(float *dst, const void *src, size_t count,
                             double factor);
typedef void (*gli_narrow_fn)(void *dst, const float *src, size_t count,
                              float by);

/* Return NULL for types that are not low-precision floats. */
gli_widen_fn gli_widen_kernel(gloo_dtype dtype);
gli_narrow_fn gli_narrow_kernel(gloo_dtype dtype);

/* Look up a type or an operation by name. Return false if it is unknown. */
bool gli_dtype_from_name(const char *name, gloo_dtype *dtype);
bool gli_op_from_name(const char *name, gloo_op *op);

#endif
