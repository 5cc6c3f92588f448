/* Sealed memory and eventfd on Linux. */
#define _GNU_SOURCE
#include "transport_shm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "memory/sealed.h"

/* Leaves most of the free memory to others, because all ranks of a job allocate
 * at the same time. Pages without which a pair fails are few. */
enum { PERCENT_OF_THE_REST = 6, PERCENT_IF_NECESSARY = 50 };

int gli_shm_memory_make(size_t bytes, size_t reserved, int *fd, void **memory,
                        const char **what) {
  const gli_sealed_want wanted = {.bytes = bytes,
                                  .reserved = reserved,
                                  .most_percent = PERCENT_OF_THE_REST};
  return gli_sealed_make(&wanted, fd, memory, what);
}

int gli_shm_memory_grow(int fd, void *memory, size_t from, size_t until,
                        bool must) {
  int code =
      gli_sealed_reserve(fd, memory, from, until,
                         must ? PERCENT_IF_NECESSARY : PERCENT_OF_THE_REST);
  return code == ENOSPC ? ENOMEM : code;
}

int gli_shm_memory_adopt(int fd, size_t bytes, size_t reserved, void **memory) {
  int code = gli_sealed_check(fd, bytes, reserved);
  return code == 0 ? gli_sealed_map(fd, bytes, memory) : code;
}

void gli_shm_memory_drop(void *memory, size_t bytes) {
  gli_sealed_unmap(memory, bytes);
}

/* ---- the bell ------------------------------------------------------------ */

int gli_shm_bell_make(int *fd) {
  int made = gli_fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (made < 0) return errno;
  *fd = made;
  return 0;
}

void gli_shm_bell_ring(int fd) {
  /* a full counter is readable, so a failure is harmless */
  eventfd_t one = 1;
  ssize_t written;
  do written = write(fd, &one, sizeof one);
  while (written < 0 && errno == EINTR);
}

void gli_shm_bell_quiet(int fd) {
  eventfd_t count;
  ssize_t got;
  do got = read(fd, &count, sizeof count);
  while (got < 0 && errno == EINTR);
}
