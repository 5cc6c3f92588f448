/* Replacement of sealed.c where memory cannot be shared by descriptor. */
#include <errno.h>

#include "memory/sealed.h"

int gli_sealed_make(const gli_sealed_want *want, int *fd, void **memory,
                    const char **what) {
  (void)want;
  (void)fd;
  (void)memory;
  *what = "it requires Linux";
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
