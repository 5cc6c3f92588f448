/* Pages of shared memory on POSIX systems other than Linux. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "memory/sealed.h"

/* Where posix_fallocate does not apply to such memory, its pages are limited as
 * those of malloc are, and the first access makes them. */
int gli_sealed_allocate(int fd, uint8_t *memory, size_t from, size_t bytes) {
#if GLI_POSIX_FALLOCATE
  int code = posix_fallocate(fd, (off_t)from, (off_t)bytes);
  if (code != ENODEV && code != EOPNOTSUPP && code != EINVAL) return code;
#else
  (void)fd;
#endif
  gli_sealed_touch(memory + from, bytes);
  return 0;
}

/* Returns true: some systems do not count these pages in st_blocks. */
bool gli_sealed_has_pages(const struct stat *status, uint64_t bytes) {
  (void)status;
  (void)bytes;
  return true;
}

void gli_sealed_populate_huge(void *memory, size_t bytes) {
  (void)memory;
  (void)bytes;
}

void gli_sealed_populate(void *memory, size_t bytes) {
  gli_sealed_touch(memory, bytes);
}
