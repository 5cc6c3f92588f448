/* MPI_Init to MPI_Finalize, and the creation of communicators. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm.h"

#define SECOND INT64_C(1000000000)
/* The timeout that JAX uses for its own collectives. */
enum { MPI_TIMEOUT_S = 1800 };
/* Timeout of the creation of a communicator. It is shorter than that of a
 * collective, where a rank may be late because its input takes long to read. */
enum { MPI_MEETING_S = 300 };

enum mpi_phase { MPI_BEFORE, MPI_RUNNING, MPI_OVER };

static struct {
  pthread_mutex_t lock;
  enum mpi_phase phase;
  int64_t timeout_ns;
  char failure[MPI_STRING_BYTES]; /* why MPI_Init failed */
  char unmade[MPI_STRING_BYTES];  /* why a communicator could not be created */
} mpi_world = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Serializes the creation of communicators: MPI matches those of two threads by
 * order, and so does the library. */
static pthread_mutex_t mpi_split_lock = PTHREAD_MUTEX_INITIALIZER;

const char *mpi_not_there(void) {
  const char *why = NULL;
  pthread_mutex_lock(&mpi_world.lock);
  if (mpi_world.phase == MPI_OVER) {
    why = "MPI_Finalize was called before";
  } else if (mpi_world.failure[0] != '\0') {
    why = mpi_world.failure; /* never changes again */
  } else if (mpi_world.phase == MPI_BEFORE) {
    why = "MPI_Init was not called";
  }
  pthread_mutex_unlock(&mpi_world.lock);
  return why;
}

/* JAX ignores the result of MPI_Comm_split, and continues with MPI_COMM_NULL,
 * so this text has to explain the failure. */
const char *mpi_comm_null_is(void) {
  pthread_mutex_lock(&mpi_world.lock);
  bool failed = mpi_world.unmade[0] != '\0';
  pthread_mutex_unlock(&mpi_world.lock);
  return failed ? mpi_world.unmade : "this is MPI_COMM_NULL";
}

static void mpi_comm_unmade(const mpi_call *call) {
  pthread_mutex_lock(&mpi_world.lock);
  if (mpi_world.unmade[0] == '\0') {
    snprintf(mpi_world.unmade, sizeof mpi_world.unmade,
             "the communicator was not made: %s (all %d processes must take "
             "part, in the same order)",
             call->error.message, gloo_context_size(call->context));
  }
  pthread_mutex_unlock(&mpi_world.lock);
}

static int64_t mpi_meeting_ns(void) {
  int64_t most = MPI_MEETING_S * SECOND;
  return mpi_world.timeout_ns < most ? mpi_world.timeout_ns : most;
}

/* An empty value counts as unset, as in the library. */
static bool mpi_is_set(const char *value) {
  return value != NULL && value[0] != '\0';
}

/* Without GLOO_MPI_TIMEOUT the library reads and checks GLOO_TIMEOUT. */
static bool mpi_timeout_read(gloo_error *error) {
  const char *text = getenv("GLOO_MPI_TIMEOUT");
  char *end = NULL;
  if (!mpi_is_set(text) && mpi_is_set(getenv("GLOO_TIMEOUT"))) {
    mpi_world.timeout_ns = GLOO_TIMEOUT_DEFAULT;
    return true;
  }
  long seconds = MPI_TIMEOUT_S;
  if (mpi_is_set(text)) seconds = strtol(text, &end, 10);
  if (seconds < 1 || seconds > 10000000 || (end != NULL && *end != '\0')) {
    snprintf(error->message, sizeof error->message,
             "GLOO_MPI_TIMEOUT is \"%.40s\"; it must be a number of seconds "
             "from 1 to 10000000",
             text);
    return false;
  }
  mpi_world.timeout_ns = seconds * SECOND;
  return true;
}

/* Without these gloo_init creates a job of one rank, and sums are wrong if
 * there are other processes. */
