/* Functions shared by the parts of the MPI peer. */
#ifndef GLI_BENCH_PEERS_MPI_PEER_H
#define GLI_BENCH_PEERS_MPI_PEER_H

#include <mpi.h>

#include "gloo_c/gloo_c.h"

enum { GLI_MPI_LISTS = 4 };

struct gloo_context {
  int rank, size;
  int *lists; /* [GLI_MPI_LISTS][size], of the current call */
};

typedef struct gli_mpi_call {
  int count;
  MPI_Datatype type;
  MPI_Op op;
} gli_mpi_call;

/* Converts a call's count, type and operation to those of MPI; fails if MPI has
 * none. */
gloo_status gli_mpi_convert(size_t count, gloo_dtype dtype, gloo_op op,
                            gloo_error *error, gli_mpi_call *to);
/* Converts the return code of an MPI function. */
gloo_status gli_mpi_result(int code, gloo_error *error);
const void *gli_mpi_input(const void *input);
/* Fails: the in-place form is not supported. */
gloo_status gli_mpi_no_scatter(gloo_error *error);

#endif
