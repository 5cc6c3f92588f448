/* Collectives and point-to-point messages.
 *
 * Shapes. `count` is in elements. P is the size of the context.
 * Buffers. `input` is read and `output` is written. Both belong to the caller,
 *   and must stay valid and untouched until the operation has completed or
 *   failed. No alignment is required. Buffers must not overlap, except that
 *   GLOO_IN_PLACE (or input == output) is allowed where noted.
 * Forms. Each collective has three forms. The blocking form returns when this
 *   rank is done. `_start` returns at once with a request to test or wait for.
 *   `_init` returns a persistent request, which can be started any number of
 *   times. Blocking is start + wait.
 * Matching. All ranks call the same collectives with the same count, type, op,
 *   root and tag, in the same order (per tag). The first message of a call
 *   detects a disagreement, and every rank gets GLOO_ERR_MISMATCH, whose
 *   message names both calls. The error names the rank that differs from the
 *   majority, or none (-1) without a majority, as with two ranks. A rank whose
 *   part is done before the detection, such as a leaf of a reduce or a gather,
 *   or the root of a broadcast, returns GLOO_OK and gets the error from its
 *   next call. A rank may also get the error from the call before the one in
 *   which ranks disagree. So ranks need not agree on the call that failed.
 * No elements. A count of 0 is legal everywhere; buffers may then be NULL. Such
 *   calls are matched like others and exchange empty messages: in one round
 *   through the root if the collective has one, else in ceil(log2 P) rounds
 *   like a barrier. They return when these messages have arrived. Empty blocks
 *   among others cost nothing, except in gatherv, scatterv and alltoallv, which
 *   send an empty message for each.
 * Errors. Invalid arguments are refused at once, before anything is sent:
 *   GLOO_ERR_ROOT, GLOO_ERR_RANK, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP
 *   and GLOO_ERR_BUFFER name the argument; GLOO_ERR_INVALID: `context` or
 *   `request` is NULL, options without their size, or a call from within a
 *   custom operation; GLOO_ERR_UNSUPPORTED: an operation that is not defined
 *   for the type, an algorithm that does not keep the order, an option of a
 *   newer version; GLOO_ERR_NOT_FOUND: unknown algorithm; GLOO_ERR_NO_MEMORY.
 *   GLOO_ERR_TIMEOUT, GLOO_ERR_PEER, GLOO_ERR_MISMATCH, GLOO_ERR_PROTOCOL,
 *   GLOO_ERR_CANCELLED and GLOO_ERR_ABORTED, and GLOO_ERR_NO_MEMORY and
 *   GLOO_ERR_IO of a pending operation, poison the context on every rank: later
 *   calls give GLOO_ERR_POISONED. After an error the output is undefined, and
 *   the library touches neither buffer again. In a forked child all calls end
 *   with GLOO_ERR_FORKED, see context.h.
 * Threads. Any thread; several threads may start operations on one context if
 *   each uses its own tag, or if the program orders them.
 * GPUs. Any buffer may be in the memory of any GPU (CUDA, HIP), also if others
 *   are in host memory. Inputs are read after all work that gloo_options.stream
 *   held at the time of the call. The result is ready when a blocking call
 *   returns or a request has completed; gloo_request_wait_stream orders a
 *   stream after it. Pinned host memory is ordered with a
 *   stream only if the options name one. A failing call of the driver is GLOO_ERR_IO and
 *   poisons the context; a stream that is capturing a graph is refused with
 *   GLOO_ERR_UNSUPPORTED. See docs/guide/cuda.md.
 * Results are bitwise identical on all ranks. With `ordered` they are also
 *   independent of the algorithm, transport, segment length and placement of
 *   ranks: inputs are combined in rank order, one after the other, as ((0 op 1)
 *   op 2) op 3. For 16-bit and 8-bit floats this is done in float32, and the
 *   result is rounded once; a scan rounds at each rank, so that the result of a
 *   rank is the result of the rank before it combined with its own input
 *   (scaled sums are float32 in scans, too). Averages are ordered sums that are
 *   divided at the end: for 16-bit and 8-bit floats in float32, before they are
 *   rounded.
 *
 * Example:
 *
 *     gloo_status mean(gloo_context *context, float *gradient, size_t count,
 *                      gloo_error *error) {
 *       gloo_options options = GLOO_OPTIONS_INIT;
 *       options.timeout_ns = INT64_C(10000000000);
 *       return gloo_allreduce(context, GLOO_IN_PLACE, gradient, count,
 *                             GLOO_FLOAT32, GLOO_AVERAGE, &options, error);
 *     }
 */
