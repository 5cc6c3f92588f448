#define _GNU_SOURCE
#include "faults/faulty_job.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faults/faulty_rank.h"

/* Descriptors of the program, which ranks close, are below this number. */
enum { OTHERS_MAX = 256 };

/* Exceeds all timeouts of the library. */
static const int64_t patience_ns = INT64_C(60000000000);

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

void faulty_job_make(faulty_job *job) {
  memset(job, 0, sizeof *job);
  job->reports =
      mmap(NULL, FAULTY_RANKS * sizeof *job->reports, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (job->reports == MAP_FAILED) die("mmap");
  for (int r = 0; r < FAULTY_RANKS; r++) {
    job->logs[r] = tmpfile();
    if (job->logs[r] == NULL) die("tmpfile");
    setvbuf(job->logs[r], NULL, _IONBF, 0);
  }
}

void faulty_job_free(faulty_job *job) {
  for (int r = 0; r < FAULTY_RANKS; r++) fclose(job->logs[r]);
  munmap(job->reports, FAULTY_RANKS * sizeof *job->reports);
}

/* ---- beginning ----------------------------------------------------------- */

static bool is_free(int port) {
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)port),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
  if (fd >= 0) close(fd);
  return bound;
}

/* Returns a free port below the ephemeral range. The search starts at a
 * different port in each process. */
static int free_port(void) {
  enum { FIRST = 10000, PORTS = 22000 };
  static unsigned turn;
  for (;;) {
    unsigned offset = (unsigned)getpid() * 337u + turn++;
    int port = FIRST + (int)(offset % PORTS);
    if (is_free(port)) return port;
  }
}

static void set_number(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

static void be_a_rank(const faulty_job *job, int rank, int port) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  dup2(fileno(job->logs[rank]), STDERR_FILENO);
  for (int fd = STDERR_FILENO + 1; fd < OTHERS_MAX; fd++) close(fd);
  set_number("RANK", rank);
  set_number("WORLD_SIZE", FAULTY_RANKS);
  set_number("MASTER_PORT", port);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  const faulty_plan *plan = &job->plan;
  faulty_rank_run(plan, plan->rank == rank || plan->rank == FAULTY_ALL,
                  &job->reports[rank]);
  _exit(0);
}

void faulty_job_begin(faulty_job *job, const faulty_plan *plan) {
  int port = free_port();
  job->plan = *plan;
  job->killed = false;
  job->deadline_ns = now_ns() + plan->timeout_ns * 3 + patience_ns;
  memset(job->reports, 0, FAULTY_RANKS * sizeof *job->reports);
  for (int r = 0; r < FAULTY_RANKS; r++) {
    rewind(job->logs[r]); /* the rank shares the file offset */
    if (ftruncate(fileno(job->logs[r]), 0) != 0) die("ftruncate");
    job->pids[r] = fork();
    if (job->pids[r] < 0) die("fork");
    if (job->pids[r] == 0) be_a_rank(job, r, port);
  }
}

/* ---- ending -------------------------------------------------------------- */

bool faulty_job_has_ended(faulty_job *job) {
  bool late = now_ns() > job->deadline_ns, ended = true;
  for (int r = 0; r < FAULTY_RANKS; r++) {
    if (job->pids[r] == 0) continue;
    if (waitpid(job->pids[r], &job->exits[r], WNOHANG) == job->pids[r]) {
      job->pids[r] = 0;
      continue;
    }
    ended = false;
    if (!late) continue;
    job->killed = true;
    kill(job->pids[r], SIGKILL);
  }
  return ended;
}

void faulty_job_wait(faulty_job *job) {
  while (!faulty_job_has_ended(job))
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

static const char *fault_of(const faulty_job *job, int rank) {
  const faulty_report *report = &job->reports[rank];
  int status = job->exits[rank];
  if (job->killed) return "did not end";
  if (WIFSIGNALED(status)) return strsignal(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0 || !report->ended) return "exited";
  if (report->wrong) return "had a wrong result";
  if (report->descriptors_left != 0) return "left descriptors behind";
  if (report->threads_left != 0) return "left threads behind";
  if (report->leaked) return "leaked memory";
  if (report->status != GLOO_OK && report->message[0] == '\0')
    return "had an error that says nothing";
  return NULL;
}

bool faulty_job_is_clean(const faulty_job *job) {
  bool clean = true;
  for (int r = 0; r < FAULTY_RANKS; r++) {
    const char *fault = fault_of(job, r);
    if (fault == NULL) continue;
    printf("# rank %d: %s\n", r, fault);
    clean = false;
  }
  return clean;
}

bool faulty_job_is_right(const faulty_job *job) {
  for (int r = 0; r < FAULTY_RANKS; r++)
    if (fault_of(job, r) != NULL || job->reports[r].status != GLOO_OK)
      return false;
  return true;
}

void faulty_job_tell(const faulty_job *job) {
  for (int r = 0; r < FAULTY_RANKS; r++) {
    const faulty_report *report = &job->reports[r];
    printf("# rank %d: %s after %.3f s, in %s, names %d: %s\n", r,
           gloo_status_string(report->status), (double)report->took_ns / 1e9,
           report->where, report->named, report->message);
    char line[1024];
    rewind(job->logs[r]);
    while (fgets(line, sizeof line, job->logs[r]) != NULL)
      printf("#   %s", line);
  }
}
