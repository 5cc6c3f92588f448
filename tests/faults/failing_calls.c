/* The linker binds calls of the program and all its libraries to the functions
 * below. Memory comes from the functions that the C library or the sanitizer
 * exports under another name, since dlsym() allocates; system calls without
 * another name are made directly. */
#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS /* otherwise two functions get one name */
#include "faults/failing_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ranks/sanitized.h"

/* ---- which call fails ---------------------------------------------------- */

typedef struct kind {
  const char *name;
  int code;
  bool lack;
} kind;

static const kind kinds[FAILING_CALLS] = {
    [FAILING_MALLOC] = {"malloc", ENOMEM, true},
    [FAILING_EPOLL_CTL] = {"epoll_ctl", ENOSPC, true},
    [FAILING_EPOLL_CREATE1] = {"epoll_create1", EMFILE, true},
    [FAILING_EVENTFD] = {"eventfd", EMFILE, true},
    [FAILING_PIPE2] = {"pipe2", EMFILE, true},
    [FAILING_SOCKET] = {"socket", EMFILE, true},
    [FAILING_ACCEPT] = {"accept", EMFILE, true},
    [FAILING_CONNECT] = {"connect", ECONNREFUSED, false},
    [FAILING_MMAP] = {"mmap", ENOMEM, true},
    [FAILING_MEMFD_CREATE] = {"memfd_create", EMFILE, true},
    [FAILING_FALLOCATE] = {"fallocate", ENOSPC, true},
    [FAILING_PTHREAD_CREATE] = {"pthread_create", EAGAIN, true},
    [FAILING_READ] = {"read", EIO, false},
    [FAILING_WRITE] = {"write", EIO, false},
    [FAILING_SEND] = {"send", ECONNRESET, false},
    [FAILING_RECV] = {"recv", ECONNRESET, false},
};

static atomic_int armed = -1;
static _Thread_local bool spared; /* in calls of the sanitizer itself */
static atomic_ulong failing, made;

const char *failing_calls_name(failing_call call) {
  return kinds[call].name;
}

bool failing_calls_is_lack(failing_call call) {
  return kinds[call].lack;
}

const char *failing_calls_text(failing_call call) {
  return strerror(kinds[call].code);
}

void failing_calls_arm(failing_call call, unsigned long n) {
  atomic_store(&made, 0);
  atomic_store(&failing, n);
  atomic_store(&armed, (int)call);
}

unsigned long failing_calls_disarm(void) {
  atomic_store(&armed, -1);
  return atomic_load(&made);
}

static bool is_due(failing_call call) {
  if (atomic_load_explicit(&armed, memory_order_relaxed) != (int)call)
    return false;
  if (spared) return false;
  if (atomic_fetch_add(&made, 1) + 1 != atomic_load(&failing)) return false;
  errno = kinds[call].code;
  return true;
}

/* ---- interrupted calls --------------------------------------------------- */

enum interruptible {
  WAITS_READ,
  WAITS_WRITE,
  WAITS_SEND,
  WAITS_RECV,
  WAITS_ACCEPT,
  WAITS_POLL,
  WAITS_EPOLL,
  WAITS_FTRUNCATE,
  WAITS_FALLOCATE,
  WAITS_FLOCK,
  WAITS
};

static atomic_bool often;
static atomic_uint turns[WAITS];
static atomic_size_t longest_fallocate = SIZE_MAX;
static atomic_ulong interrupted;

void failing_calls_interrupt_fallocate(size_t longest) {
  atomic_store(&interrupted, 0);
  atomic_store(&longest_fallocate, longest);
}

void failing_calls_interrupt_often(bool on) {
  atomic_store(&interrupted, 0);
  atomic_store(&often, on);
}

unsigned long failing_calls_interrupted(void) {
  return atomic_load(&interrupted);
}

static bool is_interrupted(enum interruptible call) {
  if (!atomic_load_explicit(&often, memory_order_relaxed)) return false;
  if (atomic_fetch_add(&turns[call], 1) % 2 != 0) return false;
  atomic_fetch_add(&interrupted, 1);
  errno = EINTR;
  return true;
}