#ifndef GLOO_C_COLLECTIVES_H
#define GLOO_C_COLLECTIVES_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/context.h"
#include "gloo_c/custom_op.h"
#include "gloo_c/request.h"
#include "gloo_c/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed as `input` to operate in place: the output buffer holds the input. */
#define GLOO_IN_PLACE ((const void *)(uintptr_t)1)

/* Options of a call; inputs only. Zero is the default of every field. Every
 * option struct of the library starts with its size, which identifies the
 * fields that the program was compiled with: fields that an older program lacks
 * count as 0, and a nonzero field that an older library lacks makes it refuse
 * the call with GLOO_ERR_UNSUPPORTED. */
typedef struct gloo_options {
  size_t struct_size;
  /* Timeout of the operation, ns; GLOO_TIMEOUT_DEFAULT: that of the context. */
  int64_t timeout_ns;
  /* Name of an algorithm, see `gloo plan --list`; must be the same on all
   * ranks. NULL: chosen by size and ranks. */
  const char *algorithm;
  /* Operations with the same tag match in the order of their calls. */
  uint32_t tag;
  /* Operation of GLOO_CUSTOM; must have the same name, element size and
   * commutativity on all ranks. */
  gloo_custom_op *custom;
  /* Passed to the function of that operation. The caller keeps it valid as long
   * as the request is used. */
  const void *custom_type;
  /* Size of an element of GLOO_OPAQUE, for operations without a size. */
  size_t custom_element_bytes;
  /* Factor of GLOO_SCALED_SUM, read by the call; may differ between ranks. */
  const double *factor;
  /* `_init` of collectives only: nonzero matches this request with those that
   * the other ranks made with this option, in the order of their creation (as
   * in MPI) instead of the order of starts. Must be the same on all ranks, or
   * they wait for each other until the deadline. */
  int matched_by_init;
  /* Nonzero combines inputs in rank order, see above; must be the same on all
   * ranks. Where the order affects the result (sums and products of floats and
   * complex numbers, custom operations), naming an algorithm that does not keep
   * it gives GLOO_ERR_UNSUPPORTED. Long vectors on many ranks take more rounds,
   * not more bytes. */
  int ordered;
  /* The stream (a CUstream, cudaStream_t or hipStream_t) that orders accesses to
   * GPU buffers; NULL: the legacy default stream. See GPUs above. */
  void *stream;
} gloo_options;
#define GLOO_OPTIONS_INIT \
  { sizeof(gloo_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* ---- collectives --------------------------------------------------------- */

/* Blocks until every rank has entered the barrier.
 * Errors: GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when
 * refused; errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: *request
 * is the caller's.
 * Cost: empty messages: by dissemination (Hensgen, Finkel and Manber 1988) in
 * ceil(log2 P) rounds, through one rank, or in one round from all to all. */
GLOO_API gloo_status gloo_barrier(gloo_context *context,
                                  const gloo_options *options,
                                  gloo_error *error);
GLOO_API gloo_status gloo_barrier_start(gloo_context *context,
                                        const gloo_options *options,
                                        gloo_request **request,
                                        gloo_error *error);
GLOO_API gloo_status gloo_barrier_init(gloo_context *context,
                                       const gloo_options *options,
                                       gloo_request **request,
                                       gloo_error *error);

/* Copies root's elements to every rank's output. In place, at the root: the
 * data is already in its output.
 * Shape: input `count` elements, read at the root only; output `count`.
 * Errors: GLOO_ERR_ROOT, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: ceil(log2 P) rounds by a binomial tree; long vectors are scattered and
 * gathered, and no rank sends more than 2 (P-1)/P of the vector (Barnett et al.
 * 1994). */
GLOO_API gloo_status gloo_broadcast(gloo_context *context, const void *input,
                                    void *output, size_t count,
                                    gloo_dtype dtype, int root,
                                    const gloo_options *options,
                                    gloo_error *error);
GLOO_API gloo_status gloo_broadcast_start(gloo_context *context,
                                          const void *input, void *output,
                                          size_t count, gloo_dtype dtype,
                                          int root, const gloo_options *options,
                                          gloo_request **request,
                                          gloo_error *error);
GLOO_API gloo_status gloo_broadcast_init(gloo_context *context,
                                         const void *input, void *output,
                                         size_t count, gloo_dtype dtype,
                                         int root, const gloo_options *options,
                                         gloo_request **request,
                                         gloo_error *error);

/* Combines all ranks' inputs element by element; every rank gets the result. In
 * place: output holds the input.
 * Shape: input and output `count` elements each.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: ceil(log2 P) rounds for short vectors; 2 (P-1)/P of a long one from
 * each rank (Rabenseifner 2004, Patarasuk and Yuan 2009). */
GLOO_API gloo_status gloo_allreduce(gloo_context *context, const void *input,
                                    void *output, size_t count,
                                    gloo_dtype dtype, gloo_op op,
                                    const gloo_options *options,
                                    gloo_error *error);
GLOO_API gloo_status gloo_allreduce_start(
    gloo_context *context, const void *input, void *output, size_t count,
    gloo_dtype dtype, gloo_op op, const gloo_options *options,
    gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_allreduce_init(
    gloo_context *context, const void *input, void *output, size_t count,
    gloo_dtype dtype, gloo_op op, const gloo_options *options,
    gloo_request **request, gloo_error *error);

/* Combines all ranks' inputs element by element; rank r gets elements r * count
 * ... (r + 1) * count - 1 of the result. In place: output holds the input, and
 * the result is its first `count` elements; the rest is undefined.
 * Shape: input P * count elements, output `count`; in place P * count.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: (P-1) * count elements from each rank, in ceil(log2 P) rounds (Träff
 * 2024) or fewer; through one rank where messages are expensive. */
GLOO_API gloo_status gloo_reduce_scatter(gloo_context *context,
                                         const void *input, void *output,
                                         size_t count, gloo_dtype dtype,
                                         gloo_op op,
                                         const gloo_options *options,
                                         gloo_error *error);
GLOO_API gloo_status gloo_reduce_scatter_start(
    gloo_context *context, const void *input, void *output, size_t count,
    gloo_dtype dtype, gloo_op op, const gloo_options *options,
    gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_reduce_scatter_init(
    gloo_context *context, const void *input, void *output, size_t count,
    gloo_dtype dtype, gloo_op op, const gloo_options *options,
    gloo_request **request, gloo_error *error);

/* Every rank gets all inputs, in rank order. In place: rank r's input is
 * already at element r * count of its output.
 * Shape: input `count` elements, output P * count.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER, GLOO_ERR_INVALID,
 * GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused; errors that poison
 * the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: (P-1) * count elements from each rank, in ceil(log2 P) rounds (Bruck et
 * al. 1997, Träff 2024) or fewer; through one rank where messages are
 * expensive. */
GLOO_API gloo_status gloo_allgather(gloo_context *context, const void *input,
                                    void *output, size_t count,
                                    gloo_dtype dtype,
                                    const gloo_options *options,
                                    gloo_error *error);
GLOO_API gloo_status gloo_allgather_start(gloo_context *context,
                                          const void *input, void *output,
                                          size_t count, gloo_dtype dtype,
                                          const gloo_options *options,
                                          gloo_request **request,
                                          gloo_error *error);
GLOO_API gloo_status gloo_allgather_init(gloo_context *context,
                                         const void *input, void *output,
                                         size_t count, gloo_dtype dtype,
                                         const gloo_options *options,
                                         gloo_request **request,
                                         gloo_error *error);

/* Every rank sends a block to every rank: block j of rank i's input becomes
 * block i of rank j's output. In place: output holds the input; the request
 * allocates as much memory again for its lifetime.
 * Shape: input and output P contiguous blocks of `count` elements.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER, GLOO_ERR_INVALID,
 * GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused; errors that poison
 * the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: (P-1) * count elements from each rank; short blocks on many ranks more,
 * in ceil(log2 P) rounds (Bruck et al. 1997). */
GLOO_API gloo_status gloo_alltoall(gloo_context *context, const void *input,
                                   void *output, size_t count, gloo_dtype dtype,
                                   const gloo_options *options,
                                   gloo_error *error);
GLOO_API gloo_status gloo_alltoall_start(gloo_context *context,
                                         const void *input, void *output,
                                         size_t count, gloo_dtype dtype,
                                         const gloo_options *options,
                                         gloo_request **request,
                                         gloo_error *error);
GLOO_API gloo_status gloo_alltoall_init(gloo_context *context,
                                        const void *input, void *output,
                                        size_t count, gloo_dtype dtype,
                                        const gloo_options *options,
                                        gloo_request **request,
                                        gloo_error *error);

/* Combines all ranks' inputs element by element; the root gets the result.
 * Other ranks' outputs may be NULL, and are not written. In place: output holds
 * the input, also on the other ranks, which only read it.
 * Shape: input `count` elements, the root's output `count`.
 * Errors: GLOO_ERR_ROOT, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP,
 * GLOO_ERR_BUFFER, GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND
 * when refused; errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: ceil(log2 P) rounds by a binomial tree; long vectors by reduce-scatter
 * and gather (Rabenseifner 2004). */
GLOO_API gloo_status gloo_reduce(gloo_context *context, const void *input,
                                 void *output, size_t count, gloo_dtype dtype,
                                 gloo_op op, int root,
                                 const gloo_options *options,
                                 gloo_error *error);
GLOO_API gloo_status gloo_reduce_start(gloo_context *context, const void *input,
                                       void *output, size_t count,
                                       gloo_dtype dtype, gloo_op op, int root,
                                       const gloo_options *options,
                                       gloo_request **request,
                                       gloo_error *error);
GLOO_API gloo_status gloo_reduce_init(gloo_context *context, const void *input,
                                      void *output, size_t count,
                                      gloo_dtype dtype, gloo_op op, int root,
                                      const gloo_options *options,
                                      gloo_request **request,
                                      gloo_error *error);

/* Combines the inputs of ranks 0 to r element by element and in rank order, at
 * each rank r: its output gets input 0 op input 1 op ... op input r. In place:
 * output holds the input. GLOO_AVERAGE is not available (GLOO_ERR_UNSUPPORTED).
 * Shape: input and output `count` elements each.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: ceil(log2 P) rounds (Hillis and Steele 1986), or from rank to rank for
 * long vectors. */
GLOO_API gloo_status gloo_scan(gloo_context *context, const void *input,
                               void *output, size_t count, gloo_dtype dtype,
                               gloo_op op, const gloo_options *options,
                               gloo_error *error);
GLOO_API gloo_status gloo_scan_start(gloo_context *context, const void *input,
                                     void *output, size_t count,
                                     gloo_dtype dtype, gloo_op op,
                                     const gloo_options *options,
                                     gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_scan_init(gloo_context *context, const void *input,
                                    void *output, size_t count,
                                    gloo_dtype dtype, gloo_op op,
                                    const gloo_options *options,
                                    gloo_request **request, gloo_error *error);

/* gloo_scan without this rank's own input: rank r's output gets input 0 op ...
 * op input r - 1. Rank 0's output is not written.
 * Shape: input and output `count` elements each.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: that of gloo_scan. */
GLOO_API gloo_status gloo_exscan(gloo_context *context, const void *input,
                                 void *output, size_t count, gloo_dtype dtype,
                                 gloo_op op, const gloo_options *options,
                                 gloo_error *error);
GLOO_API gloo_status gloo_exscan_start(gloo_context *context, const void *input,
                                       void *output, size_t count,
                                       gloo_dtype dtype, gloo_op op,
                                       const gloo_options *options,
                                       gloo_request **request,
                                       gloo_error *error);
GLOO_API gloo_status gloo_exscan_init(gloo_context *context, const void *input,
                                      void *output, size_t count,
                                      gloo_dtype dtype, gloo_op op,
                                      const gloo_options *options,
                                      gloo_request **request,
                                      gloo_error *error);

/* The root gets all inputs, in rank order. Other ranks' outputs may be NULL,
 * and are not written. In place, at the root only: its input is already at
 * element root * count of its output.
 * Shape: input `count` elements, the root's output P * count.
 * Errors: GLOO_ERR_ROOT, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: ceil(log2 P) rounds by a binomial tree, or straight to the root for
 * long blocks. */
GLOO_API gloo_status gloo_gather(gloo_context *context, const void *input,
                                 void *output, size_t count, gloo_dtype dtype,
                                 int root, const gloo_options *options,
                                 gloo_error *error);
GLOO_API gloo_status gloo_gather_start(gloo_context *context, const void *input,
                                       void *output, size_t count,
                                       gloo_dtype dtype, int root,
                                       const gloo_options *options,
                                       gloo_request **request,
                                       gloo_error *error);
GLOO_API gloo_status gloo_gather_init(gloo_context *context, const void *input,
                                      void *output, size_t count,
                                      gloo_dtype dtype, int root,
                                      const gloo_options *options,
                                      gloo_request **request,
                                      gloo_error *error);

/* Rank r's output gets elements r * count ... (r + 1) * count - 1 of root's
 * input. In place, at the root: its output holds its input, and its own block
 * stays where it is.
 * Shape: input P * count elements, read at the root only; output `count`; the
 * root's in place P * count.
 * Errors: GLOO_ERR_ROOT, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: ceil(log2 P) rounds by a binomial tree, or straight from the root for
 * long blocks. */
GLOO_API gloo_status gloo_scatter(gloo_context *context, const void *input,
                                  void *output, size_t count, gloo_dtype dtype,
                                  int root, const gloo_options *options,
                                  gloo_error *error);
GLOO_API gloo_status gloo_scatter_start(gloo_context *context,
                                        const void *input, void *output,
                                        size_t count, gloo_dtype dtype,
                                        int root, const gloo_options *options,
                                        gloo_request **request,
                                        gloo_error *error);
GLOO_API gloo_status gloo_scatter_init(gloo_context *context, const void *input,
                                       void *output, size_t count,
                                       gloo_dtype dtype, int root,
                                       const gloo_options *options,
                                       gloo_request **request,
                                       gloo_error *error);

/* ---- blocks that differ in length ---------------------------------------- */

/* Counts and displacements are in elements, one for each rank; they are read
 * before the call returns. With NULL displacements the blocks are contiguous in
 * rank order. Zero counts are legal. Output blocks must not overlap
 * (GLOO_ERR_COUNT), and gaps between them are not written.
 *
 * If all ranks pass the same counts (allgatherv, reduce_scatterv), a rank with
 * a different list gives GLOO_ERR_MISMATCH on every rank. If a length is known
 * to two ranks only (gatherv, scatterv, alltoallv), one of the two gets the
 * error when their lengths differ, and the message names both. To detect this,
 * empty blocks are also sent. */

/* gloo_allgather of inputs that differ in length: rank r's goes to element
 * displacements[r] of every rank's output. In place: it is already there.
 * Shape: lists have P entries, in elements. Rank r's input has counts[r]
 * elements; the output reaches to the end of its last block.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER, GLOO_ERR_INVALID,
 * GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused; errors that poison
 * the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are needed during the call only.
 * Cost: that of gloo_allgather. */
GLOO_API gloo_status gloo_allgatherv(gloo_context *context, const void *input,
                                     void *output, const size_t *counts,
                                     const size_t *displacements,
                                     gloo_dtype dtype,
                                     const gloo_options *options,
                                     gloo_error *error);
GLOO_API gloo_status gloo_allgatherv_start(
    gloo_context *context, const void *input, void *output,
    const size_t *counts, const size_t *displacements, gloo_dtype dtype,
    const gloo_options *options, gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_allgatherv_init(
    gloo_context *context, const void *input, void *output,
    const size_t *counts, const size_t *displacements, gloo_dtype dtype,
    const gloo_options *options, gloo_request **request, gloo_error *error);

/* gloo_reduce_scatter in blocks that differ in length: rank r's output gets the
 * counts[r] elements of the result that follow those of the ranks below it. In
 * place: output holds the whole input; the result is its first counts[r]
 * elements, the rest is undefined.
 * Shape: counts has P entries, in elements. Input: their sum; output:
 * counts[r].
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_OP, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are needed during the call only.
 * Cost: that of gloo_reduce_scatter. */
GLOO_API gloo_status gloo_reduce_scatterv(gloo_context *context,
                                          const void *input, void *output,
                                          const size_t *counts,
                                          gloo_dtype dtype, gloo_op op,
                                          const gloo_options *options,
                                          gloo_error *error);
GLOO_API gloo_status gloo_reduce_scatterv_start(
    gloo_context *context, const void *input, void *output,
    const size_t *counts, gloo_dtype dtype, gloo_op op,
    const gloo_options *options, gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_reduce_scatterv_init(
    gloo_context *context, const void *input, void *output,
    const size_t *counts, gloo_dtype dtype, gloo_op op,
    const gloo_options *options, gloo_request **request, gloo_error *error);

/* gloo_gather of inputs that differ in length: rank r's goes to element
 * displacements[r] of root's output, which must have counts[r] equal to its
 * input_count. In place, at the root only: its input is already there, and
 * input_count is not read.
 * Shape: lists have P entries, in elements, and are read at the root only;
 * input has input_count elements.
 * Errors: GLOO_ERR_ROOT, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are needed during the call only.
 * Cost: one message from each rank to the root. */
GLOO_API gloo_status gloo_gatherv(gloo_context *context, const void *input,
                                  size_t input_count, void *output,
                                  const size_t *counts,
                                  const size_t *displacements, gloo_dtype dtype,
                                  int root, const gloo_options *options,
                                  gloo_error *error);
GLOO_API gloo_status gloo_gatherv_start(
    gloo_context *context, const void *input, size_t input_count, void *output,
    const size_t *counts, const size_t *displacements, gloo_dtype dtype,
    int root, const gloo_options *options, gloo_request **request,
    gloo_error *error);
GLOO_API gloo_status gloo_gatherv_init(
    gloo_context *context, const void *input, size_t input_count, void *output,
    const size_t *counts, const size_t *displacements, gloo_dtype dtype,
    int root, const gloo_options *options, gloo_request **request,
    gloo_error *error);

/* gloo_scatter in blocks that differ in length: rank r's output gets the
 * elements from displacements[r] on of root's input, which must have counts[r]
 * equal to its output_count. In place, at the root: its output holds its input,
 * its own block stays where it is, and output_count is not read there.
 * Shape: lists have P entries, in elements, and are read at the root only;
 * output has output_count elements.
 * Errors: GLOO_ERR_ROOT, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are needed during the call only.
 * Cost: one message from the root to each rank. */
GLOO_API gloo_status gloo_scatterv(gloo_context *context, const void *input,
                                   const size_t *counts,
                                   const size_t *displacements, void *output,
                                   size_t output_count, gloo_dtype dtype,
                                   int root, const gloo_options *options,
                                   gloo_error *error);
GLOO_API gloo_status gloo_scatterv_start(
    gloo_context *context, const void *input, const size_t *counts,
    const size_t *displacements, void *output, size_t output_count,
    gloo_dtype dtype, int root, const gloo_options *options,
    gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_scatterv_init(
    gloo_context *context, const void *input, const size_t *counts,
    const size_t *displacements, void *output, size_t output_count,
    gloo_dtype dtype, int root, const gloo_options *options,
    gloo_request **request, gloo_error *error);

/* gloo_alltoall in blocks that differ in length: rank i sends rank j the
 * input_counts[j] elements at input_displacements[j], and rank j stores them at
 * output_displacements[i]; its output_counts[i] must equal that count. In place
 * (GLOO_IN_PLACE only): each incoming block replaces the block sent to the same
 * rank; the output lists describe both, and the input lists are not read.
 * Shape: lists have P entries, in elements.
 * Errors: GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER, GLOO_ERR_INVALID,
 * GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused; errors that poison
 * the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; lists are needed during the call only.
 * Cost: one message from each rank to every other rank. */
GLOO_API gloo_status gloo_alltoallv(
    gloo_context *context, const void *input, const size_t *input_counts,
    const size_t *input_displacements, void *output,
    const size_t *output_counts, const size_t *output_displacements,
    gloo_dtype dtype, const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_alltoallv_start(
    gloo_context *context, const void *input, const size_t *input_counts,
    const size_t *input_displacements, void *output,
    const size_t *output_counts, const size_t *output_displacements,
    gloo_dtype dtype, const gloo_options *options, gloo_request **request,
    gloo_error *error);
GLOO_API gloo_status gloo_alltoallv_init(
    gloo_context *context, const void *input, const size_t *input_counts,
    const size_t *input_displacements, void *output,
    const size_t *output_counts, const size_t *output_displacements,
    gloo_dtype dtype, const gloo_options *options, gloo_request **request,
    gloo_error *error);

/* ---- point to point ------------------------------------------------------ */

/* Sends to rank `peer` (may be this rank). Completes when the buffer may be
 * reused, which may be before the peer receives. The message is delivered
 * without further calls, unless the process exits before gloo_context_destroy,
 * or the device has no helper thread. Messages between two ranks with the same
 * tag arrive in the order they were started. options->tag is the message's tag;
 * options->algorithm must be NULL.
 * Shape: input `count` elements.
 * Errors: GLOO_ERR_RANK, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's.
 * Cost: one message; a long one is preceded by a request and a grant. */
GLOO_API gloo_status gloo_send(gloo_context *context, const void *input,
                               size_t count, gloo_dtype dtype, int peer,
                               const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_send_start(gloo_context *context, const void *input,
                                     size_t count, gloo_dtype dtype, int peer,
                                     const gloo_options *options,
                                     gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_send_init(gloo_context *context, const void *input,
                                    size_t count, gloo_dtype dtype, int peer,
                                    const gloo_options *options,
                                    gloo_request **request, gloo_error *error);

/* Receives from rank `peer`. A message with a different count or type gives
 * GLOO_ERR_MISMATCH.
 * Shape: output `count` elements.
 * Errors: GLOO_ERR_RANK, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's. */
GLOO_API gloo_status gloo_recv(gloo_context *context, void *output,
                               size_t count, gloo_dtype dtype, int peer,
                               const gloo_options *options, gloo_error *error);
GLOO_API gloo_status gloo_recv_start(gloo_context *context, void *output,
                                     size_t count, gloo_dtype dtype, int peer,
                                     const gloo_options *options,
                                     gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_recv_init(gloo_context *context, void *output,
                                    size_t count, gloo_dtype dtype, int peer,
                                    const gloo_options *options,
                                    gloo_request **request, gloo_error *error);

/* Receives from whichever of the listed ranks (NULL and 0: any rank) sends
 * first; gloo_request_source, or `source` (may be NULL), says which.
 * Shape: output `count` elements; peers has n_peers ranks.
 * Errors: GLOO_ERR_RANK, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's; the list is copied. */
GLOO_API gloo_status gloo_recv_any(gloo_context *context, void *output,
                                   size_t count, gloo_dtype dtype,
                                   const int *peers, size_t n_peers,
                                   const gloo_options *options, int *source,
                                   gloo_error *error);
GLOO_API gloo_status gloo_recv_any_start(gloo_context *context, void *output,
                                         size_t count, gloo_dtype dtype,
                                         const int *peers, size_t n_peers,
                                         const gloo_options *options,
                                         gloo_request **request,
                                         gloo_error *error);
GLOO_API gloo_status gloo_recv_any_init(gloo_context *context, void *output,
                                        size_t count, gloo_dtype dtype,
                                        const int *peers, size_t n_peers,
                                        const gloo_options *options,
                                        gloo_request **request,
                                        gloo_error *error);

/* Sends to rank `to` and receives from rank `from` at the same time, so that
 * pairs and rings of ranks that call it do not wait for each other's receive.
 * Either rank may be GLOO_NO_RANK (no message in that direction) or this rank;
 * both may be the same. In place, `output` holds the outgoing message and has
 * room for the longer of the two; the operation then copies what it sends. The
 * messages are ordinary: the other end may also call gloo_send or gloo_recv.
 * The source of the request is the rank from which it received.
 * Shape: input send_count elements, output recv_count.
 * Errors: GLOO_ERR_RANK, GLOO_ERR_COUNT, GLOO_ERR_DTYPE, GLOO_ERR_BUFFER,
 * GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED, GLOO_ERR_NOT_FOUND when refused;
 * errors that poison the context, see the head of this file.
 * Threads: any, with a separate tag for each thread. Ownership: buffers
 * and *request are the caller's. */
#define GLOO_NO_RANK (-1)
GLOO_API gloo_status gloo_sendrecv(gloo_context *context, const void *input,
                                   size_t send_count, int to, void *output,
                                   size_t recv_count, int from,
                                   gloo_dtype dtype,
                                   const gloo_options *options,
                                   gloo_error *error);
GLOO_API gloo_status gloo_sendrecv_start(
    gloo_context *context, const void *input, size_t send_count, int to,
    void *output, size_t recv_count, int from, gloo_dtype dtype,
    const gloo_options *options, gloo_request **request, gloo_error *error);
GLOO_API gloo_status gloo_sendrecv_init(
    gloo_context *context, const void *input, size_t send_count, int to,
    void *output, size_t recv_count, int from, gloo_dtype dtype,
    const gloo_options *options, gloo_request **request, gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
