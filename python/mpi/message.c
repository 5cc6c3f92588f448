/* Messages between two ranks, and requests. The receiver must pass the length
 * that was sent; MPI_ANY_TAG is not supported. */
#include <stdlib.h>

#include "abi.h"

/* The object that a request handle points to. */
typedef struct mpi_request {
  gloo_request *request;
  int peer; /* -1: any; the completed request has the source */
  int tag;
} mpi_request;

static void mpi_status_set(mpi_status *status, int source, int tag, int error) {
  if (status == NULL) return;
  status->source = source;
  status->tag = tag;
  status->error = error;
}

static bool mpi_message_begin(mpi_call *call, const char *function,
                              mpi_handle comm, int count, mpi_handle type,
                              int tag, gloo_dtype *dtype,
                              gloo_options *options) {
  if (!mpi_begin(call, function, comm) || !mpi_take_count(call, count) ||
      !mpi_take_type(call, type, dtype)) {
    return false;
  }
  if (tag < 0) {
    call->failed =
        mpi_fail_aloud(MPIABI_ERR_TAG, function,
                       "the tag is %d; gloo_c needs one from 0", tag);
    return false;
  }
  *options = (gloo_options)GLOO_OPTIONS_INIT;
  options->tag = (uint32_t)tag;
  return true;
}

/* Creates the handle of a request that was started. */
static int mpi_request_end(mpi_call *call, gloo_status status,
                           gloo_request *request, int peer, int tag,
                           mpi_handle *handle) {
  if (status != GLOO_OK) return mpi_end(call, status);
  mpi_request *made = malloc(sizeof *made);
  if (made == NULL) {
    gloo_request_destroy(request);
    return mpi_end(call, GLOO_ERR_NO_MEMORY);
  }
  *made = (mpi_request){request, peer, tag};
  *handle = (mpi_handle)made;
  return mpi_end(call, GLOO_OK);
}

static int mpi_send_start(const char *function, const void *data, int count,
                          mpi_handle type, int peer, int tag, mpi_handle comm,
                          mpi_handle *handle) {
  mpi_call call;
  gloo_dtype dtype;
  gloo_options options;
  gloo_request *request = NULL;
  *handle = 0;
  if (!mpi_message_begin(&call, function, comm, count, type, tag, &dtype,
                         &options) ||
      peer == MPIABI_PROC_NULL) {
    return mpi_end(&call, GLOO_OK);
  }
  gloo_status status = gloo_send_start(call.context, data, (size_t)count, dtype,
                                       peer, &options, &request, &call.error);
  return mpi_request_end(&call, status, request, peer, tag, handle);
}

static int mpi_recv_start(const char *function, void *data, int count,
                          mpi_handle type, int peer, int tag, mpi_handle comm,
                          mpi_handle *handle) {
  mpi_call call;
  gloo_dtype dtype;
  gloo_options options;
  gloo_request *request = NULL;
  *handle = 0;
  if (!mpi_message_begin(&call, function, comm, count, type, tag, &dtype,
                         &options) ||
      peer == MPIABI_PROC_NULL) {
    return mpi_end(&call, GLOO_OK);
  }
  gloo_status status;
  if (peer == MPIABI_ANY_SOURCE) {
    peer = -1;
    status = gloo_recv_any_start(call.context, data, (size_t)count, dtype, NULL,
                                 0, &options, &request, &call.error);
  } else {
    status = gloo_recv_start(call.context, data, (size_t)count, dtype, peer,
                             &options, &request, &call.error);
  }
  return mpi_request_end(&call, status, request, peer, tag, handle);
}

/* Destroys a completed request and its handle. Returns its error class. */
static int mpi_request_over(const char *function, mpi_handle *handle,
                            gloo_status ended, const gloo_error *error,
                            mpi_status *status) {
  mpi_request *made = (mpi_request *)*handle;
  int source = gloo_request_source(made->request);
  int result = MPIABI_SUCCESS;
  if (ended != GLOO_OK) result = mpi_fail_by(function, ended, error);
  mpi_status_set(status, source >= 0 ? source : made->peer, made->tag, result);
  gloo_request_destroy(made->request);
  free(made);
  *handle = 0;
  return result;
}

