/* Reduction kernels, and the names of types and operations. */
#ifndef GLI_CORE_REDUCE_H
#define GLI_CORE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include "gloo_c/types.h"

/* dst[i] = left[i] op right[i] for `count` elements. dst may be the very same
 * address as left or as right; no other overlap. No pointer need be aligned. */
typedef void (*gli_reduce_fn)(void *dst, const void *left, const void *right,
                              size_t count);

/* The kernel for a type and an operation, NULL when the pair is not supported
 * or either value is unknown. */
gli_reduce_fn gli_reduce_kernel(gloo_dtype dtype, gloo_op op);

/* Look up by name; false when there is no such name. */
bool gli_dtype_from_name(const char *name, gloo_dtype *dtype);
bool gli_op_from_name(const char *name, gloo_op *op);

#endif
