/* A rank that meets the others through the launcher's interface and executes
 * the words of its command line, some of which call MPI.
 * usage: meet simple|pmix WORD...
 *   meet        opens the store; each rank sets a key and reads those of all
 *   late=MS     the last rank sleeps this long
 *   away=RANK   this rank sleeps for a second, then exits
 *   wait=MS     timeout of the following words
 *   fork        calls in a child are refused, and change nothing
 *   init=FILE   MPI_Init of that library; as the first word, before all else
 *   end         MPI_Finalize
 *   exit=N, _exit=N, kill=RANK */
#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "rendezvous/launch/store_pmi.h"
#include "rendezvous/store/store.h"

static gli_pmi_kind kind;
static gli_pmi_job job;
static int64_t patience_ns = INT64_C(20000000000);
static int meetings;

/* One write() keeps the line intact among those of other ranks. */
static void say(const char *what, const char *more) {
  char line[GLOO_ERROR_MESSAGE_BYTES + 200];
  int bytes =
      snprintf(line, sizeof line, "rank %" PRIu32 " of %" PRIu32 ": %s%s\n",
               job.rank, job.size, what, more);
  if (write(STDOUT_FILENO, line, (size_t)bytes) < 0) exit(9);
}

static void check(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  say("FAILS: ", error->message);
  exit(1);
}

static void key_of(char key[32], uint32_t rank) {
  snprintf(key, 32, "rank-%" PRIu32, rank);
}

static void meet(void) {
  gloo_store *store;
  gloo_error error;
  gloo_value value;
  char key[32], text[32];
  gloo_store_tcp_options how = GLOO_STORE_TCP_OPTIONS_INIT;
  how.timeout_ns = patience_ns;
  check(gli_store_pmi_open(kind, job.rank, &how, &store, &error), &error);
  snprintf(text, sizeof text, "%d", meetings++);
  key_of(key, job.rank);
  check(gloo_store_set(store, key, text, strlen(text), &error), &error);
  for (uint32_t r = 0; r < job.size; r++) {
    key_of(key, r);
    check(gloo_store_get(store, key, patience_ns, &value, &error), &error);
    if (value.bytes != strlen(text) ||
        memcmp(value.data, text, value.bytes) != 0)
      say("WRONG", "");
    free(value.data);
  }
  /* Rank 0 serves the store and stays until all ranks have read it. */
  int64_t n;
  check(gloo_store_add(store, "left", 1, &n, &error), &error);
  while (job.rank == 0 && n < job.size) {
    uv_sleep(5);
    check(gloo_store_add(store, "left", 0, &n, &error), &error);
  }
  gloo_store_destroy(store);
  say("met ", text);
}

static void child(void) {
  pid_t pid = fork();
  if (pid == 0) {
    gli_pmi_job same;
    exit(gli_pmi_join(kind, patience_ns, &same, NULL) == GLOO_ERR_FORKED ? 7
                                                                         : 1);
  }
  int status;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 7) {
    say("a child was not refused", "");
    exit(1);
  }
}

static void *mpi_library;

static void mpi(const char *function, void *one, void *two) {
  int (*call)(void *, void *);
  void *symbol = mpi_library != NULL ? dlsym(mpi_library, function) : NULL;
  if (symbol == NULL) {
    say("no MPI: ", dlerror());
    exit(1);
  }
  memcpy(&call, &symbol, sizeof call);
  if (call(one, two) != 0) {
    say("MPI fails: ", function);
    exit(1);
  }
}

static long number(const char *word) {
  return atol(strchr(word, '=') + 1);
}
static bool is(const char *word, const char *name) {
  return strncmp(word, name, strlen(name)) == 0;
}

static void act(const char *word) {
  if (is(word, "meet")) meet();
  if (is(word, "fork")) child();
  if (is(word, "init=")) {
    mpi_library = dlopen(word + 5, RTLD_NOW | RTLD_GLOBAL);
    mpi("MPI_Init", NULL, NULL);
  }
  if (is(word, "end")) mpi("MPI_Finalize", NULL, NULL);
  if (is(word, "wait=")) patience_ns = number(word) * 1000000;
  if (is(word, "late=") && job.rank + 1 == job.size)
    uv_sleep((unsigned)number(word));
  if (is(word, "away=") && job.rank == (uint32_t)number(word)) {
    uv_sleep(1000);
    exit(0);
  }
  if (is(word, "exit=")) exit((int)number(word));
  if (is(word, "_exit=")) _exit((int)number(word));
  if (is(word, "kill=") && job.rank == (uint32_t)number(word))
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv) {
  gloo_error error;
  int next = 2;
  if (argc < 2) return 2;
  kind = strcmp(argv[1], "pmix") == 0 ? GLI_PMI_PMIX : GLI_PMI_SIMPLE;
  /* init= as the first word calls MPI_Init before all else. */
  if (argc > 2 && is(argv[2], "init=")) act(argv[next++]);
  if (argc > 3 && strncmp(argv[2], "never=", 6) == 0) {
    const char *rank = getenv(kind == GLI_PMI_PMIX ? "PMIX_RANK" : "PMI_RANK");
    if (rank != NULL && strcmp(rank, argv[next++] + 6) == 0)
      return uv_sleep(3000), 0;
  }
  check(gli_pmi_join(kind, patience_ns, &job, &error), &error);
  for (; next < argc; next++) act(argv[next]);
  say("ends", "");
  return 0;
}
