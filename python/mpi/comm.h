/* The list of communicators. */
#ifndef GLOO_C_MPI_COMM_H
#define GLOO_C_MPI_COMM_H

#include "abi.h"

/* Add a context, which is the list's from now on. The handle is a new one, or
 * the one given if that is not 0. Returns 0 when there is no memory. */
mpi_handle mpi_comm_add(gloo_context *context, mpi_handle handle);

/* Take a communicator out; its context goes when no call is on it any more. */
bool mpi_comm_drop(mpi_handle handle);
void mpi_comm_drop_all(void);

/* Why there are no communicators at all; NULL: there are. */
const char *mpi_not_there(void);
/* What to say of MPI_COMM_NULL. */
const char *mpi_comm_null_is(void);

#endif