static bool mpi_ranks_are_known(gloo_error *error) {
  if (mpi_is_set(getenv("RANK")) && mpi_is_set(getenv("WORLD_SIZE")))
    return true;
  snprintf(
      error->message, sizeof error->message,
      "RANK and WORLD_SIZE are not set: use a launcher such as gloo run, or "
      "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  return false;
}

static bool mpi_world_add(gloo_context *context, gloo_error *error) {
  gloo_context *self = NULL;
  int rank = gloo_context_rank(context);
  if (gloo_context_set_timeout(context, mpi_world.timeout_ns, error) !=
          GLOO_OK ||
      gloo_context_subset(context, &rank, 1, NULL, &self, error) != GLOO_OK) {
    gloo_context_destroy(context);
    return false;
  }
  if (mpi_comm_add(self, MPI_SELF) != 0) {
    if (mpi_comm_add(context, MPI_WORLD) != 0) return true;
    mpi_comm_drop(MPI_SELF);
  } else {
    gloo_context_destroy(self);
  }
  gloo_context_destroy(context);
  snprintf(error->message, sizeof error->message, "out of memory");
  return false;
}

static bool mpi_world_make(gloo_error *error) {
  gloo_context_options options = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_init_options init = GLOO_INIT_OPTIONS_INIT;
  gloo_context *context = NULL;
  if (!mpi_timeout_read(error) || !mpi_ranks_are_known(error)) return false;
  options.timeout_ns = mpi_world.timeout_ns == GLOO_TIMEOUT_DEFAULT
                           ? MPI_MEETING_S * SECOND
                           : mpi_meeting_ns();
  init.context = &options;
  if (gloo_init(&init, &context, error) != GLOO_OK) return false;
  return mpi_world_add(context, error);
}

int MPIABI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  (void)argc, (void)argv, (void)required;
  gloo_error error = {.message = ""};
  int result = MPIABI_SUCCESS;
  *provided = MPIABI_THREAD_MULTIPLE;
  pthread_mutex_lock(&mpi_world.lock);
  if (mpi_world.phase == MPI_OVER) {
    result = mpi_fail_aloud(MPIABI_ERR_OTHER, "MPI_Init",
                            "MPI_Finalize was called before");
  } else if (mpi_world.phase == MPI_BEFORE && mpi_world.failure[0] == '\0') {
    if (mpi_world_make(&error)) {
      mpi_world.phase = MPI_RUNNING;
    } else {
      /* JAX ignores this result; its first call reports the failure. */
      snprintf(mpi_world.failure, sizeof mpi_world.failure,
               "MPI_Init failed: %s", error.message);
      result =
          mpi_fail_aloud(MPIABI_ERR_OTHER, "MPI_Init", "%s", error.message);
    }
  } else if (mpi_world.phase == MPI_BEFORE) {
    result = mpi_fail(MPIABI_ERR_OTHER, "MPI_Init", "%s", mpi_world.failure);
  }
  pthread_mutex_unlock(&mpi_world.lock);
  return result;
}

int MPIABI_Init(int *argc, char ***argv) {
  int provided;
  return MPIABI_Init_thread(argc, argv, MPIABI_THREAD_MULTIPLE, &provided);
}

int MPIABI_Initialized(int *flag) {
  pthread_mutex_lock(&mpi_world.lock);
  *flag = mpi_world.phase != MPI_BEFORE;
  pthread_mutex_unlock(&mpi_world.lock);
  return MPIABI_SUCCESS;
}

int MPIABI_Finalized(int *flag) {
  pthread_mutex_lock(&mpi_world.lock);
  *flag = mpi_world.phase == MPI_OVER;
  pthread_mutex_unlock(&mpi_world.lock);
  return MPIABI_SUCCESS;
}

