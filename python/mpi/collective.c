/* Collectives. */
#include <stdlib.h>

#include "abi.h"

int MPIABI_Barrier(mpi_handle comm) {
  mpi_call call;
  if (!mpi_begin(&call, "MPI_Barrier", comm)) return mpi_end(&call, GLOO_OK);
  return mpi_end(&call, gloo_barrier(call.context, NULL, &call.error));
}

int MPIABI_Bcast(void *data, int count, mpi_handle type, int root,
                 mpi_handle comm) {
  mpi_call call;
  gloo_dtype dtype;
  if (!mpi_begin(&call, "MPI_Bcast", comm) || !mpi_take_count(&call, count) ||
      !mpi_take_type(&call, type, &dtype)) {
    return mpi_end(&call, GLOO_OK);
  }
  return mpi_end(
      &call, gloo_broadcast(call.context, GLOO_IN_PLACE, data, (size_t)count,
                            dtype, root, NULL, &call.error));
}

static bool mpi_reduction_begin(mpi_call *call, const char *function,
                                mpi_handle comm, mpi_handle type, mpi_handle op,
                                gloo_dtype *dtype, gloo_op *reduction) {
  return mpi_begin(call, function, comm) && mpi_take_type(call, type, dtype) &&
         mpi_take_op(call, op, reduction);
}

int MPIABI_Reduce(const void *input, void *output, int count, mpi_handle type,
                  mpi_handle op, int root, mpi_handle comm) {
  mpi_call call;
  gloo_dtype dtype;
  gloo_op reduction;
  if (!mpi_reduction_begin(&call, "MPI_Reduce", comm, type, op, &dtype,
                           &reduction) ||
      !mpi_take_count(&call, count)) {
    return mpi_end(&call, GLOO_OK);
  }
  return mpi_end(&call, gloo_reduce(call.context, input, output, (size_t)count,
                                    dtype, reduction, root, NULL, &call.error));
}

int MPIABI_Allreduce(const void *input, void *output, int count,
                     mpi_handle type, mpi_handle op, mpi_handle comm) {
  mpi_call call;
  gloo_dtype dtype;
  gloo_op reduction;
  if (!mpi_reduction_begin(&call, "MPI_Allreduce", comm, type, op, &dtype,
                           &reduction) ||
      !mpi_take_count(&call, count)) {
    return mpi_end(&call, GLOO_OK);
  }
  return mpi_end(
      &call, gloo_allreduce(call.context, input, output, (size_t)count, dtype,
                            reduction, NULL, &call.error));
}

int MPIABI_Reduce_scatter_block(const void *input, void *output, int count,
                                mpi_handle type, mpi_handle op,
                                mpi_handle comm) {
  mpi_call call;
  gloo_dtype dtype;
  gloo_op reduction;
  if (!mpi_reduction_begin(&call, "MPI_Reduce_scatter_block", comm, type, op,
                           &dtype, &reduction) ||
      !mpi_take_count(&call, count)) {
    return mpi_end(&call, GLOO_OK);
  }
  return mpi_end(&call,
                 gloo_reduce_scatter(call.context, input, output, (size_t)count,
                                     dtype, reduction, NULL, &call.error));
}

/* Blocks of different lengths. */
static gloo_status mpi_reduce_scatterv(mpi_call *call, const void *input,
                                       void *output, const int *counts,
                                       int ranks, gloo_dtype dtype,
                                       gloo_op reduction) {
  size_t *lengths = malloc((size_t)ranks * sizeof *lengths);
  if (lengths == NULL) return GLOO_ERR_NO_MEMORY;
  for (int i = 0; i < ranks; i++) lengths[i] = (size_t)counts[i];
  gloo_status status =
      gloo_reduce_scatterv(call->context, input, output, lengths, dtype,
                           reduction, NULL, &call->error);
  free(lengths);
  return status;
}

int MPIABI_Reduce_scatter(const void *input, void *output, const int *counts,
                          mpi_handle type, mpi_handle op, mpi_handle comm) {
  mpi_call call;
  gloo_dtype dtype;
  gloo_op reduction;
  if (!mpi_reduction_begin(&call, "MPI_Reduce_scatter", comm, type, op, &dtype,
                           &reduction)) {
    return mpi_end(&call, GLOO_OK);
  }
  int ranks = gloo_context_size(call.context);
  bool alike = true;
  for (int i = 0; i < ranks; i++) {
    if (!mpi_take_count(&call, counts[i])) return mpi_end(&call, GLOO_OK);
    if (counts[i] != counts[0]) alike = false;
  }
  if (!alike) {
    return mpi_end(&call, mpi_reduce_scatterv(&call, input, output, counts,
                                              ranks, dtype, reduction));
  }
  return mpi_end(
      &call, gloo_reduce_scatter(call.context, input, output, (size_t)counts[0],
                                 dtype, reduction, NULL, &call.error));
}

/* Requires that the sent and received data have the same length and type:
 * otherwise the library would report a mismatched call. */
static bool mpi_exchange_begin(mpi_call *call, const char *function,
                               mpi_handle comm, const void *input,
                               int input_count, mpi_handle input_type,
                               int count, mpi_handle type, gloo_dtype *dtype) {
  if (!mpi_begin(call, function, comm) || !mpi_take_count(call, count) ||
      !mpi_take_type(call, type, dtype)) {
    return false;
  }
  if (input == GLOO_IN_PLACE) return true;
  if (input_count == count && input_type == type) return true;
  call->failed =
      mpi_fail_aloud(MPIABI_ERR_TYPE, function,
                     "count and type of what is sent and of what is received "
                     "must be the same in gloo_c");
  return false;
}

int MPIABI_Allgather(const void *input, int input_count, mpi_handle input_type,
                     void *output, int count, mpi_handle type,
                     mpi_handle comm) {
  mpi_call call;
  gloo_dtype dtype;
  if (!mpi_exchange_begin(&call, "MPI_Allgather", comm, input, input_count,
                          input_type, count, type, &dtype)) {
    return mpi_end(&call, GLOO_OK);
  }
  return mpi_end(
      &call, gloo_allgather(call.context, input, output, (size_t)count, dtype,
                            NULL, &call.error));
}

int MPIABI_Alltoall(const void *input, int input_count, mpi_handle input_type,
                    void *output, int count, mpi_handle type, mpi_handle comm) {
  mpi_call call;
  gloo_dtype dtype;
  if (!mpi_exchange_begin(&call, "MPI_Alltoall", comm, input, input_count,
                          input_type, count, type, &dtype)) {
    return mpi_end(&call, GLOO_OK);
  }
  return mpi_end(&call, gloo_alltoall(call.context, input, output,
                                      (size_t)count, dtype, NULL, &call.error));
}
