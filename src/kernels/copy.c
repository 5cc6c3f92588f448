#include "kernels/copy.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* volatile, because compilers that know the length use rep movsb themselves. */
static const volatile size_t most = GLI_COPY_SHORT;

void gli_copy_in_pieces(void *dst, const void *src, size_t bytes) {
  uint8_t *to = dst;
  const uint8_t *from = src;
  while (bytes > 0) {
    size_t piece = most;
    if (piece > bytes) piece = bytes;
    memcpy(to, from, piece);
    to += piece;
    from += piece;
    bytes -= piece;
  }
}

/* ---- around the caches --------------------------------------------------- */

#ifdef __SSE2__
#define LINE ((size_t)64)

/* Streams whole cache lines only: a partially written line costs a read. */
void gli_copy_nontemporal_unfenced(void *dst, const void *src, size_t bytes) {
  unsigned char *to = dst;
  const unsigned char *from = src;
  size_t head = (size_t)(-(uintptr_t)to % LINE);
  if (to == from) return;
  if (head > bytes) head = bytes;
  memcpy(to, from, head);
  for (to += head, from += head, bytes -= head; bytes >= LINE; bytes -= LINE) {
    for (size_t i = 0; i < LINE; i += sizeof(__m128i)) {
      __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
      _mm_stream_si128((__m128i *)(void *)(to + i), part);
    }
    to += LINE;
    from += LINE;
  }
  memcpy(to, from, bytes);
}

void gli_nontemporal_fence(void) {
  _mm_sfence();
}
#else
void gli_copy_nontemporal_unfenced(void *dst, const void *src, size_t bytes) {
  if (dst != src) memcpy(dst, src, bytes);
}

void gli_nontemporal_fence(void) {}
#endif

void gli_copy_nontemporal(void *dst, const void *src, size_t bytes) {
  gli_copy_nontemporal_unfenced(dst, src, bytes);
  gli_nontemporal_fence();
}
