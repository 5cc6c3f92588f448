/* libgloo_c_mpi: the MPI that programs load through MPItrampoline, with its
 * binary interface (abi.txt). JAX does so for its MPI collectives.
 *
 * Only the functions that JAX needs, and a few more, are implemented.
 * generate.py adds all constants, and a stub that returns an error for each
 * other function.
 *
 * Functions return an error class of MPI, or MPIABI_SUCCESS. Only MPI_Abort
 * ends the program. All are harmless before MPI_Init and after MPI_Finalize.
 * Any thread may call them. */
#ifndef GLOO_C_MPI_ABI_H
#define GLOO_C_MPI_ABI_H

#include <gloo_c/gloo_c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- constants ----------------------------------------------------------- */

typedef uintptr_t mpi_handle;

/* Handles of datatypes and operations: index in the table plus an offset. */
enum { MPI_FIRST_TYPE = 0x1000, MPI_FIRST_OP = 0x2000 };
enum { MPI_WORLD = 1, MPI_SELF = 2, MPI_FIRST_COMM = 16 };
enum { MPI_STRING_BYTES = 1024, MPI_NAME_BYTES = 128 };

#define SIGNED_OF(type) (sizeof(type) == 8 ? GLOO_INT64 : GLOO_INT32)
#define UNSIGNED_OF(type) (sizeof(type) == 8 ? GLOO_UINT64 : GLOO_UINT32)

typedef struct mpi_meaning {
  const char *name;
  int meaning; /* a gloo_dtype or gloo_op; -1: not supported */
} mpi_meaning;

extern const mpi_meaning mpi_types[], mpi_ops[];
extern const size_t mpi_types_count, mpi_ops_count;

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

extern int MPIABI_SUCCESS, MPIABI_ANY_SOURCE, MPIABI_PROC_NULL,
    MPIABI_UNDEFINED, MPIABI_THREAD_MULTIPLE;
extern int MPIABI_ERR_ARG, MPIABI_ERR_BUFFER, MPIABI_ERR_COMM, MPIABI_ERR_COUNT,
    MPIABI_ERR_INTERN, MPIABI_ERR_NO_MEM, MPIABI_ERR_OP, MPIABI_ERR_OTHER,
    MPIABI_ERR_RANK, MPIABI_ERR_ROOT, MPIABI_ERR_TAG, MPIABI_ERR_TYPE,
    MPIABI_ERR_UNSUPPORTED_OPERATION;

extern const int mpiwrapper_version_major, mpiwrapper_version_minor,
    mpiwrapper_version_patch;
extern const int mpiabi_version_major, mpiabi_version_minor,
    mpiabi_version_patch;
void mpiwrapper_export_fortran_constants_(void);

/* Members before source and tag are private. */
typedef struct mpi_status {
  int own[4];
  size_t own_size;
  int source;
  int tag;
  int error;
} mpi_status;

/* ---- functions ----------------------------------------------------------- */

int MPIABI_Init(int *argc, char ***argv);
int MPIABI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPIABI_Initialized(int *flag);
int MPIABI_Finalize(void);
int MPIABI_Finalized(int *flag);
int MPIABI_Query_thread(int *provided);
int MPIABI_Is_thread_main(int *flag);
int MPIABI_Abort(mpi_handle comm, int code);

int MPIABI_Error_string(int code, char *text, int *length);
int MPIABI_Error_class(int code, int *class);
int MPIABI_Get_version(int *version, int *subversion);
int MPIABI_Get_library_version(char *text, int *length);
int MPIABI_Get_processor_name(char *name, int *length);
int MPIABI_Type_size(mpi_handle type, int *bytes);
double MPIABI_Wtime(void);
double MPIABI_Wtick(void);

int MPIABI_Comm_rank(mpi_handle comm, int *rank);
int MPIABI_Comm_size(mpi_handle comm, int *size);
int MPIABI_Comm_split(mpi_handle comm, int color, int key, mpi_handle *group);
int MPIABI_Comm_dup(mpi_handle comm, mpi_handle *copy);
int MPIABI_Comm_free(mpi_handle *comm);

int MPIABI_Barrier(mpi_handle comm);
int MPIABI_Bcast(void *data, int count, mpi_handle type, int root,
                 mpi_handle comm);
int MPIABI_Reduce(const void *input, void *output, int count, mpi_handle type,
                  mpi_handle op, int root, mpi_handle comm);
int MPIABI_Allreduce(const void *input, void *output, int count,
                     mpi_handle type, mpi_handle op, mpi_handle comm);
int MPIABI_Reduce_scatter(const void *input, void *output, const int *counts,
                          mpi_handle type, mpi_handle op, mpi_handle comm);
int MPIABI_Reduce_scatter_block(const void *input, void *output, int count,
                                mpi_handle type, mpi_handle op,
                                mpi_handle comm);
int MPIABI_Allgather(const void *input, int input_count, mpi_handle input_type,
                     void *output, int count, mpi_handle type, mpi_handle comm);
int MPIABI_Alltoall(const void *input, int input_count, mpi_handle input_type,
                    void *output, int count, mpi_handle type, mpi_handle comm);

int MPIABI_Send(const void *data, int count, mpi_handle type, int peer, int tag,
                mpi_handle comm);
int MPIABI_Recv(void *data, int count, mpi_handle type, int peer, int tag,
                mpi_handle comm, mpi_status *status);
int MPIABI_Sendrecv(const void *input, int input_count, mpi_handle input_type,
                    int to, int input_tag, void *output, int count,
                    mpi_handle type, int from, int tag, mpi_handle comm,
                    mpi_status *status);
int MPIABI_Isend(const void *data, int count, mpi_handle type, int peer,
                 int tag, mpi_handle comm, mpi_handle *request);
int MPIABI_Irecv(void *data, int count, mpi_handle type, int peer, int tag,
                 mpi_handle comm, mpi_handle *request);
int MPIABI_Wait(mpi_handle *request, mpi_status *status);
int MPIABI_Waitall(int n, mpi_handle *requests, mpi_status *statuses);
int MPIABI_Test(mpi_handle *request, int *flag, mpi_status *status);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

/* ---- inside -------------------------------------------------------------- */

/* A call on a communicator, which keeps it alive. Each mpi_take_... checks an
 * argument and records an error; mpi_end returns the error class of that, or of
 * the library's status. */
typedef struct mpi_comm mpi_comm;
typedef struct mpi_call {
  const char *function;
  mpi_comm *comm;
  gloo_context *context;
  int failed; /* error class, or 0 */
  gloo_error error;
} mpi_call;

bool mpi_begin(mpi_call *call, const char *function, mpi_handle comm);
bool mpi_take_count(mpi_call *call, int count);
bool mpi_take_type(mpi_call *call, mpi_handle type, gloo_dtype *dtype);
bool mpi_take_op(mpi_call *call, mpi_handle op, gloo_op *reduction);
int mpi_end(mpi_call *call, gloo_status status);

/* Record an error of this thread; MPI_Error_string returns its text.
 * mpi_fail_aloud and mpi_refuse also write it to stderr, for callers that do
 * not ask. */
int mpi_fail(int class, const char *function, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
int mpi_fail_aloud(int class, const char *function, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
int mpi_refuse(const char *function);
/* Records `error` and returns the class of the status. */
int mpi_fail_by(const char *function, gloo_status status,
                const gloo_error *error);

#endif