/* ---- memory -------------------------------------------------------------- */

#if defined(SANITIZED_FOR_MEMORY)
#define REAL(name) __interceptor_##name
#define REAL_ALIGNED __interceptor_memalign
#else
#define REAL(name) __libc_##name
#define REAL_ALIGNED __libc_memalign
#endif
void *REAL(malloc)(size_t bytes);
void *REAL(calloc)(size_t count, size_t bytes);
void *REAL(realloc)(void *memory, size_t bytes);
void *REAL_ALIGNED(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
  return is_due(FAILING_MALLOC) ? NULL : REAL(malloc)(bytes);
}

void *calloc(size_t count, size_t bytes) {
  return is_due(FAILING_MALLOC) ? NULL : REAL(calloc)(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
  return is_due(FAILING_MALLOC) ? NULL : REAL(realloc)(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  return is_due(FAILING_MALLOC) ? NULL : REAL_ALIGNED(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  void *had = is_due(FAILING_MALLOC) ? NULL : REAL_ALIGNED(alignment, bytes);
  if (had == NULL) return ENOMEM;
  *memory = had;
  return 0;
}

/* ---- descriptors --------------------------------------------------------- */

int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event) {
  if (is_due(FAILING_EPOLL_CTL)) return -1;
  return (int)syscall(SYS_epoll_ctl, epoll, what, fd, event);
}

int epoll_create1(int flags) {
  if (is_due(FAILING_EPOLL_CREATE1)) return -1;
  return (int)syscall(SYS_epoll_create1, flags);
}

int eventfd(unsigned count, int flags) {
  if (is_due(FAILING_EVENTFD)) return -1;
  return (int)syscall(SYS_eventfd2, count, flags);
}

int pipe2(int fds[2], int flags) {
  if (is_due(FAILING_PIPE2)) return -1;
  return (int)syscall(SYS_pipe2, fds, flags);
}

int socket(int domain, int type, int protocol) {
  if (is_due(FAILING_SOCKET)) return -1;
  return (int)syscall(SYS_socket, domain, type, protocol);
}

int accept4(int fd, __SOCKADDR_ARG peer, socklen_t *bytes, int flags) {
  if (is_due(FAILING_ACCEPT) || is_interrupted(WAITS_ACCEPT)) return -1;
  return (int)syscall(SYS_accept4, fd, peer.__sockaddr__, bytes, flags);
}

int accept(int fd, __SOCKADDR_ARG peer, socklen_t *bytes) {
  return accept4(fd, peer, bytes, 0);
}

int connect(int fd, __CONST_SOCKADDR_ARG peer, socklen_t bytes) {
  if (is_due(FAILING_CONNECT)) return -1;
  return (int)syscall(SYS_connect, fd, peer.__sockaddr__, bytes);
}

/* ---- shared memory ------------------------------------------------------- */

void *mmap(void *at, size_t bytes, int access, int flags, int fd, off_t from) {
  if (is_due(FAILING_MMAP)) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, bytes, access, flags, fd, from);
}

void *mmap64(void *at, size_t bytes, int access, int flags, int fd,
             off64_t from) {
  return mmap(at, bytes, access, flags, fd, (off_t)from);
}

int memfd_create(const char *name, unsigned flags) {
  if (is_due(FAILING_MEMFD_CREATE)) return -1;
  return (int)syscall(SYS_memfd_create, name, flags);
}

int ftruncate(int fd, off_t bytes) {
  if (is_interrupted(WAITS_FTRUNCATE)) return -1;
  return (int)syscall(SYS_ftruncate, fd, bytes);
}

int ftruncate64(int fd, off64_t bytes) {
  return ftruncate(fd, (off_t)bytes);
}

int fallocate(int fd, int mode, off_t at, off_t bytes) {
  if (is_due(FAILING_FALLOCATE) || is_interrupted(WAITS_FALLOCATE)) return -1;
  int code = (int)syscall(SYS_fallocate, fd, mode, at, bytes);
  if (code != 0 || (size_t)bytes <= atomic_load(&longest_fallocate))
    return code;
  syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
          bytes);
  atomic_fetch_add(&interrupted, 1);
  errno = EINTR;
  return -1;
}

