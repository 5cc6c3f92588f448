#include "transport_shm/memory.h"

#include <errno.h>

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
