/* Errors, and the queries about this MPI. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"

/* The last error of a thread. MPI_Error_string receives only a class, and JAX
 * calls it in the thread in which the call failed. */
static _Thread_local struct {
  int class;
  char text[MPI_STRING_BYTES];
} mpi_last;

static void mpi_last_set(int class, const char *function, const char *format,
                         va_list arguments) {
  mpi_last.class = class;
  int length = snprintf(mpi_last.text, sizeof mpi_last.text, "%s: ", function);
  if (length < 0 || length >= (int)sizeof mpi_last.text) return;
  vsnprintf(mpi_last.text + length, sizeof mpi_last.text - (size_t)length,
            format, arguments);
}

int mpi_fail(int class, const char *function, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  mpi_last_set(class, function, format, arguments);
  va_end(arguments);
  return class;
}

int mpi_fail_aloud(int class, const char *function, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  mpi_last_set(class, function, format, arguments);
  va_end(arguments);
  fprintf(stderr, "gloo_c: %s\n", mpi_last.text);
  return class;
}

int mpi_refuse(const char *function) {
  return mpi_fail_aloud(MPIABI_ERR_UNSUPPORTED_OPERATION, function,
                        "gloo_c's MPI does not have this function");
}

static int mpi_class_of(gloo_status status) {
  switch (status) {
    case GLOO_ERR_ROOT:
      return MPIABI_ERR_ROOT;
    case GLOO_ERR_RANK:
      return MPIABI_ERR_RANK;
    case GLOO_ERR_COUNT:
      return MPIABI_ERR_COUNT;
    case GLOO_ERR_DTYPE:
      return MPIABI_ERR_TYPE;
    case GLOO_ERR_OP:
      return MPIABI_ERR_OP;
    case GLOO_ERR_BUFFER:
      return MPIABI_ERR_BUFFER;
    case GLOO_ERR_INVALID:
      return MPIABI_ERR_ARG;
    case GLOO_ERR_UNSUPPORTED:
      return MPIABI_ERR_UNSUPPORTED_OPERATION;
    case GLOO_ERR_NO_MEMORY:
      return MPIABI_ERR_NO_MEM;
    case GLOO_ERR_INTERNAL:
      return MPIABI_ERR_INTERN;
    default:
      return MPIABI_ERR_OTHER;
  }
}

int mpi_fail_by(const char *function, gloo_status status,
                const gloo_error *error) {
  const char *text = error->message;
  return mpi_fail(mpi_class_of(status), function, "%s",
                  text[0] != '\0' ? text : gloo_status_string(status));
}

/* ---- questions ----------------------------------------------------------- */

static int mpi_text_give(const char *text, size_t room, char *place,
                         int *length) {
  *length = snprintf(place, room, "%s", text);
  if (*length >= (int)room) *length = (int)room - 1;
  return MPIABI_SUCCESS;
}

int MPIABI_Error_string(int code, char *text, int *length) {
  const char *known = "an error of MPI";
  if (code == MPIABI_SUCCESS) known = "no error";
  if (code != MPIABI_SUCCESS && code == mpi_last.class) known = mpi_last.text;
  return mpi_text_give(known, MPI_STRING_BYTES, text, length);
}

int MPIABI_Error_class(int code, int *class) {
  *class = code;
  return MPIABI_SUCCESS;
}

int MPIABI_Get_version(int *version, int *subversion) {
  *version = 3;
  *subversion = 1;
  return MPIABI_SUCCESS;
}

int MPIABI_Get_library_version(char *text, int *length) {
  char version[MPI_NAME_BYTES];
  snprintf(version, sizeof version, "gloo_c %s", gloo_version());
  return mpi_text_give(version, MPI_STRING_BYTES, text, length);
}

int MPIABI_Get_processor_name(char *name, int *length) {
  char host[MPI_NAME_BYTES] = "unknown";
  if (gethostname(host, sizeof host) == 0) host[sizeof host - 1] = '\0';
  return mpi_text_give(host, MPI_NAME_BYTES, name, length);
}

double MPIABI_Wtime(void) {
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double MPIABI_Wtick(void) {
  return 1e-9;
}
