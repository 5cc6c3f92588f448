/* Access to the memory of another process that is killed, or when the kernel
 * refuses. Linux only. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "ends.h"
#include "gloo_c/memory.h"
#include "memory/region.h"
#include "transport_shm/shm.h"

enum { BYTES = 300000 };

/* Rank 1 is a separate process, which calls `run`. */
typedef struct scene {
  end ours;
  pid_t pid;
  int socket; /* to it */
  int fds;
} scene;

typedef void (*part)(end *e, int socket);

static void put(int socket, const void *data, size_t bytes) {
  if (send(socket, data, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) abort();
}

static void get(int socket, void *data, size_t bytes) {
  if (recv(socket, data, bytes, MSG_WAITALL) != (ssize_t)bytes) abort();
}

static void introduce(end *e, int socket) {
  gli_address own;
  e->ops->address(e->t, &own);
  put(socket, &own, sizeof own);
  get(socket, &e->config.address, sizeof e->config.address);
}

static int lowest_free_descriptor(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

static scene *begin(part run) {
  scene *s = calloc(1, sizeof *s);
  int sockets[2];
  s->fds = lowest_free_descriptor();
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  fflush(NULL);
  s->pid = fork();
  assert_true(s->pid >= 0);
  if (s->pid == 0) {
    close(sockets[0]);
    static end theirs;
    end_open(&theirs, &gli_transport_shm, 1);
    introduce(&theirs, sockets[1]);
    run(&theirs, sockets[1]);
    _exit(0);
  }
  close(sockets[1]);
  s->socket = sockets[0];
  end_open(&s->ours, &gli_transport_shm, 0);
  introduce(&s->ours, s->socket);
  gloo_error error;
  assert_int_equal(end_connect(&s->ours, &error), GLOO_OK);
  for (int i = 0; i < 20000 && !s->ours.ops->pair_up(s->ours.pair); i++) {
    s->ours.ops->poll(s->ours.t);
    uv_sleep(1);
  }
  assert_true(s->ours.ops->pair_up(s->ours.pair));
  return s;
}

static void end_other(scene *s, int expected_signal) {
  int status;
  assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
  if (expected_signal != 0) {
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), expected_signal);
  } else {
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
}

/* Checks that nothing is left: no descriptor, no mapping of a peer's memory. */
static void finish(scene *s) {
  end_close(&s->ours);
  close(s->socket);
  assert_int_equal(lowest_free_descriptor(), s->fds);
  free(s);
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  char line[512];
  while (fgets(line, sizeof line, maps) != NULL)
    if (strstr(line, "memfd:gloo_c") != NULL) fail_msg("left: %s", line);
  fclose(maps);
}

/* ---- what the other process does ----------------------------------------- */

static void poll_until_up(end *e) {
  while (e->pair == NULL || !e->ops->pair_up(e->pair)) {
    e->ops->poll(e->t);
    uv_sleep(1);
  }
}

/* Returns 0 if the memory cannot have an rkey. */
static uint64_t rkey_to(end *e, const void *memory, size_t bytes, bool write) {
  uint64_t rkey = 0;
  if (!e->ops->rkey_pack(e->pair, memory, bytes, write, &rkey)) return 0;
  return rkey;
}

static void await_word(end *e, int socket) {
  char word;
  while (recv(socket, &word, 1, MSG_DONTWAIT) != 1) {
    e->ops->poll(e->t);
    uv_sleep(1);
  }
}

/* Sends rkeys of writable and of read-only memory. */
static void show(end *e, int socket) {
  void *shared = NULL;
  uint8_t *plain = malloc(BYTES);
  if (plain == NULL || gloo_alloc(BYTES, &shared, NULL) != GLOO_OK) abort();
  memset(shared, 's', BYTES);
  memset(plain, 'p', BYTES);
  poll_until_up(e);
  uint64_t rkeys[2] = {rkey_to(e, shared, BYTES, true),
                       rkey_to(e, plain, BYTES, false)};
  uint64_t address = (uint64_t)(uintptr_t)shared;
  put(socket, rkeys, sizeof rkeys);
  put(socket, &address, sizeof address);
  await_word(e, socket);
  /* Report whether the other process has written to the memory. */
  put(socket, (uint8_t *)shared + BYTES - 1, 1);
  gloo_free(shared);
  free(plain);
  end_close(e);
}

static uint8_t *reached(scene *s, uint64_t rkey) {
  void *memory = NULL;
  gloo_error error;
  if (s->ours.ops->rkey_map(s->ours.pair, rkey, BYTES, true, &memory, &error) !=
      GLOO_OK)
    fail_msg("%s", error.message);
  return memory;
}

static gloo_status fetch(scene *s, uint64_t rkey, uint8_t *to, size_t bytes,
                         gloo_error *error) {
  return s->ours.ops->get(s->ours.pair, rkey, to, bytes, error);
}

static bool revoked(scene *s) {
  return s->ours.ops->revoked(s->ours.pair);
}

static bool all(const uint8_t *memory, size_t bytes, uint8_t value) {
  for (size_t i = 0; i < bytes; i++)
    if (memory[i] != value) return false;
  return true;
}

/* ---- tests --------------------------------------------------------------- */

static void another_process_exposes_its_memory(void **state) {
  (void)state;
  scene *s = begin(show);
  uint64_t rkeys[2], address;
  get(s->socket, rkeys, sizeof rkeys);
  get(s->socket, &address, sizeof address);
  uint8_t *theirs = reached(s, rkeys[0]);
  assert_true(all(theirs, BYTES, 's'));
  theirs[BYTES - 1] = 'w';
  uint8_t *copy = malloc(BYTES);
  gloo_error error;
  if (rkeys[1] != 0) {
    assert_int_equal(fetch(s, rkeys[1], copy, BYTES, &error), GLOO_OK);
    assert_true(all(copy, BYTES, 'p'));
  } else {
    print_message("# the kernel does not let processes read each other\n");
  }
  assert_false(revoked(s));
  put(s->socket, "", 1);
  char last;
  get(s->socket, &last, 1);
  assert_int_equal(last, 'w');
  end_until(&s->ours, &s->ours.n_failed, 1); /* it left without a word */
  assert_true(revoked(s));
  end_other(s, 0);
  free(copy);
  finish(s);
}

static void killed_process_takes_its_memory_along(void **state) {
  (void)state;
  scene *s = begin(show);
  uint64_t rkeys[2], address;
  get(s->socket, rkeys, sizeof rkeys);
  get(s->socket, &address, sizeof address);
  uint8_t *theirs = reached(s, rkeys[0]);
  assert_int_equal(kill(s->pid, SIGKILL), 0);
  end_other(s, SIGKILL);
  /* The mapping stays readable after the peer's death. */
  assert_true(all(theirs, BYTES, 's'));
  theirs[0] = 0;
  uint8_t *copy = malloc(BYTES);
  gloo_error error;
  if (rkeys[1] != 0) {
    assert_int_equal(fetch(s, rkeys[1], copy, BYTES, &error), GLOO_ERR_PEER);
    assert_int_equal(error.rank, 1);
  }
  end_until(&s->ours, &s->ours.n_failed, 1);
  assert_int_equal(s->ours.cause.status, GLOO_ERR_PEER);
  assert_true(revoked(s));
  free(copy);
  finish(s);
}

/* The process is killed before its memory was used: either the note has still
 * arrived, or the error names the rank. */
static void killed_process_may_be_asked_for(void **state) {
  (void)state;
  for (int round = 0; round < 10; round++) {
    scene *s = begin(show);
    uint64_t rkeys[2], address;
    get(s->socket, rkeys, sizeof rkeys);
    get(s->socket, &address, sizeof address);
    assert_int_equal(kill(s->pid, SIGKILL), 0);
    end_other(s, SIGKILL);
    void *memory = NULL;
    gloo_error error;
    gloo_status status = s->ours.ops->rkey_map(s->ours.pair, rkeys[0], BYTES,
                                               false, &memory, &error);
    if (status == GLOO_OK) {
      assert_true(all(memory, BYTES, 's'));
    } else {
      assert_int_equal(status, GLOO_ERR_PEER);
      assert_int_equal(error.rank, 1);
    }
    end_until(&s->ours, &s->ours.n_failed, 1);
    finish(s);
  }
}

/* ---- a kernel that refuses ----------------------------------------------- */

/* Makes process_vm_readv fail, as in some containers. */
static void forbid_reading(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(42);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(42);
}

static void show_but_not_read(end *e, int socket) {
  forbid_reading();
  show(e, socket);
}

static void memory_is_not_offered_to_who_cannot_read(void **state) {
  (void)state;
  scene *s = begin(show_but_not_read);
  uint64_t rkeys[2], address;
  get(s->socket, rkeys, sizeof rkeys);
  get(s->socket, &address, sizeof address);
  uint8_t *plain = calloc(1, BYTES);
  assert_non_null(plain);
  assert_int_equal(rkey_to(&s->ours, plain, BYTES, false), 0);
  /* Mapped memory needs no such permission. */
  assert_true(all(reached(s, rkeys[0]), BYTES, 's'));
  void *shared = NULL;
  assert_int_equal(gloo_alloc(BYTES, &shared, NULL), GLOO_OK);
  assert_true(rkey_to(&s->ours, shared, BYTES, true) != 0);
  gloo_free(shared);
  put(s->socket, "", 1);
  end_other(s, 0);
  free(plain);
  finish(s);
}

/* ---- the lengths --------------------------------------------------------- */

static const char *const settings[] = {"auto", "never", "70000"};
enum { LENGTHS = 4, ANSWERS = 2 * LENGTHS };
static const size_t lengths[LENGTHS] = {65535, 65536, 69999, 70000};

/* Reports which messages it would have read by the other process. */
static void show_lengths(end *e, int socket) {
  uint8_t *plain = calloc(1, BYTES);
  if (plain == NULL) abort();
  poll_until_up(e);
  uint8_t lent[ANSWERS];
  uint64_t rkey;
  for (int i = 0; i < ANSWERS; i++) {
    lent[i] = e->ops->rkey_pack(
        e->pair, plain, lengths[i / 2],
        i % 2 == 0 ? GLI_ACCESS_READ : GLI_ACCESS_SINGLE_COPY, &rkey);
  }
  put(socket, lent, sizeof lent);
  free(plain);
  end_close(e);
}

/* Returns true if the system has such reads: this process reads its own memory.
 */
static bool can_read(void) {
  static const uint64_t proof = 7;
  const gli_shm_foreign self = {getpid(), (uint64_t)(uintptr_t)&proof, proof};
  uint8_t none;
  return gli_shm_foreign_read(&self, 0, &none, 0) == 0;
}

static void environment_sets_the_lengths(void **state) {
  (void)state;
  bool can = can_read();
  bool here = gli_shm_foreign_from() != GLI_SHM_READ_NEVER;
  for (int i = 0; i < 3; i++) {
    setenv("GLOO_SHM_READ", settings[i], 1);
    scene *s = begin(show_lengths);
    uint8_t lent[ANSWERS];
    get(s->socket, lent, sizeof lent);
    for (int k = 0; k < ANSWERS; k++) {
      size_t bytes = lengths[k / 2];
      bool single = k % 2 != 0;
      bool expected = i == 0   ? here && single && bytes >= 65536
                      : i == 1 ? false
                               : can && bytes >= 70000;
      if (lent[k] != expected)
        fail_msg("%s, %zu bytes, single %d: %d", settings[i], bytes, single,
                 lent[k]);
    }
    end_until(&s->ours, &s->ours.n_failed, 1);
    end_other(s, 0);
    finish(s);
  }
  setenv("GLOO_SHM_READ", "1", 1);
}

/* ---- a receiver at its limits -------------------------------------------- */

typedef struct verdict {
  int32_t status;
  uint32_t mapped, same;
} verdict;

/* Reaches and reads what the other side offers. `copy` has BYTES bytes. */
static void judge(end *e, int socket, uint8_t *copy) {
  uint64_t rkey;
  get(socket, &rkey, sizeof rkey);
  void *memory = NULL;
  gloo_error error;
  gloo_status status =
      e->ops->rkey_map(e->pair, rkey, BYTES, false, &memory, &error);
  verdict v = {status, memory != NULL, 0};
  if (status == GLOO_OK)
    status = e->ops->get(e->pair, rkey, copy, BYTES, &error);
  if (status == GLOO_OK) v.same = all(copy, BYTES, 'a');
  put(socket, &v, sizeof v);
}

static void run_out_of_descriptors(end *e, int socket) {
  poll_until_up(e);
  struct rlimit r = {(rlim_t)lowest_free_descriptor(), RLIM_INFINITY};
  if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){r.rlim_cur, r.rlim_cur}) != 0)
    _exit(43);
  static uint8_t copy[BYTES];
  judge(e, socket, copy);
}

