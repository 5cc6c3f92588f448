/* Replacement of shared memory on systems where processes have none yet: no
 * descriptor exists, so the functions that take one are not called. */
#include <errno.h>

#include "memory/sealed.h"

const char gli_sealed_maker[] = "nothing";
const bool gli_sealed_detaches = false;

int gli_sealed_make(const gli_sealed_want *want, int *fd, void **memory,
                    const char **what) {
  (void)want;
  *fd = -1;
  *memory = NULL;
  *what = "this system has no shared memory";
  return ENOSYS;
}

int gli_sealed_detach(int fd, size_t offset, void *memory, size_t bytes) {
  (void)fd;
  (void)offset;
  (void)memory;
  (void)bytes;
  return ENOSYS;
}

int gli_sealed_read(int fd, size_t offset, void *to, size_t bytes) {
  (void)fd;
  (void)offset;
  (void)to;
  (void)bytes;
  return ENOSYS;
}

void gli_sealed_unmap(void *memory, size_t bytes) {
  (void)memory;
  (void)bytes;
}

void gli_sealed_close(int fd) {
  (void)fd;
}
