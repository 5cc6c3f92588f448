#include "core/aligned.h"

#include <stdlib.h>

void *gli_aligned_alloc(size_t alignment, size_t bytes) {
  return aligned_alloc(alignment, bytes);
}

void gli_aligned_free(void *memory) {
  free(memory);
}
