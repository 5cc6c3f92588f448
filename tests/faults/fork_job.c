#include "fork_job.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { PATIENCE_S = 240, COUNT = 20000 };

/* ---- what a rank does ---------------------------------------------------- */

void job_work(rank *r, gloo_context *context) {
  static _Thread_local float in[COUNT], out[COUNT];
  int k = r->rounds++;
  for (int i = 0; i < COUNT; i++) in[i] = (float)(r->rank + i % 7 + k);
  OK(gloo_allreduce(context, in, out, COUNT, GLOO_FLOAT32, GLOO_SUM, NULL,
                    NULL));
  for (int i = 0; i < COUNT; i++)
    CHECK(out[i] == (float)(RANKS * (RANKS - 1) / 2 + RANKS * (i % 7 + k)));
  int32_t token = r->rank == k % RANKS ? k : -1;
  OK(gloo_broadcast(context, GLOO_IN_PLACE, &token, 1, GLOO_INT32, k % RANKS,
                    NULL, NULL));
  CHECK(token == k);
  gloo_error error;
  OK(gloo_context_error(context, &error));
}

gloo_context *job_meet(rank *r, const char *name) {
  gloo_store *store;
  gloo_context *context;
  gloo_error error;
  OK(gloo_store_prefix_create(r->store, name, &store, NULL));
  gloo_status status = gloo_context_create(r->rank, RANKS, store, r->device,
                                           NULL, &context, &error);
  if (status != GLOO_OK) fprintf(stderr, "# %s\n", error.message);
  OK(status);
  gloo_store_destroy(store);
  return context;
}

/* ---- children ------------------------------------------------------------ */

pid_t job_fork(rank *r, scene body) {
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  alarm(PATIENCE_S);
  body(r);
  _exit(0);
}

void job_join(pid_t child) {
  int status;
  pid_t ended;
  do ended = waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  CHECK(ended == child);
  if (WIFSIGNALED(status))
    fprintf(stderr, "# a child ended by signal %d\n", WTERMSIG(status));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- resources of a process ---------------------------------------------- */

int job_descriptors(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  CHECK(dir != NULL);
  while (readdir(dir) != NULL) n++;
  closedir(dir);
  return n;
}

/* Returns true if the descriptor in a line of an epoll set's fdinfo is still
 * open. */
static bool is_open(const char *line) {
  const char *ino = strstr(line, " ino:");
  struct stat status;
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", atoi(line + 4));
  if (stat(path, &status) != 0) return false;
  return ino == NULL || strtoull(ino + 5, NULL, 16) == status.st_ino;
}

static void look_at_sets(int *watched, int *stale) {
  DIR *dir = opendir("/proc/self/fdinfo");
  CHECK(dir != NULL);
  *watched = *stale = 0;
  for (struct dirent *d; (d = readdir(dir)) != NULL;) {
    char path[300], line[256];
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%s", d->d_name);
    FILE *info = d->d_name[0] != '.' ? fopen(path, "r") : NULL;
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
      if (strncmp(line, "tfd:", 4) != 0) continue;
      ++*watched;
      if (!is_open(line)) ++*stale;
    }
    if (info != NULL) fclose(info);
  }
  closedir(dir);
}

int job_watched(void) {
  int watched, stale;
  look_at_sets(&watched, &stale);
  return watched;
}

int job_stale(void) {
  int watched, stale;
  look_at_sets(&watched, &stale);
  return stale;
}

/* ---- jobs ---------------------------------------------------------------- */

/* Static, so that a leak check finds the memory that a child of another rank's
 * thread still has. */
static rank ranks[RANKS];
static scene playing;

static void *play(void *argument) {
  rank *r = argument;
  gloo_store_file_options where = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_device_options how = GLOO_DEVICE_OPTIONS_INIT;
  gloo_error error;
  where.directory = r->directory;
  how.transport = r->transport;
  OK(gloo_store_file_create(&where, &r->store, &error));
  OK(gloo_device_create(&how, &r->device, &error));
  r->context = job_meet(r, "main/");
  playing(r);
  gloo_context_destroy(r->context);
  gloo_device_destroy(r->device);
  gloo_store_destroy(r->store);
  return NULL;
}

static void play_threads(void) {
  pthread_t threads[RANKS];
  for (int i = 0; i < RANKS; i++)
    CHECK(pthread_create(&threads[i], NULL, play, &ranks[i]) == 0);
  for (int i = 0; i < RANKS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int job_over[2];

int job_run(const char *transport, scene body) {
  char directory[] = "/tmp/gloo_c_fork_XXXXXX", command[64];
  CHECK(mkdtemp(directory) != NULL);
  bool threads = strcmp(transport, "inproc") == 0;
  int processes = threads ? 1 : RANKS, wrong = 0;
  pid_t pids[RANKS];
  playing = body;
  CHECK(pipe(job_over) == 0);
  for (int i = 0; i < RANKS; i++)
    ranks[i] = (rank){.rank = i,
                      .threads = threads,
                      .transport = transport,
                      .directory = directory};
  fflush(NULL);
  for (int i = 0; i < processes; i++) {
    pids[i] = fork();
    CHECK(pids[i] >= 0);
    if (pids[i] > 0) continue;
    alarm(PATIENCE_S);
    if (threads)
      play_threads();
    else
      (void)play(&ranks[i]);
    exit(0);
  }
  for (int i = 0; i < processes; i++) {
    int status;
    CHECK(waitpid(pids[i], &status, 0) == pids[i]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) wrong++;
  }
  close(job_over[0]);
  close(job_over[1]);
  (void)snprintf(command, sizeof command, "rm -rf %s", directory);
  CHECK(system(command) == 0);
  return wrong;
}
