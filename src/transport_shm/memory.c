/* Linux only: memfd, seals, eventfd. */
#define _GNU_SOURCE
#include "transport_shm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

/* Passing the limit on file sizes would raise a signal. */
static int check_limit(size_t bytes) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return 0;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes) return 0;
  return EFBIG;
}

static int fill(int fd, size_t bytes) {
  if (ftruncate(fd, (off_t)bytes) != 0) return errno;
  int code;
  do code = fallocate(fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
  while (code == EINTR);
  if (code != 0) return code;
  if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0) return errno;
  return 0;
}

static int map(int fd, size_t bytes, void **memory) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) return errno;
  *memory = at;
  return 0;
}

int gli_shm_memory_make(size_t bytes, int *fd, void **memory) {
  int code = check_limit(bytes);
  if (code != 0) return code;
  int made = memfd_create("gloo_c", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0) return errno;
  code = fill(made, bytes);
  if (code == 0) code = map(made, bytes, memory);
  if (code != 0) {
    close(made);
    return code;
  }
  *fd = made;
  return 0;
}

int gli_shm_memory_adopt(int fd, size_t bytes, void **memory) {
  struct stat status;
  if (fstat(fd, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode) || status.st_size < 0) return EINVAL;
  if ((uint64_t)status.st_size != bytes) return EINVAL;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS) return EINVAL;
  return map(fd, bytes, memory);
}

void gli_shm_memory_drop(void *memory, size_t bytes) {
  if (memory != NULL) munmap(memory, bytes);
}

/* ---- bells --------------------------------------------------------------- */

int gli_shm_bell_make(int *fd) {
  int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made < 0) return errno;
  *fd = made;
  return 0;
}

int gli_shm_bell_check(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  return (flags & O_NONBLOCK) != 0 && (flags & O_ACCMODE) == O_RDWR ? 0
                                                                    : EINVAL;
}

void gli_shm_bell_ring(int fd) {
  /* When it is full it rings already. */
  eventfd_t one = 1;
  ssize_t written = write(fd, &one, sizeof one);
  (void)written;
}

void gli_shm_bell_quiet(int fd) {
  eventfd_t count;
  ssize_t got = read(fd, &count, sizeof count);
  (void)got;
}
