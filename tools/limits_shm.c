/* Two processes with shared memory between them: what a transport can reach
 * that copies twice, through a ring of the caches' size, or once, from the
 * memory of the other process. */
#define _GNU_SOURCE /* process_vm_readv, MAP_ANONYMOUS */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "tools/limits.h"

#if GLI_LINUX
#include <sys/uio.h>
#endif

enum { CHUNK = 32 << 10, CHUNKS = 32, LINE = 64, LOOK_EVERY = 1 << 16 };

/* One direction. Each counter has a cache line for itself. */
typedef struct ring {
  _Alignas(2 * LINE) atomic_ulong written; /* chunks */
  _Alignas(2 * LINE) atomic_ulong taken;
  _Alignas(2 * LINE) char data[CHUNKS][CHUNK];
} ring;

typedef struct shared {
  ring ways[2]; /* from the first process, and to it */
  _Alignas(2 * LINE) atomic_ulong round, ready;
} shared;

typedef struct side {
  shared *s;
  pid_t child, parent; /* child: 0 in the second process */
  unsigned long out, in, round;
  char *memory;
  uint64_t bytes;
} side;

/* Returns true while the other process exists. Asks the system rarely. */
static bool other_lives(const side *at, unsigned tries) {
  if (tries == 0 || tries % LOOK_EVERY != 0) return true;
  if (at->child == 0) return getppid() == at->parent;
  siginfo_t ended = {.si_pid = 0};
  int flags = WEXITED | WNOHANG | WNOWAIT;
  return waitid(P_PID, (id_t)at->child, &ended, flags) == 0 &&
         ended.si_pid == 0;
}

/* Waits until the counter is at least `value`. */
static bool await(const side *at, const atomic_ulong *counter,
                  unsigned long value) {
  unsigned tries = 0;
  while (atomic_load_explicit(counter, memory_order_acquire) < value) {
    if (!other_lives(at, tries)) return false;
    gli_spin(tries++);
  }
  return true;
}

static size_t chunk_at(const side *at, uint64_t offset) {
  uint64_t left = at->bytes - offset;
  return (size_t)(left < CHUNK ? left : CHUNK);
}

static bool put_all(side *at) {
  ring *r = &at->s->ways[at->child == 0];
  for (uint64_t done = 0; done < at->bytes; done += CHUNK) {
    if (at->out >= CHUNKS && !await(at, &r->taken, at->out - CHUNKS + 1))
      return false;
    memcpy(r->data[at->out % CHUNKS], at->memory + done, chunk_at(at, done));
    atomic_store_explicit(&r->written, ++at->out, memory_order_release);
  }
  return true;
}

static bool take_all(side *at) {
  ring *r = &at->s->ways[at->child != 0];
  for (uint64_t done = 0; done < at->bytes; done += CHUNK) {
    if (!await(at, &r->written, at->in + 1)) return false;
    memcpy(at->memory + done, r->data[at->in % CHUNKS], chunk_at(at, done));
    atomic_store_explicit(&r->taken, ++at->in, memory_order_release);
  }
  return true;
}

/* One round of either process. The first returns nanoseconds; -1 says that the
 * other process has ended, and -errno - 1 what the system refuses. */
typedef int64_t (*round_fn)(side *at);

static int64_t ring_round(side *at) {
  bool first = at->child != 0;
  uint64_t start = uv_hrtime();
  if (first && !put_all(at)) return -1;
  if (!take_all(at)) return -1;
  if (!first && !put_all(at)) return -1;
  return (int64_t)(uv_hrtime() - start);
}

/* Reads memory that the other process has just written, at the same address:
 * both have it from before the fork. */
static int64_t read_round(side *at) {
  at->round++;
  if (at->child == 0) {
    if (!await(at, &at->s->round, at->round)) return -1;
    memset(at->memory, (int)at->round, (size_t)at->bytes);
    atomic_store_explicit(&at->s->ready, at->round, memory_order_release);
    return 0;
  }
  atomic_store_explicit(&at->s->round, at->round, memory_order_release);
  if (!await(at, &at->s->ready, at->round)) return -1;
#if GLI_LINUX
  struct iovec to = {at->memory, (size_t)at->bytes}, from = to;
  uint64_t start = uv_hrtime();
  ssize_t n = process_vm_readv(at->child, &to, 1, &from, 1, 0);
  if (n < 0) return -(int64_t)errno - 1;
  return n == (ssize_t)at->bytes ? (int64_t)(uv_hrtime() - start) : -1;
#else
  return -(int64_t)ENOSYS - 1;
#endif
}

static bool say_why(int64_t took, gloo_error *error) {
  if (took == -1)
    gli_fail(error, GLOO_ERR_IO, -1, "the second process exited early");
  else
    gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
             "the system does not let a process read another's memory: %s",
             strerror((int)(-took - 1)));
  return false;
}

/* Computes the median of one round in nanoseconds. */
static bool measure_rounds(side *at, round_fn round,
                           const gli_limit_effort *effort, double *ns,
                           gloo_error *error) {
  gli_samples samples;
  if (!gli_samples_begin(&samples, effort)) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    return false;
  }
  int64_t took = round(at); /* not counted */
  while (took >= 0 && gli_samples_wanted(&samples)) {
    took = round(at);
    gli_samples_add(&samples, (double)took);
  }
  *ns = gli_samples_end(&samples);
  return took >= 0 || say_why(took, error);
}

static bool measure(round_fn round, uint64_t bytes,
                    const gli_limit_effort *effort, double *ns,
                    gloo_error *error) {
  bool good = false;
  side at = {.parent = getpid(), .bytes = bytes};
  void *mapped = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  at.memory = malloc((size_t)bytes);
  if (mapped == MAP_FAILED || at.memory == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    goto free_all;
  }
  at.s = mapped;
  at.child = fork();
  if (at.child < 0) {
    gli_fail(error, GLOO_ERR_IO, -1, "cannot start a second process: %s",
             strerror(errno));
    goto free_all;
  }
  memset(at.memory, 1, (size_t)bytes); /* pages of each process's own */
  if (at.child == 0) {
    while (round(&at) >= 0) {
    }
    _exit(0);
  }
  good = measure_rounds(&at, round, effort, ns, error);
  kill(at.child, SIGKILL);
  waitpid(at.child, NULL, 0);
free_all:
  free(at.memory);
  if (mapped != MAP_FAILED) munmap(mapped, sizeof(shared));
  return good;
}

bool gli_limit_shm_pingpong(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error) {
  if (!measure(ring_round, bytes, effort, value, error)) return false;
  *value /= 1e3;
  return true;
}

bool gli_limit_read_process(uint64_t bytes, const gli_limit_effort *effort,
                            double *value, gloo_error *error) {
  if (!measure(read_round, bytes, effort, value, error)) return false;
  *value = *value > 0 ? (double)bytes / *value : 0;
  return true;
}
