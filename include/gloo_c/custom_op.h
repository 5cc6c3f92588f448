/* Operations of your own, for all collectives that reduce: pass the operation
 * in gloo_options.custom, and GLOO_CUSTOM where the call asks for a gloo_op.
 *
 * An operation must be associative. Where it is not commutative, inputs are
 * combined in the order of ranks, ((0 op 1) op 2) ... up to brackets, and only
 * algorithms that do so are chosen, or may be named (others:
 * GLOO_ERR_UNSUPPORTED, naming both); with `ordered` in gloo_options brackets
 * stand as written here. Several inputs of one rank (`_multi`) are combined
 * first, in the order of their list. All ranks must pass operations
 * alike: of the same name, element size and commutativity, or the call fails
 * with GLOO_ERR_MISMATCH on every rank (a reduce, whose messages have less room
 * to tell, misses one such mistake in 4,096).
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

/* Arguments of an operation's function: it stores result[i] = left[i] op
 * right[i] for `count` elements, at least one, of `element_bytes` each.
 * `result` may be the same address as `left` or `right`; there is no other
 * overlap. All three are aligned for elements of that size: to the largest
 * power of two that divides it, at most 16. The inputs of the ranks arrive in
 * pieces of any number of whole elements. */
typedef struct gloo_custom_args {
  size_t struct_size; /* what the library fills; later ones may fill more */
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
 * It runs in the thread that makes progress: one in a call of this library, or
 * the library's own; one at a time for each device. While it runs, nothing else
 * advances: keep it short. It must return, and must not call functions of this
 * library that take a device, a context or an operation: collectives, messages
 * and gloo_request_... then give GLOO_ERR_INVALID, contexts and operations are
 * not destroyed, and other calls may never return. */
typedef void (*gloo_custom_fn)(const gloo_custom_args *args);

/* `name`: identifies the operation between ranks and in messages; copied, up to
 *   63 characters. NULL: "custom".
 * `commutative`: left op right equals right op left, bit for bit or not.
 * `element_bytes`: 0 for an operation on the types of gloo_dtype, which the
 *   call names, or on elements of any size, which the call gives with
 *   GLOO_OPAQUE and gloo_options.custom_element_bytes. Else the size of
 *   elements that are opaque to the library: the call names GLOO_OPAQUE, or a
 *   type of that size.
 * `user`: passed to the function.
 * `release` (may be NULL): called with `user` when the operation is destroyed
 *   and no started or prepared request needs it any more. It may run with locks
 *   held, in any thread that is in a call: it must not call functions of this
 *   library. */
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

/* Make one; NULL options give the defaults. It can be used by all contexts, and
 * by many calls at once.
 * Errors: GLOO_ERR_INVALID (no function, no place for it, a name that is
 * too long), GLOO_ERR_UNSUPPORTED (options of a newer version),
 * GLOO_ERR_NO_MEMORY.
 * Threads: any. Ownership: *op is the caller's; `user` stays the caller's, and
 * must be there as long as operations use it. */
GLOO_API gloo_status gloo_custom_op_create(
    gloo_custom_fn function, const gloo_custom_op_options *options,
    gloo_custom_op **op, gloo_error *error);

/* Release it. Operations that were started or prepared with it keep it as long
 * as they need it; `release` says when that has ended. NULL is
 * allowed.
 * Errors: none. Threads: any. Ownership: the handle is not valid any more. */
GLOO_API void gloo_custom_op_destroy(gloo_custom_op *op);

#ifdef __cplusplus
}
#endif
#endif
