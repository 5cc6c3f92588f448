/* Calls of the C library that fail as a test says. What is linked into a
 * program takes the place of these calls for the whole process: for gloo_c,
 * libuv and the C library itself. Linux, glibc. */
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

/* Does it fail for want of memory or descriptors of this process? */
bool failing_calls_is_lack(failing_call call);

/* What strerror() says of it. */
const char *failing_calls_text(failing_call call);

/* Find the real calls. First in main(). */
void failing_calls_begin(void);

/* From now on the n-th `call` of this process fails. */
void failing_calls_arm(failing_call call, unsigned long n);

/* No more of them. Returns how many were made: n or more when one failed. */
unsigned long failing_calls_disarm(void);

/* Kernels that stop fallocate at a signal and undo it, under a timer that ticks
 * while `longest` bytes are reserved: fallocate of more is undone and fails
 * with EINTR. SIZE_MAX: none is. */
void failing_calls_interrupt_fallocate(size_t longest);

/* Every second of the calls of a kind that can wait fails with EINTR. */
void failing_calls_interrupt_often(bool often);

/* How many calls have failed with EINTR since the last of these two. */
unsigned long failing_calls_interrupted(void);

#endif
