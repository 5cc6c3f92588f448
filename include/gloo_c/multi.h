/* Several buffers per rank, as in Gloo: for ranks with several inputs or
 * outputs each, such as the copies of a model in one process. Among ranks such
 * a call is the call without `_multi`; the same algorithms, errors and options
 * apply, and it matches calls of either kind on other ranks.
 *
 * inputs and outputs are lists of pointers, which are copied; each buffer has
 * the length of the one buffer in the call without `_multi`. In a reduction the
 * numbers of inputs and outputs may differ between ranks. Each input is read
 * once: inputs are combined piece by piece, in the order of the list, while
 * finished pieces are sent. 16-bit and 8-bit floats are rounded once in this
 * step. Further outputs are copies of the first. GLOO_AVERAGE is not available.
 * GLOO_SCALED_SUM multiplies the sum of a rank's inputs by the rank's factor;
 * for 16-bit and 8-bit floats it multiplies each input, in float32, and then
 * adds.
 *
 * In place: `inputs` is NULL (n_inputs is not read), and each output holds an
 * input, unless documented otherwise below; or both lists are the same. No
 * output may overlap another buffer. Memory: a reduction whose output cannot
 * hold the combined input (gloo_reduce_scatter_multi, and gloo_reduce_multi on
 * ranks other than the root) allocates it for the lifetime of the request;
 * scaled sums of 16-bit and 8-bit floats allocate inputs and results as
 * float32.
 *
 * Example:
 *
 *     gloo_status sum_of_two(gloo_context *context, float *a, float *b,
 *                            size_t count, gloo_error *error) {
 *       void *copies[] = {a, b};
 *       return gloo_allreduce_multi(context, NULL, 0, copies, 2, count,
 *                                   GLOO_FLOAT32, GLOO_SUM, NULL, error);
 *     }
 */
#ifndef GLOO_C_MULTI_H
#define GLOO_C_MULTI_H

#include <stddef.h>

#include "gloo_c/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gloo_allreduce of the inputs of all ranks together: those of a rank are
 * combined first, in their order, and each of its outputs gets the result.
 * Shape: n_inputs inputs and n_outputs outputs of `count` elements each.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of collectives.h.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are copied.
 * Cost: that of gloo_allreduce, and one pass over the inputs of a rank. */
GLOO_API gloo_status gloo_allreduce_multi(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_allreduce_multi_start(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_request **request,
    gloo_error *error);
GLOO_API gloo_status gloo_allreduce_multi_init(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_request **request,
    gloo_error *error);

/* gloo_reduce of the inputs of all ranks together; every output of the root
 * gets the result. Other ranks' outputs are not written, and may be absent.
 * Shape: n_inputs inputs and n_outputs outputs of `count` elements each.
 * Errors: GLOO_ERR_ROOT, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP,
 * GLOO_ERR_BUFFER, GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND
 * when refused; errors that poison the context, see the head of collectives.h.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are copied.
 * Cost: that of gloo_reduce, and one pass over the inputs of a rank. */
GLOO_API gloo_status gloo_reduce_multi(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, int root, const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_reduce_multi_start(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, int root, const gloo_options *options, gloo_request **request,
    gloo_error *error);
GLOO_API gloo_status gloo_reduce_multi_init(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, int root, const gloo_options *options, gloo_request **request,
    gloo_error *error);

/* gloo_reduce_scatter of the inputs of all ranks together; every output of rank
 * r gets its part of the result. In place: outputs hold the inputs.
 * Shape: n_inputs inputs of P * count elements, n_outputs outputs of `count`,
 * in place of P * count.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of collectives.h.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are copied.
 * Cost: that of gloo_reduce_scatter, and one pass over the inputs of a rank. */
GLOO_API gloo_status gloo_reduce_scatter_multi(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_reduce_scatter_multi_start(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_request **request,
    gloo_error *error);
GLOO_API gloo_status gloo_reduce_scatter_multi_init(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    gloo_op op, const gloo_options *options, gloo_request **request,
    gloo_error *error);

/* gloo_broadcast to every output of every rank. In place: the root's data is in
 * its first output.
 * Shape: input `count` elements, read at the root only; n_outputs outputs of
 * `count`.
 * Errors: GLOO_ERR_ROOT, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of collectives.h.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are copied.
 * Cost: that of gloo_broadcast, and a copy for each further output. */
GLOO_API gloo_status gloo_broadcast_multi(
    gloo_context *context, const void *input, void *const *outputs,
    size_t n_outputs, size_t count, gloo_dtype dtype, int root,
    const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_broadcast_multi_start(
    gloo_context *context, const void *input, void *const *outputs,
    size_t n_outputs, size_t count, gloo_dtype dtype, int root,
    const gloo_options *options, gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_broadcast_multi_init(
    gloo_context *context, const void *input, void *const *outputs,
    size_t n_outputs, size_t count, gloo_dtype dtype, int root,
    const gloo_options *options, gloo_request **request, gloo_error *error);

/* gloo_allgather of several inputs, the same number on all ranks: every output
 * gets those of rank 0 one after the other, then those of rank 1, and so on. In
 * place: the inputs are in the first output, at their places; n_inputs is their
 * number.
 * Shape: n_inputs inputs of `count` elements, n_outputs outputs of P * n_inputs
 * * count.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER, GLOO_ERR_INVALID,
 * GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused; errors that poison the
 * context, see the head of collectives.h.
 * Threads: any, with a separate tag for each thread. Ownership: buffers and
 * *request are the caller's; lists are copied.
 * Cost: that of gloo_allgather, and a copy for each further output. */
GLOO_API gloo_status gloo_allgather_multi(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_allgather_multi_start(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    const gloo_options *options, gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_allgather_multi_init(
    gloo_context *context, const void *const *inputs, size_t n_inputs,
    void *const *outputs, size_t n_outputs, size_t count, gloo_dtype dtype,
    const gloo_options *options, gloo_request **request, gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
