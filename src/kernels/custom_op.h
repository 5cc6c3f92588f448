/* Custom operations, internal interface. */
#ifndef GLI_KERNELS_CUSTOM_OP_H
#define GLI_KERNELS_CUSTOM_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/custom_op.h"

/* Adds a holder, which calls gloo_custom_op_destroy when it is done. */
void gli_custom_op_hold(gloo_custom_op *op);

const char *gli_custom_op_name(const gloo_custom_op *op);
bool gli_custom_op_commutes(const gloo_custom_op *op);
size_t gli_custom_op_element_bytes(const gloo_custom_op *op); /* 0 if any */

/* Hashes the properties that all ranks must agree on. */
uint32_t gli_custom_op_hash(const gloo_custom_op *op, size_t element_bytes);

/* Element type of a call, and its size in bytes. */
typedef struct gli_custom_call {
  const gloo_custom_op *op;
  gloo_dtype dtype;
  size_t element_bytes; /* at least 1 */
  const void *type;     /* pointer from the caller */
  uint8_t *work; /* scratch memory of three elements, aligned to 64 bytes; NULL
                    if elements have at most GLI_CUSTOM_SHORT bytes */
} gli_custom_call;

/* Longest elements, in bytes, for which `work` may be NULL. */
#define GLI_CUSTOM_SHORT ((size_t)4096)

/* Returns the distance between elements of `work`, in bytes. */
static inline size_t gli_custom_op_stride(size_t element_bytes) {
  return (element_bytes + 63) & ~(size_t)63;
}

/* Behave like a gli_reduce_fn and a gli_combine_fn (kernels/reduce.h); operands
 * need no alignment. */
void gli_custom_op_apply(const gli_custom_call *call, void *dst,
                         const void *left, const void *right, size_t count);
void gli_custom_op_combine(const gli_custom_call *call, void *const *dsts,
                           size_t n_dsts, const void *const *srcs,
                           size_t n_srcs, size_t count);

/* True while this thread runs such a function. */
extern _Thread_local bool gli_inside_custom_op;
static inline bool gli_custom_op_inside(void) {
  return gli_inside_custom_op;
}
/* Refuses a call from within such a function. Returns the status. */
gloo_status gli_custom_op_refuse(const char *function, gloo_error *error);

#endif
