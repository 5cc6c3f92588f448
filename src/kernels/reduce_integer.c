/* Kernels for integers and bool. Sums, products and bitwise operations are the
 * same for signed and unsigned numbers of one width. They are computed on
 * unsigned ones, which wrap around without undefined behaviour. */
#include "kernels/reduce_kernel.h"

/* `wide` is at least as wide as int, so that no operand is promoted to a signed
 * type. */
#define WRAPPING(width, wide)                                       \
  GLI_KERNEL_FUSED(sum_##width, uint##width##_t, (wide)a + (wide)b) \
  GLI_KERNEL(product_##width, uint##width##_t, (wide)a *(wide)b)    \
  GLI_KERNEL(band_##width, uint##width##_t, a &b)                   \
  GLI_KERNEL(bor_##width, uint##width##_t, a | b)                   \
  GLI_KERNEL(bxor_##width, uint##width##_t, a ^ b)                  \
  GLI_KERNEL(land_##width, uint##width##_t, (a != 0) & (b != 0))    \
  GLI_KERNEL(lor_##width, uint##width##_t, (a | b) != 0)            \
  GLI_KERNEL(lxor_##width, uint##width##_t, (a != 0) ^ (b != 0))    \
  GLI_KERNEL(min_int##width, int##width##_t, a < b ? a : b)         \
  GLI_KERNEL(max_int##width, int##width##_t, a > b ? a : b)         \
  GLI_KERNEL(min_uint##width, uint##width##_t, a < b ? a : b)       \
  GLI_KERNEL(max_uint##width, uint##width##_t, a > b ? a : b)

WRAPPING(8, uint32_t)
WRAPPING(16, uint32_t)
WRAPPING(32, uint32_t)
WRAPPING(64, uint64_t)

#define ROW(sign, width)                         \
  {                                              \
    [GLOO_SUM] = GLI_ENTRY(sum_##width),         \
    [GLOO_PRODUCT] = GLI_ENTRY(product_##width), \
    [GLOO_MIN] = GLI_ENTRY(min_##sign##width),   \
    [GLOO_MAX] = GLI_ENTRY(max_##sign##width),   \
    [GLOO_BAND] = GLI_ENTRY(band_##width),       \
    [GLOO_BOR] = GLI_ENTRY(bor_##width),         \
    [GLOO_BXOR] = GLI_ENTRY(bxor_##width),       \
    [GLOO_LAND] = GLI_ENTRY(land_##width),       \
    [GLOO_LOR] = GLI_ENTRY(lor_##width),         \
    [GLOO_LXOR] = GLI_ENTRY(lxor_##width),       \
  }

const gli_reduce_table GLI_OF_VARIANT(gli_reduce_integer) = {{
    [GLOO_INT8] = ROW(int, 8),
    [GLOO_INT16] = ROW(int, 16),
    [GLOO_INT32] = ROW(int, 32),
    [GLOO_INT64] = ROW(int, 64),
    [GLOO_UINT8] = ROW(uint, 8),
    [GLOO_UINT16] = ROW(uint, 16),
    [GLOO_UINT32] = ROW(uint, 32),
    [GLOO_UINT64] = ROW(uint, 64),
    [GLOO_BOOL] =
        {
            [GLOO_MIN] = GLI_ENTRY(land_8),
            [GLOO_MAX] = GLI_ENTRY(lor_8),
            [GLOO_BAND] = GLI_ENTRY(land_8),
            [GLOO_BOR] = GLI_ENTRY(lor_8),
            [GLOO_BXOR] = GLI_ENTRY(lxor_8),
            [GLOO_LAND] = GLI_ENTRY(land_8),
            [GLOO_LOR] = GLI_ENTRY(lor_8),
            [GLOO_LXOR] = GLI_ENTRY(lxor_8),
        },
}};