int MPIABI_Finalize(void) {
  pthread_mutex_lock(&mpi_world.lock);
  bool running = mpi_world.phase == MPI_RUNNING;
  mpi_world.phase = MPI_OVER;
  pthread_mutex_unlock(&mpi_world.lock);
  if (running) mpi_comm_drop_all();
  return MPIABI_SUCCESS;
}

int MPIABI_Query_thread(int *provided) {
  *provided = MPIABI_THREAD_MULTIPLE;
  return MPIABI_SUCCESS;
}

/* Any thread may act as the main one. JAX asks, and creates no communicators if
 * the answer is no. */
int MPIABI_Is_thread_main(int *flag) {
  *flag = 1;
  return MPIABI_SUCCESS;
}

int MPIABI_Abort(mpi_handle comm, int code) {
  mpi_call call;
  if (mpi_begin(&call, "MPI_Abort", comm)) {
    gloo_context_abort(call.context, "MPI_Abort was called", NULL);
  }
  mpi_end(&call, GLOO_OK);
  fprintf(stderr, "gloo_c: MPI_Abort was called, with %d\n", code);
  exit(code);
}

/* ---- making communicators ------------------------------------------------ */

static gloo_status mpi_group_make(mpi_call *call, int color, int key,
                                  gloo_context **group) {
  gloo_group_options options = GLOO_GROUP_OPTIONS_INIT;
  options.timeout_ns = mpi_meeting_ns();
  pthread_mutex_lock(&mpi_split_lock);
  gloo_status status = gloo_context_split(call->context, color, key, &options,
                                          group, &call->error);
  pthread_mutex_unlock(&mpi_split_lock);
  if (status == GLOO_OK && *group != NULL) {
    gloo_context_set_timeout(*group, mpi_world.timeout_ns, NULL);
  }
  return status;
}

static int mpi_group_add(mpi_call *call, int color, int key,
                         mpi_handle *handle) {
  gloo_context *group = NULL;
  gloo_status status = mpi_group_make(call, color, key, &group);
  if (group != NULL) *handle = mpi_comm_add(group, 0);
  if (group != NULL && *handle == 0) {
    gloo_context_destroy(group);
    call->failed = mpi_fail(MPIABI_ERR_NO_MEM, call->function, "out of memory");
  }
  if (status != GLOO_OK) {
    mpi_comm_unmade(call);
    call->failed = mpi_fail_aloud(MPIABI_ERR_OTHER, call->function, "%s",
                                  mpi_comm_null_is());
  }
  return mpi_end(call, status);
}

int MPIABI_Comm_split(mpi_handle comm, int color, int key, mpi_handle *group) {
  mpi_call call;
  *group = 0;
  if (!mpi_begin(&call, "MPI_Comm_split", comm)) return mpi_end(&call, GLOO_OK);
  if (color < 0 && color != MPIABI_UNDEFINED) {
    call.failed = mpi_fail_aloud(MPIABI_ERR_ARG, call.function,
                                 "the color is %d, below 0", color);
    return mpi_end(&call, GLOO_OK);
  }
  return mpi_group_add(&call, color < 0 ? GLOO_NO_COLOR : color, key, group);
}

int MPIABI_Comm_dup(mpi_handle comm, mpi_handle *copy) {
  mpi_call call;
  *copy = 0;
  if (!mpi_begin(&call, "MPI_Comm_dup", comm)) return mpi_end(&call, GLOO_OK);
  return mpi_group_add(&call, 0, gloo_context_rank(call.context), copy);
}

int MPIABI_Comm_free(mpi_handle *comm) {
  mpi_handle handle = *comm;
  *comm = 0;
  if (handle == MPI_WORLD || handle == MPI_SELF) {
    return mpi_fail(MPIABI_ERR_COMM, "MPI_Comm_free",
                    "this communicator goes with MPI_Finalize");
  }
  if (mpi_comm_drop(handle) || mpi_not_there() != NULL) return MPIABI_SUCCESS;
  return mpi_fail(MPIABI_ERR_COMM, "MPI_Comm_free", "not a valid communicator");
}
