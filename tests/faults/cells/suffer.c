/* Faults within a rank's process. Connections are cut in the process itself:
 * connect() to AF_UNSPEC ends a TCP connection with a RST, as a firewall or the
 * kernel of a restarted peer would. Replaced functions of the C library damage
 * written bytes, and let clocks jump. */
#define _GNU_SOURCE
#include "suffer.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "cell.h"

/* ---- connections --------------------------------------------------------- */

/* Returns true if the descriptor was a connection. Unix sockets are not cut,
 * since they end with a process only. */
static bool cut(int fd) {
  struct sockaddr_storage peer;
  socklen_t bytes = sizeof peer;
  if (getpeername(fd, (struct sockaddr *)&peer, &bytes) != 0) return false;
  if (peer.ss_family == AF_UNIX) return false;
  const struct sockaddr none = {.sa_family = AF_UNSPEC};
  return connect(fd, &none, sizeof none) == 0;
}

static int descriptors(int all[], int most) {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
    if (d->d_name[0] != '.' && n < most) all[n++] = atoi(d->d_name);
  if (dir != NULL) closedir(dir);
  return n;
}

enum { MOST_DESCRIPTORS = 1024 };

void cell_suffer_reset(void) {
  int all[MOST_DESCRIPTORS], n = descriptors(all, MOST_DESCRIPTORS);
  for (int i = 0; i < n; i++) (void)cut(all[i]);
}

void cell_suffer_reset_one(void) {
  int all[MOST_DESCRIPTORS], n = descriptors(all, MOST_DESCRIPTORS);
  int first = (int)(cell_now_ns() / 1000 % (unsigned)n);
  for (int i = 0; i < n; i++)
    if (cut(all[(first + i) % n])) return;
}

/* ---- bytes --------------------------------------------------------------- */

static atomic_uint damage; /* writes until the damaged one; 0: none */

void cell_suffer_damage(void) {
  atomic_store(&damage, 1 + (unsigned)(cell_now_ns() / 1000 % 20));
}

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

/* Returns true if this write is to be damaged. Only TCP is: between processes
 * of one host, sockets carry notes, not messages. */
static bool is_to_be_damaged(int fd) {
  int family = 0;
  socklen_t bytes = sizeof family;
  if (atomic_load(&damage) == 0) return false;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) != 0) return false;
  return family != AF_UNIX && atomic_fetch_sub(&damage, 1) == 1;
}

/* Sends with one bit flipped. */
static ssize_t send_damaged(int fd, const uint8_t *data, size_t bytes,
                            int flags) {
  uint8_t *copy = malloc(bytes);
  if (copy == NULL) abort();
  memcpy(copy, data, bytes);
  uint64_t random = cell_now_ns() * UINT64_C(0x9e3779b97f4a7c15);
  size_t at = (size_t)(random >> 32) % bytes;
  copy[at] ^= (uint8_t)(1u << (random >> 24) % 8);
  ssize_t sent = __real_send(fd, copy, bytes, flags);
  /* If the system did not take that byte, the caller sends it again undamaged,
   * and the next write is damaged. */
  if (sent <= (ssize_t)at) atomic_store(&damage, 1);
  free(copy);
  return sent;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags) {
  if (bytes == 0 || !is_to_be_damaged(fd))
    return __real_send(fd, data, bytes, flags);
  return send_damaged(fd, data, bytes, flags);
}

/* Damages the first piece and sends it alone, as a short write. */
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  if (message->msg_iovlen == 0 || message->msg_iov[0].iov_len == 0 ||
      !is_to_be_damaged(fd))
    return __real_sendmsg(fd, message, flags);
  return send_damaged(fd, message->msg_iov[0].iov_base,
                      message->msg_iov[0].iov_len, flags);
}

/* ---- resource limits ----------------------------------------------------- */

/* Opening the next descriptor fails with EMFILE. */
void cell_suffer_no_descriptors(void) {
  int next = dup(STDERR_FILENO);
  close(next);
  struct rlimit now;
  if (getrlimit(RLIMIT_NOFILE, &now) != 0) _exit(84);
  now.rlim_cur = (rlim_t)next;
  if (setrlimit(RLIMIT_NOFILE, &now) != 0) _exit(85);
}

/* Mappings and growth of the heap fail with ENOMEM. */
void cell_suffer_no_memory(void) {
  struct rlimit now;
  if (getrlimit(RLIMIT_AS, &now) != 0) _exit(84);
  now.rlim_cur = 1 << 20;
  if (setrlimit(RLIMIT_AS, &now) != 0) _exit(85);
}

#if defined(SYS_ftruncate64)
#define CALL_FTRUNCATE SYS_ftruncate64
#else
#define CALL_FTRUNCATE SYS_ftruncate
#endif

/* Reserving shared memory fails with ENOSPC, by a filter on system calls: a
 * full /dev/shm would affect the whole machine. */
void cell_suffer_no_shared_memory(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL_FTRUNCATE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(86);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
              &program) != 0)
    _exit(87);
}

/* ---- signals and clocks -------------------------------------------------- */

static void ignore_tick(int number) {
  (void)number;
}

/* Interrupts blocking calls a thousand times a second, on any thread. */
void cell_suffer_signals(void) {
  const struct sigaction action = {.sa_handler = ignore_tick};
  const struct itimerval tick = {{0, 1000}, {0, 1000}};
  if (sigaction(SIGALRM, &action, NULL) != 0) _exit(88);
  if (setitimer(ITIMER_REAL, &tick, NULL) != 0) _exit(89);
}

static atomic_bool jumps;

void cell_suffer_clock(void) {
  atomic_store(&jumps, true);
}

typedef int (*clock_fn)(clockid_t clock, struct timespec *now);

static clock_fn real_clock(void) {
  static _Atomic(clock_fn) known;
  clock_fn real = atomic_load(&known);
  if (real != NULL) return real;
  *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
  atomic_store(&known, real);
  return real;
}

/* The time of day jumps by two hours and back, at each call. */
int clock_gettime(clockid_t clock, struct timespec *now) {
  static atomic_uint looks;
  int result = real_clock()(clock, now);
  if (clock != CLOCK_REALTIME || !atomic_load(&jumps)) return result;
  if (atomic_fetch_add(&looks, 1) % 2 == 0) now->tv_sec += 7200;
  return result;
}
