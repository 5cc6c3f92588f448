/* gloo_c's functions with blocks of different lengths, on top of MPI.
 *
 * MPI takes arrays of int, so the caller's arrays are copied for each call,
 * which costs some nanoseconds. */
#include <limits.h>

#include "bench/peers/mpi_peer.h"
#include "core/error.h"

/* An array of counts and the offsets of the blocks. */
typedef struct blocks {
  int *counts, *first;
} blocks;

/* Converts array `number` (0 or 1) of a call. */
static gloo_status list(gloo_context *context, int number, const size_t *counts,
                        const size_t *displacements, gloo_error *error,
                        blocks *to) {
  to->counts = context->lists + 2 * number * context->size;
  to->first = to->counts + context->size;
  size_t at = 0;
  for (int i = 0; i < context->size; i++) {
    size_t first = displacements != NULL ? displacements[i] : at;
    if (counts[i] > INT_MAX || first > INT_MAX) {
      return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                      "MPI counts no further than %d elements", INT_MAX);
    }
    to->counts[i] = (int)counts[i];
    to->first[i] = (int)first;
    at += counts[i];
  }
  return GLOO_OK;
}

/* Converts the arguments of a call; `counts` is NULL on ranks other than the
 * root. */
static gloo_status prepare(gloo_context *context, size_t own,
                           const size_t *counts, const size_t *displacements,
                           gloo_dtype dtype, gloo_op op, gloo_error *error,
                           gli_mpi_call *call, blocks *to) {
  gloo_status status = gli_mpi_convert(own, dtype, op, error, call);
  *to = (blocks){NULL, NULL};
  if (status != GLOO_OK || counts == NULL) return status;
  return list(context, 0, counts, displacements, error, to);
}

gloo_status gloo_allgatherv(gloo_context *context, const void *input,
                            void *output, const size_t *counts,
                            const size_t *displacements, gloo_dtype dtype,
                            const gloo_options *options, gloo_error *error) {
  (void)options;
  gli_mpi_call a;
  blocks out;
  gloo_status status = prepare(context, counts[context->rank], counts,
                               displacements, dtype, GLOO_SUM, error, &a, &out);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(
      MPI_Allgatherv(gli_mpi_input(input), a.count, a.type, output, out.counts,
                     out.first, a.type, MPI_COMM_WORLD),
      error);
}

gloo_status gloo_gatherv(gloo_context *context, const void *input,
                         size_t input_count, void *output, const size_t *counts,
                         const size_t *displacements, gloo_dtype dtype,
                         int root, const gloo_options *options,
                         gloo_error *error) {
  (void)options;
  gli_mpi_call a;
  blocks out;
  gloo_status status =
      prepare(context, input_count, context->rank == root ? counts : NULL,
              displacements, dtype, GLOO_SUM, error, &a, &out);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(
      MPI_Gatherv(gli_mpi_input(input), a.count, a.type, output, out.counts,
                  out.first, a.type, root, MPI_COMM_WORLD),
      error);
}

gloo_status gloo_scatterv(gloo_context *context, const void *input,
                          const size_t *counts, const size_t *displacements,
                          void *output, size_t output_count, gloo_dtype dtype,
                          int root, const gloo_options *options,
                          gloo_error *error) {
  (void)options;
  if (input == GLOO_IN_PLACE) return gli_mpi_no_scatter(error);
  gli_mpi_call a;
  blocks in;
  gloo_status status =
      prepare(context, output_count, context->rank == root ? counts : NULL,
              displacements, dtype, GLOO_SUM, error, &a, &in);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(MPI_Scatterv(input, in.counts, in.first, a.type, output,
                                     a.count, a.type, root, MPI_COMM_WORLD),
                        error);
}

gloo_status gloo_alltoallv(gloo_context *context, const void *input,
                           const size_t *input_counts,
                           const size_t *input_displacements, void *output,
                           const size_t *output_counts,
                           const size_t *output_displacements, gloo_dtype dtype,
                           const gloo_options *options, gloo_error *error) {
  (void)options;
  gli_mpi_call a;
  blocks in, out;
  gloo_status status = prepare(context, 0, input_counts, input_displacements,
                               dtype, GLOO_SUM, error, &a, &in);
  if (status == GLOO_OK) {
    status = list(context, 1, output_counts, output_displacements, error, &out);
  }
  if (status != GLOO_OK) return status;
  return gli_mpi_result(
      MPI_Alltoallv(gli_mpi_input(input), in.counts, in.first, a.type, output,
                    out.counts, out.first, a.type, MPI_COMM_WORLD),
      error);
}

gloo_status gloo_reduce_scatterv(gloo_context *context, const void *input,
                                 void *output, const size_t *counts,
                                 gloo_dtype dtype, gloo_op op,
                                 const gloo_options *options,
                                 gloo_error *error) {
  (void)options;
  gli_mpi_call a;
  blocks parts;
  gloo_status status =
      prepare(context, 0, counts, NULL, dtype, op, error, &a, &parts);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(
      MPI_Reduce_scatter(gli_mpi_input(input), output, parts.counts, a.type,
                         a.op, MPI_COMM_WORLD),
      error);
}
