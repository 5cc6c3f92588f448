/* Calls of the C library that fail on demand. The functions replace those calls
 * in the whole process: in gloo_c, libuv and the C library itself. Linux and
 * glibc only. */
#ifndef TESTS_FAULTS_FAILING_CALLS_H
#define TESTS_FAULTS_FAILING_CALLS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum failing_call {
  FAILING_MALLOC, /* and calloc, realloc, posix_memalign, aligned_alloc */
  FAILING_EPOLL_CTL,
  FAILING_EPOLL_CREATE1,
  FAILING_EVENTFD,
  FAILING_PIPE2,
  FAILING_SOCKET,
  FAILING_ACCEPT, /* and accept4 */
  FAILING_CONNECT,
  FAILING_MMAP,
  FAILING_MEMFD_CREATE,
  FAILING_FALLOCATE,
  FAILING_PTHREAD_CREATE,
  FAILING_READ,
  FAILING_WRITE,
  FAILING_SEND, /* and sendmsg */
  FAILING_RECV, /* and recvmsg */
  FAILING_CALLS
} failing_call;

const char *failing_calls_name(failing_call call);

/* Returns true if the call fails for lack of memory or descriptors in this
 * process. */
bool failing_calls_is_lack(failing_call call);

/* Returns strerror() of the call's error. */
const char *failing_calls_text(failing_call call);

/* Looks up the real functions. Call first in main(). */
void failing_calls_begin(void);

/* Makes the n-th `call` of this process from here on fail. */
void failing_calls_arm(failing_call call, unsigned long n);

/* Stops failures. Returns the number of calls made: n or more if one failed. */
unsigned long failing_calls_disarm(void);

/* Acts as a kernel whose fallocate() stops at a signal and undoes its work,
 * while a timer ticks each time `longest` bytes are reserved: longer
 * reservations are undone and fail with EINTR. SIZE_MAX: none fails. */
void failing_calls_interrupt_fallocate(size_t longest);

/* Makes every second call of a kind that can block fail with EINTR. */
void failing_calls_interrupt_often(bool often);

/* Returns the number of calls failed with EINTR since the last call of either
 * function above. */
unsigned long failing_calls_interrupted(void);

#endif
