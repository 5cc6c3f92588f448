/* float16 in vectors, on processors that convert it. GLI_HALVES elements make a
 * vector of floats; two of these make a vector of float16. The processors round
 * to nearest even and keep subnormals, like float16.h. */
#ifndef GLI_KERNELS_REDUCE_HALF_H
#define GLI_KERNELS_REDUCE_HALF_H

#include "kernels/reduce_float.h"
#include "kernels/reduce_loop.h"

#if defined(__AVX512F__)
#define GLI_HALVES ((size_t)16)
typedef __m512 gli_floats;

GLI_INLINE gli_floats gli_halves_widen(const unsigned char *halves) {
  __m256i bits;
  memcpy(&bits, halves, sizeof bits);
  return _mm512_cvtph_ps(bits);
}

GLI_INLINE gli_floats gli_floats_canonical(gli_floats x) {
  __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(GLI_FLOAT32_NAN));
  return _mm512_mask_mov_ps(x, is_nan, nan);
}

GLI_INLINE void gli_halves_narrow(void *halves, gli_floats x, gli_floats y) {
  __m256i low = _mm512_maskz_cvtps_ph(UINT16_MAX, gli_floats_canonical(x), 0);
  __m256i high = _mm512_maskz_cvtps_ph(UINT16_MAX, gli_floats_canonical(y), 0);
  __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  memcpy(halves, &both, sizeof both);
}

#elif defined(__F16C__)
#define GLI_HALVES ((size_t)8)
typedef __m256 gli_floats;

GLI_INLINE gli_floats gli_halves_widen(const unsigned char *halves) {
  __m128i bits;
  memcpy(&bits, halves, sizeof bits);
  return _mm256_cvtph_ps(bits);
}

GLI_INLINE gli_floats gli_floats_canonical(gli_floats x) {
  __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(GLI_FLOAT32_NAN));
  return _mm256_blendv_ps(x, nan, is_nan);
}

GLI_INLINE void gli_halves_narrow(void *halves, gli_floats x, gli_floats y) {
  __m128i low = _mm256_cvtps_ph(gli_floats_canonical(x), 0);
  __m128i high = _mm256_cvtps_ph(gli_floats_canonical(y), 0);
  __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  memcpy(halves, &both, sizeof both);
}

#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#define GLI_HALVES ((size_t)4)
typedef float32x4_t gli_floats;

GLI_INLINE gli_floats gli_halves_widen(const unsigned char *halves) {
  uint16x4_t bits;
  memcpy(&bits, halves, sizeof bits);
  return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}

GLI_INLINE uint16x4_t gli_half_vector(gli_floats x) {
  float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(GLI_FLOAT32_NAN));
  x = vbslq_f32(vceqq_f32(x, x), x, nan);
  return vreinterpret_u16_f16(vcvt_f16_f32(x));
}

GLI_INLINE void gli_halves_narrow(void *halves, gli_floats x, gli_floats y) {
  uint16x8_t both = vcombine_u16(gli_half_vector(x), gli_half_vector(y));
  memcpy(halves, &both, sizeof both);
}
#endif

#ifdef GLI_HALVES
GLI_INLINE gli_floats gli_floats_load(const void *floats) {
  gli_floats x;
  memcpy(&x, floats, sizeof x);
  return x;
}
#endif

#endif
