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
 * at the same time. */
enum { PERCENT_OF_THE_REST = 6 };

static gli_sealed_want shm_memory_want(size_t bytes, size_t reserved) {
  return (gli_sealed_want){.bytes = bytes,
                           .reserved = reserved,
                           .most_percent = PERCENT_OF_THE_REST};
}

int gli_shm_memory_make(size_t bytes, size_t reserved, int *fd, void **memory,
                        const char **what) {
  const gli_sealed_want wanted = shm_memory_want(bytes, reserved);
  return gli_sealed_make(&wanted, fd, memory, what);
}

int gli_shm_memory_reserve_rest(size_t bytes, size_t reserved, int fd,
                                void *memory) {
  const gli_sealed_want wanted = shm_memory_want(bytes, reserved);
  return gli_sealed_reserve_rest(&wanted, fd, memory);
}

int gli_shm_memory_adopt(int fd, size_t bytes, size_t reserved, void **memory) {
  int code = gli_sealed_check(fd, bytes, reserved);
  if (code == 0) code = gli_sealed_map(fd, bytes, memory);
  if (code == 0) gli_sealed_populate(*memory, reserved);
  return code;
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
