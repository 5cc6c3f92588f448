/* gloo_c's functions on top of MPI, compiled once for each installed MPI.
 *
 * The transport is set in the environment or on mpirun's command line
 * (scripts/compare chooses the settings). */
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

#include "bench/peers/mpi_peer.h"
#include "bench/peers/peer.h"
#include "core/error.h"

const bool gli_peer_sleeps = false;

void gli_peer_poke(void) {
  int there;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there,
             MPI_STATUS_IGNORE);
}

/* ---- contexts ----------------------------------------------------------- */

gloo_status gloo_init(const gloo_init_options *options, gloo_context **context,
                      gloo_error *error) {
  (void)options, (void)error;
  if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
    return gli_fail(error, GLOO_ERR_INTERNAL, -1, "MPI_Init failed");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  gloo_context *c = malloc(sizeof *c);
  if (c == NULL) return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory");
  MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &c->size);
  c->lists = calloc((size_t)c->size * GLI_MPI_LISTS, sizeof *c->lists);
  if (c->lists == NULL) {
    free(c);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory");
  }
  *context = c;
  return GLOO_OK;
}

void gloo_context_destroy(gloo_context *context) {
  if (context == NULL) return;
  MPI_Finalize();
  free(context->lists);
  free(context);
}

int gloo_context_rank(const gloo_context *context) {
  return context->rank;
}

int gloo_context_size(const gloo_context *context) {
  return context->size;
}

/* ---- arguments and results ---------------------------------------------- */

static MPI_Datatype type_of(gloo_dtype dtype) {
  switch (dtype) {
    case GLOO_INT8:
      return MPI_INT8_T;
    case GLOO_INT16:
      return MPI_INT16_T;
    case GLOO_INT32:
      return MPI_INT32_T;
    case GLOO_INT64:
      return MPI_INT64_T;
    case GLOO_UINT8:
      return MPI_UINT8_T;
    case GLOO_UINT16:
      return MPI_UINT16_T;
    case GLOO_UINT32:
      return MPI_UINT32_T;
    case GLOO_UINT64:
      return MPI_UINT64_T;
    case GLOO_FLOAT32:
      return MPI_FLOAT;
    case GLOO_FLOAT64:
      return MPI_DOUBLE;
    default:
      return MPI_DATATYPE_NULL;
  }
}

static MPI_Op op_of(gloo_op op) {
  switch (op) {
    case GLOO_SUM:
      return MPI_SUM;
    case GLOO_PRODUCT:
      return MPI_PROD;
    case GLOO_MIN:
      return MPI_MIN;
    case GLOO_MAX:
      return MPI_MAX;
    case GLOO_BAND:
      return MPI_BAND;
    case GLOO_BOR:
      return MPI_BOR;
    case GLOO_BXOR:
      return MPI_BXOR;
    default:
      return MPI_OP_NULL;
  }
}

gloo_status gli_mpi_convert(size_t count, gloo_dtype dtype, gloo_op op,
                            gloo_error *error, gli_mpi_call *to) {
  to->count = (int)count;
  to->type = type_of(dtype);
  to->op = op_of(op);
  if (count > INT_MAX) {
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "MPI counts no further than %d elements", INT_MAX);
  }
  if (to->type == MPI_DATATYPE_NULL) {
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "MPI knows no %s",
                    gloo_dtype_name(dtype));
  }
  return GLOO_OK;
}

gloo_status gli_mpi_result(int code, gloo_error *error) {
  if (code == MPI_SUCCESS) return GLOO_OK;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return gli_fail(error, GLOO_ERR_INTERNAL, -1, "MPI: %.*s", length, text);
}

const void *gli_mpi_input(const void *input) {
  return input == GLOO_IN_PLACE ? MPI_IN_PLACE : input;
}

gloo_status gli_mpi_no_scatter(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "MPI scatters in place in another form; leave out "
                  "--in-place");
}

/* ---- collectives -------------------------------------------------------- */

gloo_status gloo_barrier(gloo_context *context, const gloo_options *options,
                         gloo_error *error) {
  (void)options;
  (void)context;
  return gli_mpi_result(MPI_Barrier(MPI_COMM_WORLD), error);
}

