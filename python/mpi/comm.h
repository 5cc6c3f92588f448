/* The list of communicators. */
#ifndef GLOO_C_MPI_COMM_H
#define GLOO_C_MPI_COMM_H

#include "abi.h"

/* Adds a context, which the list then owns. Returns `handle`, a new one if that
 * is 0, or 0 if memory runs out. */
mpi_handle mpi_comm_add(gloo_context *context, mpi_handle handle);

/* Removes a communicator; its context is destroyed after the last call on
 * it. */
bool mpi_comm_drop(mpi_handle handle);
void mpi_comm_drop_all(void);

/* Returns why there are no communicators at all, or NULL. */
const char *mpi_not_there(void);
/* Returns the reason of an error about MPI_COMM_NULL. */
const char *mpi_comm_null_is(void);

#endif
