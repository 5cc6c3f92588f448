/* Copies of bytes, short and long. */
#ifndef GLI_KERNELS_COPY_H
#define GLI_KERNELS_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Longest copy that C libraries make with vector instructions. Longer ones use
 * rep movsb (from 2,112 bytes on in glibc 2.36, if the processor reports it as
 * fast). */
#define GLI_COPY_SHORT ((size_t)2048)

void gli_copy_in_pieces(void *dst, const void *src, size_t bytes);

/* Returns true if rep movsb may be slow for these addresses. The instruction
 * compares the low 12 bits of addresses to detect loads of data that it has
 * just stored. If `dst` is a few bytes past `src` in these bits, some
 * processors (AMD Zen 3) assume the dependency throughout and copy 3 GB/s
 * instead of 45 at most distances below 32 bytes, and as little as 28 GB/s at
 * distances below 64. Such distances are common: long buffers from malloc begin
 * 16 bytes past a page boundary, those from mmap at one. */
static inline bool gli_copy_stumbles(const void *dst, const void *src) {
  return (((uintptr_t)dst - (uintptr_t)src - 1) & 4095) < 63;
}

/* Copies like memcpy, but avoids that case. */
static inline void gli_copy_bytes(void *dst, const void *src, size_t bytes) {
  if (bytes > GLI_COPY_SHORT && gli_copy_stumbles(dst, src))
    gli_copy_in_pieces(dst, src, bytes);
  else
    memcpy(dst, src, bytes);
}

static inline bool gli_ranges_overlap(const void *a, const void *b,
                                      size_t bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return (x < y ? y - x : x - y) < bytes;
}

/* Copies memory that may overlap or be the same. */
static inline void gli_move_bytes(void *dst, const void *src, size_t bytes) {
  if (gli_ranges_overlap(dst, src, bytes))
    memmove(dst, src, bytes);
  else
    gli_copy_bytes(dst, src, bytes);
}

/* Copies around the caches if the processor can, and fences the stores before
 * it returns; for destinations that no thread soon reads from this core's
 * caches. `dst` may equal `src`; no other overlap. */
void gli_copy_nontemporal(void *dst, const void *src, size_t bytes);
/* Two parts of gli_copy_nontemporal. */
void gli_copy_nontemporal_unfenced(void *dst, const void *src, size_t bytes);
void gli_nontemporal_fence(void);

#endif
