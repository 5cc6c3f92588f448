#define _GNU_SOURCE
#include "job.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "core/error.h"
#include "engine/engine.h"
#include "engine/state/context.h"

#define SECOND INT64_C(1000000000)
/* Exceeds all timeouts of the library here. */
static const unsigned hang_s = 90;
static const int64_t patience_ns = 20 * SECOND;

/* ---- usage of a rank ----------------------------------------------------- */

static size_t resident_bytes(void) {
  unsigned long all, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%lu %lu", &all, &resident) != 2) resident = 0;
  fclose(file);
  return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

static int open_files(void) {
  int n = 0;
  DIR *folder = opendir("/proc/self/fd");
  if (folder == NULL) return 0;
  while (readdir(folder) != NULL) n++;
  closedir(folder);
  return n - 3; /* ".", ".." and the directory itself */
}

static void note_line(gloo_log_level level, const char *line, void *user) {
  job_rank *self = user;
  if (level < GLOO_LOG_WARN) return;
  self->lines++;
  for (const unsigned char *c = (const unsigned char *)line; *c != '\0'; c++)
    if (*c < ' ' || *c == 0x7f) self->odd_line = true;
}

static void note_usage(job_rank *self, bool first) {
  size_t resident = resident_bytes();
  int files = open_files();
  if (first) {
    self->resident = resident;
    self->files = files;
  }
  if (resident > self->resident_most) self->resident_most = resident;
  if (files > self->files_most) self->files_most = files;
}

/* Allows `more` additional descriptors; 0: no limit. */
static void limit_files(int more) {
  struct rlimit limit;
  if (more == 0) return;
  int next = dup(STDIN_FILENO);
  if (next < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) abort();
  close(next);
  limit.rlim_cur = (rlim_t)(next + more);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) abort();
}

/* ---- one round ----------------------------------------------------------- */

typedef struct member {
  victim *job;
  job_rank *self;
  int rank;
  gloo_store *store;
  gloo_device *device;
} member;

/* Exchanges messages with each other rank in turn; disjoint pairs do so at the
 * same time. */
static gloo_status talk_to_all(member *m, int round, gloo_context *context,
                               gloo_error *error) {
  gloo_status status = GLOO_OK;
  for (int step = 1; step < JOB_RANKS && status == GLOO_OK; step++) {
    int peer = m->rank ^ step, mine = 100 + m->rank, its = 0;
    uint64_t begun = uv_hrtime();
    for (int turn = 0; turn < 2 && status == GLOO_OK; turn++)
      status = (m->rank < peer) == (turn == 0)
                   ? gloo_send(context, &mine, 1, GLOO_INT32, peer, NULL, error)
                   : gloo_recv(context, &its, 1, GLOO_INT32, peer, NULL, error);
    if (status == GLOO_OK && its != 100 + peer)
      return gli_fail(error, GLOO_ERR_INTERNAL, -1, "a wrong message");
    if (round >= JOB_QUIET && m->self->n_times < JOB_TIMES)
      m->self->times_us[m->self->n_times++] =
          (uint32_t)((uv_hrtime() - begun) / 1000);
  }
  return status;
}

static gloo_status add_up(gloo_context *context, gloo_error *error) {
  enum { N = 4096 };
  static float values[N];
  int rank = gloo_context_rank(context);
  for (int i = 0; i < N; i++) values[i] = (float)(rank + i);
  gloo_status status = gloo_allreduce(context, GLOO_IN_PLACE, values, N,
                                      GLOO_FLOAT32, GLOO_SUM, NULL, error);
  for (int i = 0; i < N && status == GLOO_OK; i++)
    if (values[i] != (float)(JOB_RANKS * i + 6))
      return gli_fail(error, GLOO_ERR_INTERNAL, -1, "a wrong sum");
  int to[JOB_RANKS], from[JOB_RANKS];
  for (int i = 0; i < JOB_RANKS; i++) to[i] = 10 * rank + i;
  if (status == GLOO_OK)
    status = gloo_alltoall(context, to, from, 1, GLOO_INT32, NULL, error);
  for (int i = 0; i < JOB_RANKS && status == GLOO_OK; i++)
    if (from[i] != 10 * i + rank)
      return gli_fail(error, GLOO_ERR_INTERNAL, -1, "a wrong block");
  return status;
}

static void wait_while_held(member *m, int round) {
  if (round != JOB_QUIET) return;
  atomic_store(&m->self->waits, true);
  while (atomic_load(&m->job->held)) {
    (void)gli_device_progress(m->device); /* as within a call */
    uv_sleep(1);
  }
}

static gloo_status play_round(member *m, int round, bool *over,
                              gloo_error *error) {
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_context *context;
  gloo_store *view;
  char prefix[32];
  const job_options *options = &m->job->options;
  /* The other ranks wait for this one. */
  if (options->holds && round == JOB_QUIET + 1 && m->rank == JOB_RANKS - 1)
    uv_sleep(50);
  snprintf(prefix, sizeof prefix, JOB_PREFIX, round);
  gloo_status status = gloo_store_prefix_create(m->store, prefix, &view, error);
  if (status != GLOO_OK) return status;
  o.timeout_ns = patience_ns;
  o.secret = options->secret;
  o.secret_bytes = options->secret != NULL ? strlen(options->secret) : 0;
  status = gloo_context_create(m->rank, JOB_RANKS, view, m->device, &o,
                               &context, error);
  if (status == GLOO_OK) {
    m->self->key = context->key;
    if (round == 0) m->self->first_key = context->key;
    atomic_store(&m->self->met, round);
    if (options->holds) wait_while_held(m, round);
    status = talk_to_all(m, round, context, error);
    if (status == GLOO_OK) status = add_up(context, error);
    int8_t stop = atomic_load(&m->job->stop);
    if (status == GLOO_OK)
      status = gloo_broadcast(context, GLOO_IN_PLACE, &stop, 1, GLOO_INT8, 0,
                              NULL, error);
    *over = stop != 0;
    gloo_context_destroy(context);
  }
  gloo_store_destroy(view);
  return status;
}

