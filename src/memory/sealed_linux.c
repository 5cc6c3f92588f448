/* Pages of sealed memory on Linux. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/sealed.h"

#if !defined(MADV_POPULATE_WRITE) /* headers before 2021 lack it */
#define MADV_POPULATE_WRITE 23
#endif

enum { BLOCK = 512 };

int gli_sealed_allocate(int fd, uint8_t *memory, size_t from, size_t bytes) {
  (void)memory;
  return fallocate(fd, 0, (off_t)from, (off_t)bytes) == 0 ? 0 : errno;
}

bool gli_sealed_has_pages(const struct stat *status, uint64_t bytes) {
  return (uint64_t)status->st_blocks >= bytes / BLOCK;
}

/* Returns true if the kernel makes huge pages for shared memory on request. */
static bool huge_on_request(void) {
  char modes[128];
  int fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
                O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t got = read(fd, modes, sizeof modes - 1);
  close(fd);
  if (got <= 0) return false;
  modes[got] = '\0';
  return strstr(modes, "[never]") == NULL && strstr(modes, "[deny]") == NULL;
}

/* Populates memory with huge pages, which the kernel makes on request only for
 * pages that are touched. gli_sealed_allocate reserves the remaining pages. */
void gli_sealed_populate_huge(void *memory, size_t bytes) {
  if (!huge_on_request()) return;
  if (madvise(memory, bytes, MADV_HUGEPAGE) != 0) return;
  (void)madvise(memory, bytes, MADV_POPULATE_WRITE);
}

/* Ignores failure: on older kernels the first access populates the pages. */
void gli_sealed_populate(void *memory, size_t bytes) {
  (void)madvise(memory, bytes, MADV_POPULATE_WRITE);
}
