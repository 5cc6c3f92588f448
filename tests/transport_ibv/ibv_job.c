#define _DEFAULT_SOURCE
#include "ibv_job.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "ibv_rank.h"

/* Longer than any timeout of the library. */
enum { PATIENCE_S = 90, LOCKED_MAX = 64 << 20 };

static void die(const char *what) {
  perror(what);
  exit(1);
}

void ibv_job_make(ibv_job *job) {
  memset(job, 0, sizeof *job);
  job->shared = mmap(NULL, sizeof *job->shared, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (job->shared == MAP_FAILED) die("mmap");
  job->log = tmpfile();
  if (job->log == NULL) die("tmpfile");
  setvbuf(job->log, NULL, _IONBF, 0);
}

void ibv_job_free(ibv_job *job) {
  fclose(job->log);
  munmap(job->shared, sizeof *job->shared);
}

/* ---- the process --------------------------------------------------------- */

/* The last small allocation keeps a region for the next one, unless a failure
 * has separated it from other ranks. */
static void keep_small_region(void) {
  void *small;
  if (gloo_alloc(1, &small, NULL) == GLOO_OK) gloo_free(small);
}

static int count_descriptors(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (dir != NULL && readdir(dir) != NULL) n++;
  if (dir != NULL) closedir(dir);
  return n;
}

/* Returns the number of objects that the stand-in still has, or -1 if it is not
 * in use. */
static int count_objects(void) {
  void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return -1;
  void *symbol = dlsym(library, "standin_objects");
  int (*objects)(void);
  if (symbol == NULL) return -1;
  memcpy(&objects, &symbol, sizeof objects);
  int n = objects();
  dlclose(library);
  return n;
}

typedef struct job_rank {
  uv_thread_t thread;
  int rank, size;
  gloo_store *store;
  int64_t timeout_ns;
  ibv_report *report;
} job_rank;

static void rank_main(void *argument) {
  const job_rank *r = argument;
  ibv_rank_run(r->rank, r->size, r->store, r->timeout_ns, r->report);
}

static void run_ranks(const ibv_job *job) {
  job_rank ranks[IBV_RANKS_MAX];
  gloo_store *store;
  keep_small_region();
  int before = count_descriptors();
  if (gloo_store_memory_create(&store, NULL) != GLOO_OK) exit(1);
  for (int r = 0; r < job->plan.ranks; r++) {
    ranks[r] = (job_rank){.rank = r,
                          .size = job->plan.ranks,
                          .store = store,
                          .timeout_ns = job->plan.timeout_ns,
                          .report = &job->shared->ranks[r]};
    if (uv_thread_create(&ranks[r].thread, rank_main, &ranks[r]) != 0) exit(1);
  }
  for (int r = 0; r < job->plan.ranks; r++) uv_thread_join(&ranks[r].thread);
  gloo_store_destroy(store);
  keep_small_region();
  job->shared->descriptors_left = count_descriptors() - before;
  job->shared->objects_left = count_objects();
  job->shared->ended = true;
}

static void set_all(const char *const *settings) {
  for (; *settings != NULL; settings++) {
    char *text = strdup(*settings), *value = strchr(text, '=');
    *value = '\0';
    setenv(text, value + 1, 1);
    free(text);
  }
}

/* Without a limit, ENOMEM would not mean it. */
static void limit_locked_memory(void) {
  const struct rlimit limit = {LOCKED_MAX, LOCKED_MAX};
  (void)setrlimit(RLIMIT_MEMLOCK, &limit);
}

static void be_the_job(const ibv_job *job) {
  alarm(PATIENCE_S);
  dup2(fileno(job->log), STDERR_FILENO);
  limit_locked_memory();
  setenv("STANDIN_FAIL", job->plan.fail, 1);
  setenv("STANDIN_COUNT",
         job->plan.count_file != NULL ? job->plan.count_file : "", 1);
  set_all(job->plan.settings);
  run_ranks(job);
  exit(0); /* not _exit: sanitizers check for leaks at exit */
}

void ibv_job_begin(ibv_job *job, const ibv_plan *plan) {
  job->plan = *plan;
  memset(job->shared, 0, sizeof *job->shared);
  rewind(job->log);
  if (ftruncate(fileno(job->log), 0) != 0) die("ftruncate");
  fflush(stdout);
  job->pid = fork();
  if (job->pid < 0) die("fork");
  if (job->pid == 0) be_the_job(job);
}

bool ibv_job_has_ended(ibv_job *job) {
  if (job->pid == 0) return true;
  if (waitpid(job->pid, &job->exited, WNOHANG) != job->pid) return false;
  job->pid = 0;
  return true;
}

/* ---- what became of it --------------------------------------------------- */

static const char *rank_fault(const ibv_report *report) {
  if (!report->ended) return "a rank did not end";
  if (report->wrong) return "wrong results";
  if (report->silent) return "TCP is used, and why is not said";
  if (report->status != GLOO_OK && report->message[0] == '\0')
    return "an error says nothing";
  return NULL;
}

static bool any_had_device(const ibv_job *job) {
  for (int r = 0; r < job->plan.ranks; r++)
    if (strcmp(job->shared->ranks[r].where, "gloo_device_create") != 0)
      return true;
  return false;
}

const char *ibv_job_fault(const ibv_job *job) {
  const ibv_shared *shared = job->shared;
  if (WIFSIGNALED(job->exited))
    return WTERMSIG(job->exited) == SIGALRM ? "it hung"
                                            : strsignal(WTERMSIG(job->exited));
  for (int r = 0; r < job->plan.ranks; r++) {
    const char *fault = rank_fault(&shared->ranks[r]);
    if (fault != NULL) return fault;
  }
  if (!shared->ended || WEXITSTATUS(job->exited) != 0)
    return "it exited with an error (leaks?)";
  if (shared->objects_left < 0 && any_had_device(job))
    return "it did not use the stand-in";
  if (shared->objects_left > 0) return "objects are left";
  if (shared->descriptors_left != 0) return "descriptors are left";
  return NULL;
}

bool ibv_job_is_right(const ibv_job *job) {
  for (int r = 0; r < job->plan.ranks; r++)
    if (job->shared->ranks[r].status != GLOO_OK) return false;
  return ibv_job_fault(job) == NULL;
}

void ibv_job_tell(const ibv_job *job) {
  for (int r = 0; r < job->plan.ranks; r++) {
    const ibv_report *report = &job->shared->ranks[r];
    printf("#   rank %d: %s at %s: %s (%d by RDMA, %d by TCP: %s)\n", r,
           gloo_status_string(report->status), report->where, report->message,
           report->by_rdma, report->by_tcp, report->why);
  }
  char line[1024];
  rewind(job->log);
  while (fgets(line, sizeof line, job->log) != NULL) printf("#   | %s", line);
  fflush(stdout);
}