/* ---- one rank ------------------------------------------------------------ */

gloo_status job_open_store(const job_options *options, uint16_t port,
                           bool serve, gloo_store **store, gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = options->host;
  o.port = port;
  o.serve = serve;
  o.job = JOB_NAME;
  o.epoch = JOB_EPOCH;
  o.timeout_ns = patience_ns;
  o.secret = options->secret;
  o.secret_bytes = options->secret != NULL ? strlen(options->secret) : 0;
  return gloo_store_tcp_create(&o, store, error);
}

static gloo_status join_job(member *m, gloo_error *error) {
  victim *job = m->job;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = job->options.transport;
  d.host = strcmp(d.transport, "tcp") == 0 ? "127.0.0.1" : NULL;
  if (m->rank == 0) {
    gloo_status status = job_open_store(&job->options, job->options.port, true,
                                        &m->store, error);
    if (status != GLOO_OK) return status;
    atomic_store(&job->port, gloo_store_tcp_port(m->store));
  } else {
    while (atomic_load(&job->port) == 0) {
      if (atomic_load(&job->ranks[0].ended))
        return gli_fail(error, GLOO_ERR_PEER, 0, "rank 0 has ended");
      uv_sleep(1);
    }
    gloo_status status =
        job_open_store(&job->options, (uint16_t)atomic_load(&job->port), false,
                       &m->store, error);
    if (status != GLOO_OK) return status;
  }
  gloo_status status = gloo_device_create(&d, &m->device, error);
  if (status == GLOO_OK) gli_device_address(m->device, &m->self->address);
  return status;
}

/* Rank 0 serves the store and leaves last. */
static void leave_job(member *m) {
  if (m->device != NULL) gloo_device_destroy(m->device);
  atomic_store(&m->self->ended, true);
  for (int r = 1; r < JOB_RANKS && m->rank == 0; r++)
    while (!atomic_load(&m->job->ranks[r].ended)) uv_sleep(1);
  gloo_store_destroy(m->store);
}

static void be_rank(victim *job, int rank) {
  member m = {.job = job, .self = &job->ranks[rank], .rank = rank};
  bool over = false;
  alarm(hang_s);
  if (job->options.papers != NULL) {
    char path[256];
    snprintf(path, sizeof path, "%s/rank%d.pem", job->options.papers, rank);
    setenv("GLOO_TLS_CERTIFICATE", path, 1);
  }
  gloo_log_set_level(GLOO_LOG_WARN);
  gloo_log_set_sink(note_line, m.self);
  m.self->status = join_job(&m, &m.self->error);
  for (int round = 0; m.self->status == GLOO_OK && !over; round++) {
    m.self->status = play_round(&m, round, &over, &m.self->error);
    if (m.self->status != GLOO_OK) break;
    note_usage(m.self, round < JOB_QUIET);
    if (round == JOB_QUIET - 1) limit_files(job->options.files);
    atomic_store(&m.self->rounds, round + 1);
  }
  leave_job(&m);
}

/* ---- the job ------------------------------------------------------------- */

victim *job_make(const job_options *options) {
  victim *job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (job == MAP_FAILED) abort();
  job->options = *options;
  atomic_store(&job->held, options->holds);
  return job;
}

void job_start(victim *job) {
  fflush(stdout);
  for (int r = 0; r < JOB_RANKS; r++) {
    pid_t pid = fork();
    if (pid < 0) abort();
    if (pid == 0) {
      be_rank(job, r);
      _exit(0);
    }
    job->processes[r] = pid;
  }
}

int job_rounds(const victim *job) {
  int least = atomic_load(&job->ranks[0].rounds);
  for (int r = 1; r < JOB_RANKS; r++) {
    int rounds = atomic_load(&job->ranks[r].rounds);
    if (rounds < least) least = rounds;
  }
  return least;
}

bool job_ended(const victim *job) {
  for (int r = 0; r < JOB_RANKS; r++)
    if (atomic_load(&job->ranks[r].ended)) return true;
  return false;
}

bool job_await(victim *job, int rounds) {
  for (unsigned ms = 0; ms < hang_s * 1000; ms++) {
    if (job_rounds(job) >= rounds) return true;
    if (job_ended(job)) return false;
    uv_sleep(1);
  }
  return false;
}

/* SIGALRM ends a rank that hangs. */
bool job_finish(victim *job) {
  bool well = true;
  atomic_store(&job->held, false);
  atomic_store(&job->stop, true);
  for (int r = JOB_RANKS - 1; r >= 0; r--) {
    int status;
    if (job->processes[r] == 0) continue; /* not started */
    if (waitpid(job->processes[r], &status, 0) != job->processes[r] ||
        status != 0) {
      printf("# rank %d ends with %d\n", r, status);
      well = false;
    }
    atomic_store(&job->ranks[r].ended, true); /* rank 0 waits for it */
  }
  return well;
}

void job_free(victim *job) {
  munmap(job, sizeof *job);
}