static int mpi_request_wait(const char *function, mpi_handle *handle,
                            mpi_status *status) {
  mpi_request *made = (mpi_request *)*handle;
  gloo_error error = {.message = ""};
  if (made == NULL) {
    mpi_status_set(status, MPIABI_PROC_NULL, -1, MPIABI_SUCCESS);
    return MPIABI_SUCCESS;
  }
  gloo_status ended =
      gloo_request_wait(made->request, GLOO_TIMEOUT_DEFAULT, &error);
  return mpi_request_over(function, handle, ended, &error, status);
}

/* ---- the calls ----------------------------------------------------------- */

int MPIABI_Isend(const void *data, int count, mpi_handle type, int peer,
                 int tag, mpi_handle comm, mpi_handle *request) {
  return mpi_send_start("MPI_Isend", data, count, type, peer, tag, comm,
                        request);
}

int MPIABI_Irecv(void *data, int count, mpi_handle type, int peer, int tag,
                 mpi_handle comm, mpi_handle *request) {
  return mpi_recv_start("MPI_Irecv", data, count, type, peer, tag, comm,
                        request);
}

int MPIABI_Send(const void *data, int count, mpi_handle type, int peer, int tag,
                mpi_handle comm) {
  mpi_handle request;
  int result =
      mpi_send_start("MPI_Send", data, count, type, peer, tag, comm, &request);
  if (result != MPIABI_SUCCESS) return result;
  return mpi_request_wait("MPI_Send", &request, NULL);
}

int MPIABI_Recv(void *data, int count, mpi_handle type, int peer, int tag,
                mpi_handle comm, mpi_status *status) {
  mpi_handle request;
  int result =
      mpi_recv_start("MPI_Recv", data, count, type, peer, tag, comm, &request);
  if (result != MPIABI_SUCCESS) return result;
  return mpi_request_wait("MPI_Recv", &request, status);
}

int MPIABI_Sendrecv(const void *input, int input_count, mpi_handle input_type,
                    int to, int input_tag, void *output, int count,
                    mpi_handle type, int from, int tag, mpi_handle comm,
                    mpi_status *status) {
  mpi_handle receive, send;
  int result = mpi_recv_start("MPI_Sendrecv", output, count, type, from, tag,
                              comm, &receive);
  if (result != MPIABI_SUCCESS) return result;
  result = mpi_send_start("MPI_Sendrecv", input, input_count, input_type, to,
                          input_tag, comm, &send);
  if (result != MPIABI_SUCCESS && receive != 0) {
    mpi_request *made = (mpi_request *)receive;
    gloo_request_destroy(made->request);
    free(made);
  }
  if (result != MPIABI_SUCCESS) return result;
  result = mpi_request_wait("MPI_Sendrecv", &send, NULL);
  int received = mpi_request_wait("MPI_Sendrecv", &receive, status);
  return received != MPIABI_SUCCESS ? received : result;
}

int MPIABI_Wait(mpi_handle *request, mpi_status *status) {
  return mpi_request_wait("MPI_Wait", request, status);
}

/* Waits for all requests even after an error, because the caller reuses the
 * buffers. */
int MPIABI_Waitall(int n, mpi_handle *requests, mpi_status *statuses) {
  int first = MPIABI_SUCCESS;
  for (int i = 0; i < n; i++) {
    int result = mpi_request_wait("MPI_Waitall", &requests[i],
                                  statuses != NULL ? &statuses[i] : NULL);
    if (first == MPIABI_SUCCESS) first = result;
  }
  return first;
}

int MPIABI_Test(mpi_handle *request, int *flag, mpi_status *status) {
  mpi_request *made = (mpi_request *)*request;
  gloo_error error = {.message = ""};
  *flag = 1;
  if (made == NULL) return mpi_request_wait("MPI_Test", request, status);
  gloo_status ended = gloo_request_test(made->request, &error);
  if (ended != GLOO_IN_PROGRESS) {
    return mpi_request_over("MPI_Test", request, ended, &error, status);
  }
  *flag = 0;
  return MPIABI_SUCCESS;
}
