/* Blocks and pieces that lie apart: where other calls take one buffer with a
 * block for each rank, or one vector, these take a list of pointers. What such
 * a call does among ranks is what the call without `_list` does: the same
 * algorithms, operations, options and errors apply, and it matches calls of
 * either kind at other ranks.
 *
 * Lists are copied by the call; what they point to is read again in each run of
 * a persistent request. Blocks that happen to lie one behind the other, in the
 * order of the list, are used where they are. Others are copied once, to or
 * from memory that the request has for them: as much as they are together, for
 * as long as it exists. An output may not overlap another, or an input; inputs
 * may be the same.
 *
 * Pointers to no bytes may be NULL, and so may lists of them. Shapes, threads
 * and the forms `_start` and `_init` are as collectives.h says; P is the size
 * of the context. A refused call has sent nothing, and names the entry of the
 * list that it was refused for.
 *
 * Example:
 *
 *     gloo_status sum_gradients(gloo_context *context, float *const *gradients,
 *                               const size_t *counts, size_t n,
 *                               gloo_error *error) {
 *       return gloo_allreduce_list(context, NULL, (void *const *)gradients,
 *                                  counts, n, GLOO_FLOAT32, GLOO_SUM, NULL,
 *                                  error);
 *     }
 */
#ifndef GLOO_C_LISTS_H
#define GLOO_C_LISTS_H

#include <stddef.h>

#include "gloo_c/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gloo_allgather to a block of its own from each rank. In place
 * (GLOO_IN_PLACE, or input == outputs[own rank]): the input is in
 * outputs[own rank].
 * Shape: `input` has `count` elements; `outputs` is P pointers to `count`
 * elements each, and outputs[r] gets the input of rank r.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_COUNT (too large), GLOO_ERR_BUFFER (NULL or
 * overlapping), and those of gloo_allgather.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation is over; a
 * request is the caller's. */
GLOO_API gloo_status gloo_allgather_list(gloo_context *context,
                                         const void *input,
                                         void *const *outputs, size_t count,
                                         gloo_dtype dtype,
                                         const gloo_options *options,
                                         gloo_error *error);