/* MPI has only the in-place form. */
gloo_status gloo_broadcast(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           int root, const gloo_options *options,
                           gloo_error *error) {
  (void)options;
  (void)context;
  if (input != GLOO_IN_PLACE) {
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "MPI broadcasts in place; use --in-place");
  }
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, GLOO_SUM, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(
      MPI_Bcast(output, a.count, a.type, root, MPI_COMM_WORLD), error);
}

gloo_status gloo_allreduce(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           gloo_op op, const gloo_options *options,
                           gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, op, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(MPI_Allreduce(gli_mpi_input(input), output, a.count,
                                      a.type, a.op, MPI_COMM_WORLD),
                        error);
}

gloo_status gloo_reduce_scatter(gloo_context *context, const void *input,
                                void *output, size_t count, gloo_dtype dtype,
                                gloo_op op, const gloo_options *options,
                                gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, op, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(
      MPI_Reduce_scatter_block(gli_mpi_input(input), output, a.count, a.type,
                               a.op, MPI_COMM_WORLD),
      error);
}

gloo_status gloo_allgather(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           const gloo_options *options, gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, GLOO_SUM, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(MPI_Allgather(gli_mpi_input(input), a.count, a.type,
                                      output, a.count, a.type, MPI_COMM_WORLD),
                        error);
}

gloo_status gloo_alltoall(gloo_context *context, const void *input,
                          void *output, size_t count, gloo_dtype dtype,
                          const gloo_options *options, gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, GLOO_SUM, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(MPI_Alltoall(gli_mpi_input(input), a.count, a.type,
                                     output, a.count, a.type, MPI_COMM_WORLD),
                        error);
}

/* ---- scans --------------------------------------------------------------- */

gloo_status gloo_scan(gloo_context *context, const void *input, void *output,
                      size_t count, gloo_dtype dtype, gloo_op op,
                      const gloo_options *options, gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, op, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(MPI_Scan(gli_mpi_input(input), output, a.count, a.type,
                                 a.op, MPI_COMM_WORLD),
                        error);
}

gloo_status gloo_exscan(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, gloo_op op,
                        const gloo_options *options, gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, op, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(MPI_Exscan(gli_mpi_input(input), output, a.count,
                                   a.type, a.op, MPI_COMM_WORLD),
                        error);
}

/* ---- to and from a root -------------------------------------------------- */

/* MPI has the in-place form only at the root. */
gloo_status gloo_reduce(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, gloo_op op, int root,
                        const gloo_options *options, gloo_error *error) {
  (void)options;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, op, error, &a);
  if (status != GLOO_OK) return status;
  bool other = input == GLOO_IN_PLACE && root != context->rank;
  return gli_mpi_result(
      MPI_Reduce(other ? output : gli_mpi_input(input), output, a.count, a.type,
                 a.op, root, MPI_COMM_WORLD),
      error);
}

gloo_status gloo_gather(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, int root,
                        const gloo_options *options, gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, GLOO_SUM, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(
      MPI_Gather(gli_mpi_input(input), a.count, a.type, output, a.count, a.type,
                 root, MPI_COMM_WORLD),
      error);
}

gloo_status gloo_scatter(gloo_context *context, const void *input, void *output,
                         size_t count, gloo_dtype dtype, int root,
                         const gloo_options *options, gloo_error *error) {
  (void)options;
  (void)context;
  if (input == GLOO_IN_PLACE) return gli_mpi_no_scatter(error);
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, GLOO_SUM, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(MPI_Scatter(input, a.count, a.type, output, a.count,
                                    a.type, root, MPI_COMM_WORLD),
                        error);
}

/* ---- messages ----------------------------------------------------------- */

gloo_status gloo_send(gloo_context *context, const void *input, size_t count,
                      gloo_dtype dtype, int peer, const gloo_options *options,
                      gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, GLOO_SUM, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(
      MPI_Send(input, a.count, a.type, peer, 0, MPI_COMM_WORLD), error);
}

gloo_status gloo_recv(gloo_context *context, void *output, size_t count,
                      gloo_dtype dtype, int peer, const gloo_options *options,
                      gloo_error *error) {
  (void)options;
  (void)context;
  gli_mpi_call a;
  gloo_status status = gli_mpi_convert(count, dtype, GLOO_SUM, error, &a);
  if (status != GLOO_OK) return status;
  return gli_mpi_result(MPI_Recv(output, a.count, a.type, peer, 0,
                                 MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                        error);
}
