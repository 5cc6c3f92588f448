/* Communicators: contexts by handle. A handle is a number that is never reused,
 * so that a freed communicator, or an uninitialized handle, is distinguished
 * from a valid one. */
#include "comm.h"

#include <pthread.h>
#include <stdlib.h>

struct mpi_comm {
  mpi_handle handle;
  gloo_context *context;
  int users; /* calls, plus one while the handle is valid */
  mpi_comm *next;
};

static pthread_mutex_t mpi_comm_lock = PTHREAD_MUTEX_INITIALIZER;
static mpi_comm *mpi_comms;
static mpi_handle mpi_comm_next = MPI_FIRST_COMM;

static mpi_comm *mpi_comm_find(mpi_handle handle) {
  mpi_comm *comm = mpi_comms;
  while (comm != NULL && comm->handle != handle) comm = comm->next;
  return comm;
}

static void mpi_comm_release(mpi_comm *comm) {
  pthread_mutex_lock(&mpi_comm_lock);
  bool last = --comm->users == 0;
  pthread_mutex_unlock(&mpi_comm_lock);
  if (!last) return;
  gloo_context_destroy(comm->context);
  free(comm);
}

mpi_handle mpi_comm_add(gloo_context *context, mpi_handle handle) {
  mpi_comm *comm = malloc(sizeof *comm);
  if (comm == NULL) return 0;
  pthread_mutex_lock(&mpi_comm_lock);
  if (handle == 0) handle = mpi_comm_next++;
  *comm = (mpi_comm){handle, context, 1, mpi_comms};
  mpi_comms = comm;
  pthread_mutex_unlock(&mpi_comm_lock);
  return handle;
}

static mpi_comm *mpi_comm_unlink(mpi_handle handle) {
  pthread_mutex_lock(&mpi_comm_lock);
  mpi_comm **place = &mpi_comms;
  while (*place != NULL && (*place)->handle != handle) place = &(*place)->next;
  mpi_comm *comm = *place;
  if (comm != NULL) *place = comm->next;
  pthread_mutex_unlock(&mpi_comm_lock);
  return comm;
}

bool mpi_comm_drop(mpi_handle handle) {
  mpi_comm *comm = mpi_comm_unlink(handle);
  if (comm != NULL) mpi_comm_release(comm);
  return comm != NULL;
}

void mpi_comm_drop_all(void) {
  mpi_handle handle;
  do {
    pthread_mutex_lock(&mpi_comm_lock);
    handle = mpi_comms != NULL ? mpi_comms->handle : 0;
    pthread_mutex_unlock(&mpi_comm_lock);
    if (handle != 0) mpi_comm_drop(handle);
  } while (handle != 0);
}

/* ---- calls --------------------------------------------------------------- */

bool mpi_begin(mpi_call *call, const char *function, mpi_handle handle) {
  *call = (mpi_call){.function = function};
  pthread_mutex_lock(&mpi_comm_lock);
  mpi_comm *comm = mpi_comm_find(handle);
  if (comm != NULL) comm->users++;
  pthread_mutex_unlock(&mpi_comm_lock);
  if (comm == NULL) {
    const char *why = mpi_not_there();
    if (why == NULL && handle == 0) why = mpi_comm_null_is();
    call->failed = mpi_fail(MPIABI_ERR_COMM, function, "%s",
                            why != NULL ? why : "not a valid communicator");
    return false;
  }
  call->comm = comm;
  call->context = comm->context;
  return true;
}

int mpi_end(mpi_call *call, gloo_status status) {
  if (call->comm != NULL) mpi_comm_release(call->comm);
  if (call->failed != 0) return call->failed;
  if (status == GLOO_OK) return MPIABI_SUCCESS;
  return mpi_fail_by(call->function, status, &call->error);
}

bool mpi_take_count(mpi_call *call, int count) {
  if (count >= 0) return true;
  call->failed = mpi_fail_aloud(MPIABI_ERR_COUNT, call->function,
                                "the count is %d", count);
  return false;
}

bool mpi_take_type(mpi_call *call, mpi_handle type, gloo_dtype *dtype) {
  size_t index = type - MPI_FIRST_TYPE;
  if (index < mpi_types_count && mpi_types[index].meaning >= 0) {
    *dtype = (gloo_dtype)mpi_types[index].meaning;
    return true;
  }
  call->failed = mpi_fail_aloud(
      MPIABI_ERR_TYPE, call->function, "%s is not a type that gloo_c supports",
      index < mpi_types_count ? mpi_types[index].name : "this");
  return false;
}

bool mpi_take_op(mpi_call *call, mpi_handle op, gloo_op *reduction) {
  size_t index = op - MPI_FIRST_OP;
  if (index < mpi_ops_count && mpi_ops[index].meaning >= 0) {
    *reduction = (gloo_op)mpi_ops[index].meaning;
    return true;
  }
  call->failed =
      mpi_fail_aloud(MPIABI_ERR_OP, call->function,
                     "%s is not an operation that gloo_c supports",
                     index < mpi_ops_count ? mpi_ops[index].name : "this");
  return false;
}

int MPIABI_Comm_rank(mpi_handle comm, int *rank) {
  mpi_call call;
  *rank = -1;
  if (mpi_begin(&call, "MPI_Comm_rank", comm)) {
    *rank = gloo_context_rank(call.context);
  }
  return mpi_end(&call, GLOO_OK);
}

int MPIABI_Comm_size(mpi_handle comm, int *size) {
  mpi_call call;
  *size = 0;
  if (mpi_begin(&call, "MPI_Comm_size", comm)) {
    *size = gloo_context_size(call.context);
  }
  return mpi_end(&call, GLOO_OK);
}

int MPIABI_Type_size(mpi_handle type, int *bytes) {
  mpi_call call = {.function = "MPI_Type_size"};
  gloo_dtype dtype;
  *bytes = 0;
  if (mpi_take_type(&call, type, &dtype)) *bytes = (int)gloo_dtype_size(dtype);
  return mpi_end(&call, GLOO_OK);
}
