/* Collectives on lists of blocks: other calls take one contiguous buffer with a
 * block for each rank, or one vector; these calls take a list of pointers.
 * Among ranks such a call is the call without `_list`: the same algorithms,
 * operations, options and errors apply, and it matches calls of either kind on
 * other ranks.
 *
 * The call copies its lists; a persistent request reads the blocks again in
 * each run. Blocks that are contiguous in the order of the list are used in
 * place. Other blocks are copied once, to or from memory of the request: their
 * total size, for as long as the request exists. An output may not overlap
 * another, or an input; inputs may be the same.
 *
 * Pointers to empty blocks may be NULL, and so may their lists. Shapes,
 * threads and the forms `_start` and `_init` are as collectives.h documents; P
 * is the size of the context. A refused call has sent nothing, and its error
 * names the entry of the list.
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

/* gloo_allgather into a separate block for each rank's input. In place
 * (GLOO_IN_PLACE, or input == outputs[own rank]): the input is in outputs[own
 * rank].
 * Shape: `input` has `count` elements; `outputs` is P pointers to `count`
 * elements each, and outputs[r] gets the input of rank r.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_COUNT (too large), GLOO_ERR_BUFFER (NULL or
 * overlapping), and those of gloo_allgather.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation has ended; a
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

/* gloo_gather into a separate block for each rank's input. In place, at the
 * root only (GLOO_IN_PLACE, or input == outputs[root]): its input is in
 * outputs[root].
 * Shape: `input` has `count` elements; `outputs`, read at the root only, is P
 * pointers to `count` elements each, and outputs[r] gets the input of rank r.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_ROOT, GLOO_ERR_COUNT (too large),
 * GLOO_ERR_BUFFER (NULL or overlapping), and those of gloo_gather.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation has ended; a
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

/* gloo_scatter from a separate block for each rank. In place, as in
 * gloo_scatter: without a list (NULL), the root's output holds all blocks.
 * Shape: `inputs`, read at the root only, is P pointers to `count` elements
 * each; the output of rank r, `count` elements, gets the block at inputs[r].
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_ROOT, GLOO_ERR_COUNT (too large),
 * GLOO_ERR_BUFFER (NULL or overlapping), and those of gloo_scatter.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation has ended; a
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

/* gloo_alltoall with separate blocks. In place (inputs NULL, or both lists the
 * same): outputs[r] holds the block for rank r, and gets the block from it.
 * Shape: both lists are P pointers to `count` elements each; outputs[r] of rank
 * i gets the block at inputs[i] of rank r.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_COUNT (too large), GLOO_ERR_BUFFER (NULL or
 * overlapping), and those of gloo_alltoall.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation has ended; a
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

/* gloo_reduce_scatter of a vector in separate parts. Not available in place.
 * Shape: `inputs` is P pointers to `count` elements each; the inputs[r] of all
 * ranks are combined into the output of rank r, `count` elements.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_COUNT (too large),
 * GLOO_ERR_BUFFER (NULL or overlapping), and those of gloo_reduce_scatter.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation has ended; a
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
 * and may divide it differently. In place (inputs NULL, or both lists the
 * same): the outputs hold the pieces.
 * Shape: the lists are `n` pointers each, to counts[i] elements; the vector is
 * piece 0, then piece 1, and so on. `counts` is read by the call.
 * Errors: GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_COUNT (too large, or `counts`
 * is NULL), GLOO_ERR_BUFFER (NULL or overlapping), and those of gloo_allreduce.
 * Threads: any. Ownership: all buffers and lists stay the caller's; the lists
 * are needed during the call only, the buffers until the operation has ended; a
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
