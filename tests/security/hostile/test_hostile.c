/* Hostile peers against a running job. The job ends with the right results, or,
 * if the peer has the secret, with an error that names the rank at fault; no
 * rank's memory grows by much, and none leaks descriptors. The delay of new
 * pairs is printed, but not tested.
 * usage: test_hostile store|local|tcp|shm [NAME] */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "hostile.h"
#if WITH_PKI
#include "../pki.h"
#include "tls_client.h"
#endif
#include "ranks/sanitized.h"
#include "security/keys.h"

enum { NOBODY = 65534, MIB = 1 << 20, PEERS_MAX = 100 };
enum { GROWTH_MAX = 64 }; /* MiB */
/* Additional descriptors that a rank may have at the end of a round, for
 * connections that it has yet to close. */
enum { FILES_MAX = 1024 };
/* Ten lines about strangers, and a few about their effects. */
enum { LINES_MAX = 16 };

static const hostile_list *list;
static const char *papers; /* folder of certificates */

/* ---- times --------------------------------------------------------------- */

static uint32_t times[PEERS_MAX * JOB_RANKS * JOB_TIMES];
static size_t n_times;

static int compare_times(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Prints statistics of the times from `first` on. */
static void tell_times(const char *name, size_t first, size_t growth) {
  size_t n = n_times - first;
  if (n == 0) return;
  qsort(times + first, n, sizeof *times, compare_times);
  print_message(
      "# %-44s %5zu pairs: median %6.2f, p99 %7.2f, most %7.2f ms; "
      "memory +%.1f MiB\n",
      name, n, times[first + n / 2] / 1e3, times[first + n * 99 / 100] / 1e3,
      times[n_times - 1] / 1e3, (double)growth / (double)MIB);
}

static void keep_times(const victim *job) {
  for (int r = 0; r < JOB_RANKS; r++) {
    const job_rank *rank = &job->ranks[r];
    memcpy(times + n_times, rank->times_us, rank->n_times * sizeof *times);
    n_times += rank->n_times;
  }
}

/* ---- the peer ------------------------------------------------------------ */

static void act(hostile *h) {
  alarm(60);
  /* Real attackers run on other hosts and take no time of this one. */
  (void)!nice(19);
  gloo_log_set_level(GLOO_LOG_OFF);
  if ((h->peer->flags & HOSTILE_NOBODY) != 0 && setuid(NOBODY) != 0)
    hostile_skip(h, "it takes root to be another user");
  h->peer->act(h);
  _exit(0);
}

static pid_t start_peer(hostile *h) {
  fflush(stdout);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) act(h);
  return pid;
}

static job_options options_of(const hostile_peer *peer) {
  job_options o = {.transport = "tcp", .host = "127.0.0.1"};
  if (list->end == HOSTILE_SHM || list->end == HOSTILE_LOCAL)
    o.transport = "auto";
  if (list->end == HOSTILE_TLS)
    o.papers = papers;
  else if (list->end != HOSTILE_LOCAL)
    o.secret = HOSTILE_SECRET;
  o.files = peer->files;
  o.holds = (peer->flags & HOSTILE_HOLDS) != 0;
  return o;
}

/* ---- results ------------------------------------------------------------- */

static bool is_clean(const char *text) {
  for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
    if (*c < ' ' || *c == 0x7f) return false;
  return true;
}

static bool is_expected(const hostile_peer *peer, const job_rank *rank) {
  const gloo_error *error = &rank->error;
  bool right = peer->status == HOSTILE_ANY
                   ? rank->status != GLOO_OK
                   : (int)rank->status == peer->status ||
                         (int)error->cause == peer->status;
  return right && error->rank == peer->blames &&
         strstr(error->message, peer->words) != NULL;
}

static void judge_rank(const hostile_peer *peer, int r, const job_rank *rank) {
  const gloo_error *error = &rank->error;
  if (peer->status == GLOO_OK) {
    if (rank->status != GLOO_OK)
      fail_msg("rank %d: %s: %s", r, gloo_status_string(rank->status),
               error->message);
  } else if (!is_expected(peer, rank)) {
    fail_msg("rank %d: %s (%s), rank %d: %s", r,
             gloo_status_string(rank->status), gloo_status_string(error->cause),
             error->rank, error->message);
  }
  if (!is_clean(rank->status != GLOO_OK ? error->message : "") ||
      rank->odd_line)
    fail_msg("rank %d: control characters get through", r);
  if (rank->lines > LINES_MAX ||
      (rank->lines > 0 && (peer->flags & HOSTILE_QUIET) != 0))
    fail_msg("rank %d has %d lines in its log", r, rank->lines);
  if (rank->files_most > rank->files + FILES_MAX)
    fail_msg("rank %d has %d files open, and had %d", r, rank->files_most,
             rank->files);
}

static size_t judge_memory(const victim *job) {
  size_t growth = 0;
  int most = 0;
  for (int r = 0; r < JOB_RANKS; r++) {
    const job_rank *rank = &job->ranks[r];
    if (rank->resident == 0 || rank->resident_most - rank->resident <= growth)
      continue;
    growth = rank->resident_most - rank->resident;
    most = r;
  }
  /* A sanitizer keeps freed memory for a while. */
  if (!SANITIZED && growth > GROWTH_MAX * (size_t)MIB)
    fail_msg("rank %d's memory grew by %zu MiB in %d rounds", most,
             growth / MIB, atomic_load(&job->ranks[most].rounds));
  return growth;
}

