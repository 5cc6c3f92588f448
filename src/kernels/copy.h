/* Copying bytes, possibly many. */
#ifndef GLI_KERNELS_COPY_H
#define GLI_KERNELS_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* C libraries copy what is longer with one instruction of the processor (rep
 * movsb, from 2,112 bytes on in glibc 2.36 where the processor says that it is
 * fast), and what is shorter with vectors. */
#define GLI_COPY_SHORT ((size_t)2048)

void gli_copy_in_pieces(void *dst, const void *src, size_t bytes);

/* The instruction compares the low 12 bits of addresses to find out whether it
 * is about to load what it has just stored. Where `dst` is a few bytes past
 * `src` in these, some processors (AMD's Zen 3) believe that all the way, and
 * copy 3 GB/s in place of 45: most distances below 32, and below 64 it may be
 * 28. What malloc gives for a long buffer begins 16 bytes past a page, and what
 * mmap gives at one. */
static inline bool gli_copy_stumbles(const void *dst, const void *src) {
  return (((uintptr_t)dst - (uintptr_t)src - 1) & 4095) < 63;
}

/* memcpy that never does that. */
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

/* memcpy around the caches where the processor can, fenced on return: for
 * destinations that no thread reads from this core's caches soon. dst may be
 * src; no other overlap. */
void gli_copy_nontemporal(void *dst, const void *src, size_t bytes);
/* gli_copy_nontemporal in two parts. */
void gli_copy_nontemporal_unfenced(void *dst, const void *src, size_t bytes);
void gli_nontemporal_fence(void);

#endif