static verdict judged_by(part run) {
  scene *s = begin(run);
  void *shared = NULL;
  assert_int_equal(gloo_alloc(BYTES, &shared, NULL), GLOO_OK);
  memset(shared, 'a', BYTES);
  uint64_t rkey = rkey_to(&s->ours, shared, BYTES, false);
  assert_true(rkey != 0);
  put(s->socket, &rkey, sizeof rkey);
  verdict v;
  get(s->socket, &v, sizeof v);
  end_other(s, 0);
  gloo_free(shared);
  finish(s);
  return v;
}

static void no_descriptors_left_is_said(void **state) {
  (void)state;
  verdict v = judged_by(run_out_of_descriptors);
  assert_int_equal(v.status, GLOO_ERR_NO_MEMORY);
}

#if !defined(SANITIZED) /* sanitizers need the addresses themselves */
static void run_out_of_addresses(end *e, int socket) {
  poll_until_up(e);
  static uint8_t copy[BYTES];
  memset(copy, 1, sizeof copy); /* its pages must exist before the limit */
  unsigned long pages = 0;      /* now; half of BYTES may be added */
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%lu", &pages) != 1) _exit(44);
  fclose(file);
  rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + BYTES / 2;
  struct rlimit r = {most, most};
  if (setrlimit(RLIMIT_AS, &r) != 0) _exit(43);
  judge(e, socket, copy);
}

static void what_cannot_be_mapped_is_read(void **state) {
  (void)state;
  verdict v = judged_by(run_out_of_addresses);
  assert_int_equal(v.status, GLOO_OK);
  assert_int_equal(v.mapped, 0);
  assert_int_equal(v.same, 1);
}
#endif

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  setenv("GLOO_SHM_READ", "1", 1); /* it is off by default */
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(another_process_exposes_its_memory),
    cmocka_unit_test(killed_process_takes_its_memory_along),
    cmocka_unit_test(killed_process_may_be_asked_for),
    cmocka_unit_test(memory_is_not_offered_to_who_cannot_read),
    cmocka_unit_test(environment_sets_the_lengths),
    cmocka_unit_test(no_descriptors_left_is_said),
#if !defined(SANITIZED)
    cmocka_unit_test(what_cannot_be_mapped_is_read),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