/* ---- a peer and a job ---------------------------------------------------- */

/* Returns a port that is free at the moment. */
static uint16_t free_port(void) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t bytes = sizeof at;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
  close(fd);
  return ntohs(at.sin_port);
}

/* Starts the peer, then a job that connects to it. Returns the peer's status
 * after both have ended. */
static int play_before(hostile *h, job_options *options) {
  int ready[2], status;
  char byte;
  options->port = h->port = free_port();
  options->host = "localhost";
  h->job = job_make(options);
  assert_int_equal(pipe(ready), 0);
  h->ready = ready[1];
  pid_t pid = start_peer(h);
  close(ready[1]);
  if (read(ready[0], &byte, 1) == 1) job_start(h->job);
  close(ready[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return status;
}

/* Starts a job, then the peer while the job works. */
static int play_after(hostile *h, const job_options *options) {
  int status;
  h->job = job_make(options);
  job_start(h->job);
  if (!job_await(h->job, JOB_QUIET)) {
    job_finish(h->job);
    fail_msg("the job did not begin: %s", h->job->ranks[0].error.message);
  }
  h->port = (uint16_t)atomic_load(&h->job->port);
  h->began = job_rounds(h->job);
  pid_t pid = start_peer(h);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  /* Waits for more rounds, or for the effect of the peer. */
  if (status == 0)
    (void)job_await(
        h->job, h->peer->status == GLOO_OK ? job_rounds(h->job) + 2 : INT_MAX);
  return status;
}

static void play(const hostile_peer *peer, char *said) {
  job_options options = options_of(peer);
  hostile h = {.peer = peer, .said = said, .ready = -1};
  size_t first = n_times;
  int status = (peer->flags & HOSTILE_BEFORE) != 0 ? play_before(&h, &options)
                                                   : play_after(&h, &options);
  bool well = job_finish(h.job);
  if (WIFEXITED(status) && WEXITSTATUS(status) == HOSTILE_SKIPS) {
    print_message("# %s: %s\n", peer->name, said);
    skip();
  }
  if (status != 0) fail_msg("the peer: %s (%d)", said, status);
  if (!well) fail_msg("a rank hangs, or was killed");
  int judged = (peer->flags & HOSTILE_BEFORE) != 0 ? 1 : JOB_RANKS;
  for (int r = 0; r < judged; r++) judge_rank(peer, r, &h.job->ranks[r]);
  size_t growth = judge_memory(h.job);
  if (peer->status == GLOO_OK) {
    keep_times(h.job);
    tell_times(peer->name, first, growth);
  }
  job_free(h.job);
}

static void peer_meets_job(void **state) {
  char *said = mmap(NULL, HOSTILE_SAID, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(said != MAP_FAILED);
  play(*state, said);
  munmap(said, HOSTILE_SAID);
}

static const hostile_list *find_list(const char *name) {
  if (strcmp(name, "store") == 0) return &hostile_store_list;
  if (strcmp(name, "local") == 0) return &hostile_local_list;
  if (strcmp(name, "tcp") == 0) return &hostile_tcp_list;
  if (strcmp(name, "shm") == 0) return &hostile_shm_list;
#if WITH_PKI
  if (strcmp(name, "tls") == 0) return &hostile_tls_list;
  if (strcmp(name, "tls_store") == 0) return &hostile_tls_store_list;
#endif
  return NULL;
}

#if WITH_PKI
static void use_papers(void) {
  char path[256];
  papers = pki_folder();
  hostile_write_papers(papers);
  snprintf(path, sizeof path, "%s/ca.pem", papers);
  setenv("GLOO_TLS", "1", 1);
  setenv("GLOO_TLS_AUTHORITY", path, 1);
}
#endif

int main(int argc, char **argv) {
  struct CMUnitTest tests[PEERS_MAX];
  char runtime[] = "/tmp/hostile-XXXXXX", folder[64] = "";
  size_t n = 0;
  list = argc > 1 ? find_list(argv[1]) : NULL;
  if (list == NULL || list->n > PEERS_MAX) return 99;
  if (list->end != HOSTILE_LOCAL && gli_openssl_version() == NULL) {
    print_message("1..0 # SKIP this build has no OpenSSL\n");
    return 0;
  }
  unsetenv("GLOO_SECURITY");
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  setenv("HOME", "/nonexistent", 1);
  setenv("XDG_RUNTIME_DIR", mkdtemp(runtime), 1); /* for local sockets */
#if WITH_PKI
  if (list->end == HOSTILE_TLS) use_papers();
#endif
  for (size_t i = 0; i < list->n; i++) {
    const hostile_peer *peer = &list->peers[i];
    if (argc > 2 && strstr(peer->name, argv[2]) == NULL) continue;
    tests[n++] = (struct CMUnitTest){.name = peer->name,
                                     .test_func = peer_meets_job,
                                     .initial_state = (void *)(uintptr_t)peer};
  }
  int failed = _cmocka_run_group_tests(argv[1], tests, n, NULL, NULL);
  tell_times("all of them", 0, 0);
  strcat(folder, runtime);
  (void)rmdir(strcat(folder, "/gloo_c"));
  (void)rmdir(runtime);
#if WITH_PKI
  if (papers != NULL) pki_folder_remove(papers);
#endif
  return failed;
}
