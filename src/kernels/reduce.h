/* Reduction kernels, and the names of types and operations. */
#ifndef GLI_KERNELS_REDUCE_H
#define GLI_KERNELS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/types.h"

/* dst[i] = left[i] op right[i] for `count` elements. dst may be the very same
 * address as left or as right; no other overlap. No pointer need be aligned. */
typedef void (*gli_reduce_fn)(void *dst, const void *left, const void *right,
                              size_t count);

/* The kernel for a type and an operation, NULL when the pair is not supported
 * or either value is unknown. There is one for averages of low-precision floats
 * only (gli_dtype_is_low_precision), which takes all operands at once; for
 * others see gli_op_between. */
gli_reduce_fn gli_reduce_kernel(gloo_dtype dtype, gloo_op op);

/* Why a type and an operation do not go together, as the second half of a
 * sentence ("complex numbers have no order"), or that either is unknown. NULL:
 * they do, average included. */
const char *gli_reduce_refusal(gloo_dtype dtype, gloo_op op);

/* Returns the operation between operands: sum for average, which then takes
 * gli_scale_kernel with 1.0 / operands, and for scaled sums, which took it with
 * their factors before; the operation itself otherwise. */
gloo_op gli_op_between(gloo_op op);

/* Do numbers of this type stand for others that are near: floats and complex
 * numbers? And are they floats that are added as float32, and then rounded? */
bool gli_dtype_is_inexact(gloo_dtype dtype);
bool gli_dtype_is_low_precision(gloo_dtype dtype);

/* Does the operation round such numbers, so that its order shows? */
bool gli_op_rounds(gloo_op op);

/* dsts[k][i] = srcs[0][i] op srcs[1][i] op ... for every k, the operands taken
 * in this order. One source is copied to all destinations. 16-bit and 8-bit
 * floats are accumulated in float32 and rounded once, and so are their
 * averages, whose sum is divided by n_srcs before: they are finite where all
 * operands are (up to 65536 of them). All other types give the bits that a
 * chain of two-operand kernels gives. Any dst may be the very same
 * address as any src; no other overlap. At least one source and one
 * destination. Bit k of `streamed`: dsts[k] is written around the caches where
 * the processor can; the stores are fenced on return. A dst that is also a src
 * may be written normally, and so may those from the 65th on. */
#define GLI_STREAM_ALL UINT64_MAX
typedef void (*gli_combine_fn)(void *const *dsts, size_t n_dsts,
                               const void *const *srcs, size_t n_srcs,
                               size_t count, uint64_t streamed);

/* The kernel for a type and an operation, NULL where gli_reduce_kernel has
 * none. */
gli_combine_fn gli_combine_kernel(gloo_dtype dtype, gloo_op op);

/* dst[i] = src[i] * factor, dst may be src; no other overlap. Where factor is
 * exactly 1.0 / n for a whole number n up to 2^24, elements are divided by n:
 * floats are rounded to nearest even once, integers truncated toward zero. With
 * other factors, float32 is multiplied in float64, narrower floats in float32
 * with the factor rounded to it; integers are multiplied in float64 and
 * truncated toward zero, and what does not fit becomes the nearest number that
 * does. The parts of complex numbers are scaled each. */
typedef void (*gli_scale_fn)(void *dst, const void *src, size_t count,
                             double factor);

/* NULL for bool and for unknown types. */
gli_scale_fn gli_scale_kernel(gloo_dtype dtype);

/* Narrow floats as float32, and back: dst[i] = src[i] * factor, or, where
 * factor is exactly 1.0 / n as above, src[i] / n; and dst[i] = src[i] / by,
 * rounded to nearest even. No overlap. */
typedef void (*gli_widen_fn)(float *dst, const void *src, size_t count,
                             double factor);
typedef void (*gli_narrow_fn)(void *dst, const float *src, size_t count,
                              float by);

/* NULL for types that are not narrow. */
gli_widen_fn gli_widen_kernel(gloo_dtype dtype);
gli_narrow_fn gli_narrow_kernel(gloo_dtype dtype);

/* Look up by name; false when there is no such name. */
bool gli_dtype_from_name(const char *name, gloo_dtype *dtype);
bool gli_op_from_name(const char *name, gloo_op *op);

#endif