int fallocate64(int fd, int mode, off64_t at, off64_t bytes) {
  return fallocate(fd, mode, (off_t)at, (off_t)bytes);
}

/* ---- bytes --------------------------------------------------------------- */

ssize_t read(int fd, void *buffer, size_t bytes) {
  if (is_due(FAILING_READ) || is_interrupted(WAITS_READ)) return -1;
  return (ssize_t)syscall(SYS_read, fd, buffer, bytes);
}

ssize_t write(int fd, const void *buffer, size_t bytes) {
  if (is_due(FAILING_WRITE) || is_interrupted(WAITS_WRITE)) return -1;
  return (ssize_t)syscall(SYS_write, fd, buffer, bytes);
}

ssize_t send(int fd, const void *buffer, size_t bytes, int flags) {
  if (is_due(FAILING_SEND) || is_interrupted(WAITS_SEND)) return -1;
  return (ssize_t)syscall(SYS_sendto, fd, buffer, bytes, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  if (is_due(FAILING_SEND) || is_interrupted(WAITS_SEND)) return -1;
  return (ssize_t)syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recv(int fd, void *buffer, size_t bytes, int flags) {
  if (is_due(FAILING_RECV) || is_interrupted(WAITS_RECV)) return -1;
  return (ssize_t)syscall(SYS_recvfrom, fd, buffer, bytes, flags, NULL, NULL);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  if (is_due(FAILING_RECV) || is_interrupted(WAITS_RECV)) return -1;
  return (ssize_t)syscall(SYS_recvmsg, fd, message, flags);
}

/* ---- waiting, threads ---------------------------------------------------- */

static int (*real_poll)(struct pollfd *, nfds_t, int);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *,
                         const sigset_t *);
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_epoll_pwait)(int, struct epoll_event *, int, int,
                               const sigset_t *);
static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *,
                                  void *(*)(void *), void *);

static void find(const char *name, void *to) {
  void *real = dlsym(RTLD_NEXT, name);
  if (real == NULL) abort();
  *(void **)to = real;
}

void failing_calls_begin(void) {
  find("poll", &real_poll);
  find("ppoll", &real_ppoll);
  find("epoll_wait", &real_epoll_wait);
  find("epoll_pwait", &real_epoll_pwait);
  find("pthread_create", &real_pthread_create);
}

int poll(struct pollfd *fds, nfds_t count, int timeout) {
  if (is_interrupted(WAITS_POLL)) return -1;
  return real_poll(fds, count, timeout);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
          const sigset_t *mask) {
  if (is_interrupted(WAITS_POLL)) return -1;
  return real_ppoll(fds, count, timeout, mask);
}

int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout) {
  if (is_interrupted(WAITS_EPOLL)) return -1;
  return real_epoll_wait(epoll, events, max, timeout);
}

int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout,
                const sigset_t *mask) {
  if (is_interrupted(WAITS_EPOLL)) return -1;
  return real_epoll_pwait(epoll, events, max, timeout, mask);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*run)(void *), void *user) {
  if (is_due(FAILING_PTHREAD_CREATE)) return EAGAIN;
  return real_pthread_create(thread, attributes, run, user);
}

#if defined(SANITIZED_FOR_MEMORY)
/* The sanitizer calls this for each new thread, first before main(), and aborts
 * if it fails for lack of memory. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) {
  static int (*real)(pthread_t, pthread_attr_t *);
  if (real == NULL) find("pthread_getattr_np", &real);
  spared = true;
  int code = real(thread, attributes);
  spared = false;
  return code;
}
#endif

int flock(int fd, int operation) {
  if (is_interrupted(WAITS_FLOCK)) return -1;
  return (int)syscall(SYS_flock, fd, operation);
}
