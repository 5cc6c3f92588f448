/* The only processor-specific file of the limits: non-temporal stores
 * (MOVNTPS). With ordinary stores, writing two vectors would first read both of
 * them. */
#include "tools/limits.h"

#ifdef __SSE2__
#include <emmintrin.h>

bool gli_sum_bypassing(float *dst0, float *dst1, const float *a, const float *b,
                       size_t count) {
  for (size_t i = 0; i < count; i += 4) {
    __m128 sum = _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i));
    _mm_stream_ps(dst0 + i, sum);
    _mm_stream_ps(dst1 + i, sum);
  }
  _mm_sfence();
  return true;
}
#else
bool gli_sum_bypassing(float *dst0, float *dst1, const float *a, const float *b,
                       size_t count) {
  (void)dst0, (void)dst1, (void)a, (void)b, (void)count;
  return false;
}
#endif
