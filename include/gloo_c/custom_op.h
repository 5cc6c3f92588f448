/* Operations of your own, for all collectives that reduce: pass the operation
 * in gloo_options.custom, and GLOO_CUSTOM where the call asks for a gloo_op.
 *
 * An operation must be associative. If it is not commutative, inputs are
 * combined in rank order, ((0 op 1) op 2) ... up to the parentheses, and only
 * algorithms that keep this order are chosen, or may be named (others give
 * GLOO_ERR_UNSUPPORTED, with both names in the message). With `ordered` in
 * gloo_options the parentheses are as written here. Several inputs of one rank
 * (`_multi`) are combined first, in the order of their list. All ranks must
 * pass operations with the same name, element size and commutativity, or the
 * call fails with GLOO_ERR_MISMATCH on every rank (a reduce, whose messages
 * have less room, misses one such mistake in 4,096).
 *
 * Example:
 *
 *     static void later(const gloo_custom_args *args) {
 *       const int64_t *a = args->left, *b = args->right;
 *       int64_t *to = args->result;
 *       for (size_t i = 0; i < args->count; i++)
 *         to[i] = a[i] < b[i] ? b[i] : a[i];
 *     }
 *     gloo_status latest(gloo_context *context, int64_t *time,
 *                        gloo_error *error) {
 *       gloo_options options = GLOO_OPTIONS_INIT;
 *       gloo_status status =
 *           gloo_custom_op_create(later, NULL, &options.custom, error);
 *       if (status != GLOO_OK) return status;
 *       status = gloo_allreduce(context, GLOO_IN_PLACE, time, 1, GLOO_INT64,
 *                               GLOO_CUSTOM, &options, error);
 *       gloo_custom_op_destroy(options.custom);
 *       return status;
 *     }
 */
#ifndef GLOO_C_CUSTOM_OP_H
#define GLOO_C_CUSTOM_OP_H

#include <stddef.h>

#include "gloo_c/status.h"
#include "gloo_c/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gloo_custom_op gloo_custom_op;

/* Arguments of an operation's function, which stores result[i] = left[i] op
 * right[i] for `count` elements, at least one, of `element_bytes` each.
 * `result` may be the same address as `left` or `right`; there is no other
 * overlap. All three are aligned to the largest power of two that divides the
 * element size, at most 16. The inputs of the ranks arrive in pieces of any
 * number of whole elements. */
typedef struct gloo_custom_args {
  size_t struct_size; /* filled by the library; newer versions may fill more */
  const void *left, *right;
  void *result;
  size_t count;
  size_t element_bytes;
  gloo_dtype dtype; /* of the call */
  const void *type; /* gloo_options.custom_type of this rank's call */
  void *user;       /* of the operation */
} gloo_custom_args;

/* The function of an operation.
 *
 * It runs in the thread that makes progress, a thread in a call of this library
 * or the library's own, and only once at a time per device. Nothing else
 * advances while it runs, so keep it short. It must return, and must not call
 * functions of this library that take a device, a context or an operation:
 * collectives, messages and gloo_request_... then return GLOO_ERR_INVALID,
 * contexts and operations are not destroyed, and other calls may not return. */
typedef void (*gloo_custom_fn)(const gloo_custom_args *args);

/* Options of an operation.
 *
 * `name`: identifies the operation between ranks and in messages; copied, up to
 * 63 characters. NULL: "custom".
 *
 * `commutative`: nonzero if left op right equals right op left, not necessarily
 * bit for bit.
 *
 * `element_bytes`: 0 for an operation on the types of gloo_dtype, which the
 * call names, or on elements of any size, which the call passes with
 * GLOO_OPAQUE and gloo_options.custom_element_bytes. Otherwise the size of
 * elements that are opaque to the library: the call passes GLOO_OPAQUE, or a
 * type of that size.
 *
 * `user`: passed to the function.
 *
 * `release` (may be NULL): called with `user` when the operation is destroyed
 * and no started or prepared request needs it any longer. It may run with locks
 * held, in any thread that is in a call, and must not call functions of this
 * library. */
typedef struct gloo_custom_op_options {
  size_t struct_size;
  const char *name;
  int commutative;
  size_t element_bytes;
  void *user;
  void (*release)(void *user);
} gloo_custom_op_options;
#define GLOO_CUSTOM_OP_OPTIONS_INIT \
  { sizeof(gloo_custom_op_options), 0, 0, 0, 0, 0 }

/* Creates an operation; NULL options select the defaults. All contexts may use
 * it, and many calls at once.
 * Errors: GLOO_ERR_INVALID (`function` or `op` is NULL, or the name is too
 * long), GLOO_ERR_UNSUPPORTED (options of a newer version), GLOO_ERR_NO_MEMORY.
 * Threads: any.
 * Ownership: *op is the caller's; `user` stays the caller's, and must stay
 * valid as long as operations use it. */
GLOO_API gloo_status gloo_custom_op_create(
    gloo_custom_fn function, const gloo_custom_op_options *options,
    gloo_custom_op **op, gloo_error *error);

/* Destroys an operation. Requests that were started or prepared with it keep it
 * as long as they need it, and `release` is called after that. NULL is allowed.
 * Errors: none.
 * Threads: any.
 * Ownership: the handle is invalid afterwards. */
GLOO_API void gloo_custom_op_destroy(gloo_custom_op *op);

#ifdef __cplusplus
}
#endif
#endif
