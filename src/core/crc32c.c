/* CRC32C by the processor's instruction, which takes eight bytes and has a
 * latency of three cycles. Long buffers are therefore processed as three
 * parallel lanes, which are joined afterwards (Gopal, Ozturk, Guilford et al.,
 * "Fast CRC computation for iSCSI polynomial using CRC32 instruction", Intel
 * 2011). Processors without the instruction use tables, eight bytes at a time
 * (Kounavis and Berry 2005). */
#include "core/crc32c.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "core/bytes.h"
#include "core/fork.h"

#if defined(__x86_64__)
#define HAVE_INSTRUCTION
#elif defined(__aarch64__) && GLI_LINUX && \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <sys/auxv.h>
#define HAVE_INSTRUCTION
#endif

/* Bit 0 of a polynomial is the coefficient of x^31. */
#define POLYNOMIAL UINT32_C(0x82f63b78)
#define ONE (UINT32_C(1) << 31)

enum { SLICES = 8 };
enum { LANES = 3, LONG_LANE = 4096, SHORT_LANE = 256 };

/* Remainders after appending zero bytes. slices[k][b] is the remainder `b`
 * after k + 1 zero bytes; long_shift[i][b] is a remainder with byte i equal to
 * `b` after LONG_LANE zero bytes (short_shift: SHORT_LANE). */
static struct {
  uint32_t slices[SLICES][256];
  uint32_t long_shift[4][256], short_shift[4][256];
} tables;

/* ---- tables -------------------------------------------------------------- */

static uint32_t times_x(uint32_t a) {
  return a & 1 ? (a >> 1) ^ POLYNOMIAL : a >> 1;
}

static uint32_t crc32c_multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1, b = times_x(b))
    if ((a & ONE) != 0) product ^= b;
  return product;
}

static void fill_shift(uint32_t shift[4][256], size_t bytes) {
  uint32_t power = ONE;
  for (size_t i = 0; i < 8 * bytes; i++) power = times_x(power);
  for (int i = 0; i < 4; i++)
    for (uint32_t b = 0; b < 256; b++)
      shift[i][b] = crc32c_multiply(power, b << (8 * i));
}

static void fill_tables(void) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t r = b;
    for (int k = 0; k < SLICES; k++) {
      for (int bit = 0; bit < 8; bit++) r = times_x(r);
      tables.slices[k][b] = r;
    }
  }
  fill_shift(tables.long_shift, LONG_LANE);
  fill_shift(tables.short_shift, SHORT_LANE);
}

/* ---- on any processor ---------------------------------------------------- */

static uint32_t with_tables(uint32_t before, const void *data, size_t bytes) {
  const uint8_t *at = data;
  uint32_t r = ~before;
  for (; bytes >= SLICES; bytes -= SLICES, at += SLICES) {
    uint32_t low = r ^ gli_get_u32(at), high = gli_get_u32(at + 4);
    r = 0;
    for (int i = 0; i < 4; i++) {
      r ^= tables.slices[7 - i][low >> (8 * i) & 255];
      r ^= tables.slices[3 - i][high >> (8 * i) & 255];
    }
  }
  for (; bytes > 0; bytes--, at++)
    r = tables.slices[0][(r ^ *at) & 255] ^ (r >> 8);
  return ~r;
}

/* ---- with the instruction ------------------------------------------------ */

#if defined(HAVE_INSTRUCTION)

/* Inline assembly, so that other code does not require the instruction. */
static inline uint64_t add_word(uint64_t r, const uint8_t *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
#if defined(__x86_64__)
  __asm__("crc32q %1, %0" : "+r"(r) : "r"(word));
#else
  __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %1" : "+r"(r) : "r"(word));
#endif
  return r;
}

static inline uint64_t add_byte(uint64_t r, uint8_t byte) {
#if defined(__x86_64__)
  __asm__("crc32b %1, %0" : "+r"(r) : "r"(byte));
#else
  __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"
          : "+r"(r)
          : "r"((uint32_t)byte));
#endif
  return r;
}

static uint64_t crc32c_shifted(uint32_t shift[4][256], uint64_t r) {
  return shift[0][r & 255] ^ shift[1][r >> 8 & 255] ^ shift[2][r >> 16 & 255] ^
         shift[3][r >> 24 & 255];
}

static uint64_t add_lanes(uint64_t r, const uint8_t *at, size_t lane,
                          uint32_t shift[4][256]) {
  uint64_t second = 0, third = 0;
  for (size_t i = 0; i < lane; i += 8) {
    r = add_word(r, at + i);
    second = add_word(second, at + lane + i);
    third = add_word(third, at + 2 * lane + i);
  }
  return crc32c_shifted(shift, crc32c_shifted(shift, r) ^ second) ^ third;
}

static uint32_t with_instruction(uint32_t before, const void *data,
                                 size_t bytes) {
  static const size_t long_bytes = (size_t)LANES * LONG_LANE;
  static const size_t short_bytes = (size_t)LANES * SHORT_LANE;
  const uint8_t *at = data;
  uint64_t r = (uint32_t)~before;
  for (; bytes >= long_bytes; bytes -= long_bytes, at += long_bytes)
    r = add_lanes(r, at, LONG_LANE, tables.long_shift);
  for (; bytes >= short_bytes; bytes -= short_bytes, at += short_bytes)
    r = add_lanes(r, at, SHORT_LANE, tables.short_shift);
  for (; bytes >= 8; bytes -= 8, at += 8) r = add_word(r, at);
  for (; bytes > 0; bytes--, at++) r = add_byte(r, *at);
  return ~(uint32_t)r;
}

static bool has_instruction(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0;
#else
  enum { CRC32_BIT = 7 }; /* HWCAP_CRC32 */
  return (getauxval(AT_HWCAP) >> CRC32_BIT & 1) != 0;
#endif
}

#endif

/* ---- choosing ------------------------------------------------------------ */

static gli_crc32c_way ways[2];
static size_t n_ways;
static atomic_bool once;

static void find_ways(void) {
  fill_tables();
#if defined(HAVE_INSTRUCTION)
  if (has_instruction())
    ways[n_ways++] = (gli_crc32c_way){"instruction", with_instruction};
#endif
  ways[n_ways++] = (gli_crc32c_way){"tables", with_tables};
}

const gli_crc32c_way *gli_crc32c_way_at(size_t i) {
  gli_once(&once, find_ways);
  return i < n_ways ? &ways[i] : NULL;
}

uint32_t gli_crc32c(uint32_t before, const void *data, size_t bytes) {
  static _Atomic(const gli_crc32c_way *) best;
  const gli_crc32c_way *way = atomic_load_explicit(&best, memory_order_acquire);
  if (way == NULL) {
    way = gli_crc32c_way_at(0);
    atomic_store_explicit(&best, way, memory_order_release);
  }
  return way->compute(before, data, bytes);
}
