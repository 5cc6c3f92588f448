/* What the parts of the MPI peer share. */
#ifndef GLI_BENCH_PEERS_MPI_PEER_H
#define GLI_BENCH_PEERS_MPI_PEER_H

#include <mpi.h>

#include "gloo_c/gloo_c.h"

enum { GLI_MPI_LISTS = 4 };

struct gloo_context {
  int rank, size;
  int *lists; /* [GLI_MPI_LISTS][size] of the call that runs */
};

typedef struct gli_mpi_call {
  int count;
  MPI_Datatype type;
  MPI_Op op;
} gli_mpi_call;

/* A call's count, type and operation as MPI knows them; fails where it knows
 * none. */
gloo_status gli_mpi_convert(size_t count, gloo_dtype dtype, gloo_op op,
                            gloo_error *error, gli_mpi_call *to);
/* What an MPI function returned. */
gloo_status gli_mpi_result(int code, gloo_error *error);
const void *gli_mpi_input(const void *input);
/* In place. */
gloo_status gli_mpi_no_scatter(gloo_error *error);

#endif
