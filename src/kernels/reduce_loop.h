/* Loop of all kernels. It takes elements in groups of a vector or two, and
 * computes each group in a local array before it stores any of it. Compilers
 * then vectorise without knowing whether `dst` is also `left` or `right`. */
#ifndef GLI_KERNELS_REDUCE_LOOP_H
#define GLI_KERNELS_REDUCE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/hints.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define GLI_VECTOR_BYTES ((size_t)64)
#define GLI_GROUP_BYTES ((size_t)64)
#elif defined(__AVX__)
#define GLI_VECTOR_BYTES ((size_t)32)
#define GLI_GROUP_BYTES ((size_t)64)
#else
#define GLI_VECTOR_BYTES ((size_t)16)
#define GLI_GROUP_BYTES ((size_t)32)
#endif

/* Prevents unrolling of a loop over a group. Compilers unroll before they look
 * for vectors, and then find none. */
#ifdef __GNUC__
#define GLI_LANES _Pragma("GCC unroll 1")
#else
#define GLI_LANES
#endif

/* Prevents vectorisation of the loop over the last few elements. */
#ifdef __GNUC__
#define GLI_FEW __asm__ volatile("")
#else
#define GLI_FEW ((void)0)
#endif

/* Stores `bytes` vector by vector. Compilers split a single memcpy into smaller
 * pieces, which take a detour through the stack. */
GLI_INLINE void gli_store_group(void *dst, const void *group, size_t bytes) {
#ifdef __GNUC__
  typedef unsigned char vector
      __attribute__((vector_size(GLI_VECTOR_BYTES), may_alias, aligned(1)));
  for (size_t k = 0; k < bytes / GLI_VECTOR_BYTES; k++) {
    ((vector *)dst)[k] = ((const vector *)group)[k];
  }
  size_t done = bytes / GLI_VECTOR_BYTES * GLI_VECTOR_BYTES;
  memcpy((unsigned char *)dst + done, (const unsigned char *)group + done,
         bytes - done);
#else
  memcpy(dst, group, bytes);
#endif
}

/* Stores non-temporally; `dst` is aligned to a vector. */
GLI_INLINE void gli_stream_group(void *dst, const void *group, size_t bytes) {
#if defined(__AVX512F__)
  for (size_t k = 0; k < bytes / 64; k++) {
    _mm512_stream_si512((__m512i *)dst + k,
                        _mm512_loadu_si512((const __m512i *)group + k));
  }
#elif defined(__AVX__)
  for (size_t k = 0; k < bytes / 32; k++) {
    _mm256_stream_si256((__m256i *)dst + k,
                        _mm256_loadu_si256((const __m256i *)group + k));
  }
#elif defined(__SSE2__)
  for (size_t k = 0; k < bytes / 16; k++) {
    _mm_stream_si128((__m128i *)dst + k,
                     _mm_loadu_si128((const __m128i *)group + k));
  }
#else
  gli_store_group(dst, group, bytes);
#endif
}

GLI_INLINE void gli_put_group(void *dst, const void *group, size_t bytes,
                              bool stream) {
  if (stream) {
    gli_stream_group(dst, group, bytes);
  } else {
    gli_store_group(dst, group, bytes);
  }
}

/* Defines name##_group(t, left, right, n): t[j] = `expression` of `a`, an
 * element of `from`, and `b`, one of `type`. memcpy reads unaligned memory in
 * portable C, at no cost. */
#define GLI_GROUP(name, to, from, type, expression)                    \
  GLI_INLINE void name##_group(to *t, const unsigned char *left,       \
                               const unsigned char *right, size_t n) { \
    GLI_LANES for (size_t j = 0; j < n; j++) {                         \
      from a;                                                          \
      type b;                                                          \
      memcpy(&a, left + j * sizeof a, sizeof a);                       \
      memcpy(&b, right + j * sizeof b, sizeof b);                      \
      t[j] = (to)(expression);                                         \
    }                                                                  \
  }

/* Defines static void name(dst, left, right, count), which applies name##_group
 * to `size` units at a time and to the rest one by one. A unit is `left_bytes`
 * and `right_bytes` of input, and yields `per` elements of `to`. */
#define GLI_WALK(name, to, per, left_bytes, right_bytes, size)     \
  static void name(void *dst, const void *left, const void *right, \
                   size_t count) {                                 \
    unsigned char *d = dst;                                        \
    const unsigned char *l = left, *r = right;                     \
    enum { group = (size) };                                       \
    for (; count >= group; count -= group) {                       \
      to t[group * (per)];                                         \
      name##_group(t, l, r, group);                                \
      gli_store_group(d, t, sizeof t);                             \
      d += sizeof t;                                               \
      l += group * (left_bytes);                                   \
      r += group * (right_bytes);                                  \
    }                                                              \
    for (; count > 0; count--) {                                   \
      to t[per];                                                   \
      GLI_FEW;                                                     \
      name##_group(t, l, r, 1);                                    \
      memcpy(d, t, sizeof t);                                      \
      d += sizeof t;                                               \
      l += (left_bytes);                                           \
      r += (right_bytes);                                          \
    }                                                              \
  }

#endif
