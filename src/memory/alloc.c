/* gloo_alloc and gloo_free. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/aligned.h"
#include "core/error.h"
#include "core/log.h"
#include "core/memory_left.h"
#include "gloo_c/memory.h"
#include "memory/region.h"
#include "memory/sealed.h"

/* Largest share of the remaining memory, because the kernel kills processes
 * when it runs out, and share of the descriptors that remains for connections
 * and the program's files. */
enum { MOST_PERCENT = 90, SPARE_FDS_PERCENT = 25 };

/* Logs a warning once per errno. */
static void alloc_warn(size_t bytes, const char *what, int code) {
  static atomic_ullong warned[4];
  unsigned index = (unsigned)code % 256;
  unsigned long long bit = 1ull << (index % 64);
  if ((atomic_fetch_or(&warned[index / 64], bit) & bit) != 0) return;
  gli_log(GLOO_LOG_WARN,
          "cannot allocate %zu bytes of memory shared with other ranks: %s "
          "(%s); using ordinary memory, so large messages are copied. Further "
          "warnings of this kind are suppressed",
          bytes, what, strerror(code));
}

static bool alloc_region(size_t bytes, void **memory) {
  const char *what = "it exceeds the limit for shared memory";
  int fd = -1, code = EFBIG;
  void *made = NULL;
  const gli_sealed_want want = {.bytes = bytes,
                                .reserved = bytes,
                                .most_percent = MOST_PERCENT,
                                .spare_fds_percent = SPARE_FDS_PERCENT};
  if (bytes <= GLI_REGION_BYTES_MAX)
    code = gli_sealed_make(&want, &fd, &made, &what);
  if (code == 0) {
    gli_region stale;
    code = gli_region_add(made, bytes, fd, &stale);
    what = code == EEXIST
               ? "its address was registered with gloo_memory_register and "
                 "unmapped without gloo_memory_deregister"
               : "too many shared allocations";
    if (code != 0) {
      gli_sealed_unmap(made, bytes);
      gli_sealed_close(fd);
    }
  }
  if (code != 0) {
    alloc_warn(bytes, what, code);
    return false;
  }
  *memory = made;
  return true;
}

static bool free_region(void *memory) {
  gli_region region;
  if (!gli_region_remove(memory, true, &region)) return false;
  gli_sealed_unmap(region.base, region.bytes);
  gli_sealed_close(region.fd);
  return true;
}

static bool alloc_shared(size_t bytes, void **memory) {
  if (!gli_sealed_replaces) return false;
  if (bytes > GLI_SLAB_TAKE_MAX) return alloc_region(bytes, memory);
  void *made = gli_slab_take(bytes), *slab = NULL;
  /* There may be room for this allocation, but not for a slab. */
  if (made == NULL && !alloc_region(GLI_SLAB_BYTES, &slab))
    return alloc_region(bytes, memory);
  if (slab != NULL && !gli_slab_add(slab)) {
    free_region(slab);
    return false;
  }
  if (made == NULL) made = gli_slab_take(bytes);
  if (made == NULL) return false;
  *memory = made;
  return true;
}

gloo_status gloo_alloc(size_t bytes, void **memory, gloo_error *error) {
  if (memory == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_alloc: `memory` must not be NULL");
  size_t page = (size_t)sysconf(_SC_PAGESIZE), asked = bytes;
  if (bytes == 0) bytes = 1;
  void *made = NULL;
  if (bytes <= SIZE_MAX / 2) {
    bytes = (bytes + page - 1) / page * page;
    if (alloc_shared(bytes, memory)) return GLOO_OK;
    if (bytes <= gli_memory_left()) made = gli_aligned_alloc(page, bytes);
  }
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory: cannot allocate %zu bytes", asked);
  memset(made, 0, bytes);
  *memory = made;
  return GLOO_OK;
}

void gloo_free(void *memory) {
  void *empty;
  if (memory == NULL) return;
  if (gli_slab_give(memory, &empty)) {
    if (empty != NULL) free_region(empty);
  } else if (!free_region(memory)) {
    gli_aligned_free(memory);
  }
}