GLOO_API gloo_status gloo_allgather_list_start(
    gloo_context *context, const void *input, void *const *outputs,
    size_t count, gloo_dtype dtype, const gloo_options *options,
    gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_allgather_list_init(
    gloo_context *context, const void *input, void *const *outputs,
    size_t count, gloo_dtype dtype, const gloo_options *options,
    gloo_request **request, gloo_error *error);

/* gloo_gather to a block of its own from each rank. In place, at the root only
 * (GLOO_IN_PLACE, or input == outputs[root]): its input is in outputs[root].
 * Shape: `input` has `count` elements; `outputs`, read at the root only, is P
 * pointers to `count` elements each, and outputs[r] gets the input of rank r.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_ROOT, GLOO_ERR_COUNT (too large),
 * GLOO_ERR_BUFFER (NULL or overlapping), and those of gloo_gather.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation is over; a
 * request is the caller's. */
GLOO_API gloo_status gloo_gather_list(gloo_context *context, const void *input,
                                      void *const *outputs, size_t count,
                                      gloo_dtype dtype, int root,
                                      const gloo_options *options,
                                      gloo_error *error);
GLOO_API gloo_status gloo_gather_list_start(
    gloo_context *context, const void *input, void *const *outputs,
    size_t count, gloo_dtype dtype, int root, const gloo_options *options,
    gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_gather_list_init(
    gloo_context *context, const void *input, void *const *outputs,
    size_t count, gloo_dtype dtype, int root, const gloo_options *options,
    gloo_request **request, gloo_error *error);

/* gloo_scatter of a block of its own for each rank. In place, as in
 * gloo_scatter: without a list (NULL), the root's output holds all blocks.
 * Shape: `inputs`, read at the root only, is P pointers to `count` elements
 * each; the output of rank r, `count` elements, gets what inputs[r] points to.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_ROOT, GLOO_ERR_COUNT (too large),
 * GLOO_ERR_BUFFER (NULL or overlapping), and those of gloo_scatter.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation is over; a
 * request is the caller's. */
GLOO_API gloo_status gloo_scatter_list(gloo_context *context,
                                       const void *const *inputs, void *output,
                                       size_t count, gloo_dtype dtype, int root,
                                       const gloo_options *options,
                                       gloo_error *error);
GLOO_API gloo_status gloo_scatter_list_start(
    gloo_context *context, const void *const *inputs, void *output,
    size_t count, gloo_dtype dtype, int root, const gloo_options *options,
    gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_scatter_list_init(
    gloo_context *context, const void *const *inputs, void *output,
    size_t count, gloo_dtype dtype, int root, const gloo_options *options,
    gloo_request **request, gloo_error *error);

/* gloo_alltoall of blocks that lie apart. In place (inputs NULL, or both lists
 * the same): outputs[r] holds what goes to rank r, and gets what comes from it.
 * Shape: both lists are P pointers to `count` elements each; outputs[r] of rank
 * i gets what inputs[i] of rank r points to.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_COUNT (too large), GLOO_ERR_BUFFER (NULL or
 * overlapping), and those of gloo_alltoall.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation is over; a
 * request is the caller's. */
GLOO_API gloo_status gloo_alltoall_list(gloo_context *context,
                                        const void *const *inputs,
                                        void *const *outputs, size_t count,
                                        gloo_dtype dtype,
                                        const gloo_options *options,
                                        gloo_error *error);
GLOO_API gloo_status gloo_alltoall_list_start(
    gloo_context *context, const void *const *inputs, void *const *outputs,
    size_t count, gloo_dtype dtype, const gloo_options *options,
    gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_alltoall_list_init(
    gloo_context *context, const void *const *inputs, void *const *outputs,
    size_t count, gloo_dtype dtype, const gloo_options *options,
    gloo_request **request, gloo_error *error);

/* gloo_reduce_scatter of a vector whose parts lie apart. There is no in-place
 * form.
 * Shape: `inputs` is P pointers to `count` elements each, of which inputs[r] is
 * the part that rank r gets combined; `output` has `count` elements.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_COUNT (too large),
 * GLOO_ERR_BUFFER (NULL or overlapping), and those of gloo_reduce_scatter.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation is over; a
 * request is the caller's. */
GLOO_API gloo_status gloo_reduce_scatter_list(gloo_context *context,
                                              const void *const *inputs,
                                              void *output, size_t count,
                                              gloo_dtype dtype, gloo_op op,
                                              const gloo_options *options,
                                              gloo_error *error);
GLOO_API gloo_status gloo_reduce_scatter_list_start(
    gloo_context *context, const void *const *inputs, void *output,
    size_t count, gloo_dtype dtype, gloo_op op, const gloo_options *options,
    gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_reduce_scatter_list_init(
    gloo_context *context, const void *const *inputs, void *output,
    size_t count, gloo_dtype dtype, gloo_op op, const gloo_options *options,
    gloo_request **request, gloo_error *error);

/* gloo_allreduce of one vector in `n` pieces. Ranks must agree on its length,
 * and may differ in how it is cut. In place (inputs NULL, or both lists the
 * same): the outputs hold the pieces.
 * Shape: the lists are `n` pointers each, to counts[i] elements; the vector is
 * piece 0, then piece 1, and so on. `counts` is read by the call.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_COUNT (too large, or no list of
 * counts), GLOO_ERR_BUFFER (NULL or overlapping), and those of gloo_allreduce.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation is over; a
 * request is the caller's. */
GLOO_API gloo_status gloo_allreduce_list(
    gloo_context *context, const void *const *inputs, void *const *outputs,
    const size_t *counts, size_t n, gloo_dtype dtype, gloo_op op,
    const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_allreduce_list_start(
    gloo_context *context, const void *const *inputs, void *const *outputs,
    const size_t *counts, size_t n, gloo_dtype dtype, gloo_op op,
    const gloo_options *options, gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_allreduce_list_init(
    gloo_context *context, const void *const *inputs, void *const *outputs,
    const size_t *counts, size_t n, gloo_dtype dtype, gloo_op op,
    const gloo_options *options, gloo_request **request, gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
