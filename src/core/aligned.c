#include "core/aligned.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The address that malloc returned is before the memory. */
void *gli_aligned_alloc(size_t alignment, size_t bytes) {
  size_t more = alignment + sizeof(void *);
  unsigned char *whole = bytes <= SIZE_MAX - more ? malloc(bytes + more) : NULL;
  if (whole == NULL) return NULL;
  uintptr_t past = (uintptr_t)(whole + sizeof whole) % alignment;
  unsigned char *memory =
      whole + sizeof whole + (past != 0 ? alignment - past : 0);
  memcpy(memory - sizeof whole, &whole, sizeof whole);
  return memory;
}

void gli_aligned_free(void *memory) {
  void *whole;
  if (memory == NULL) return;
  memcpy(&whole, (unsigned char *)memory - sizeof whole, sizeof whole);
  free(whole);
}
