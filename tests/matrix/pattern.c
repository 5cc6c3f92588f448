/* The elements follow a stretch of a long random row of places, with another
 * random start every STRETCH elements. For a long buffer the row is written out
 * once with the values, small enough for a cache; the buffer is then filled by
 * copying from it, and checked by comparing with it. */
#include "pattern.h"

#include <string.h>

#include "reference.h"

enum {
  STRETCH = 1 << 12,
  ROW = 2 * STRETCH,
  LONG = 2 * ROW, /* elements from which the written-out row pays off */
  PIECE = 256     /* else */
};

static uint8_t long_row[ROW];

void pattern_prepare(void) {
  for (size_t k = 0; k < ROW; k++) {
    long_row[k] = (uint8_t)(reference_mix(1, k) % PATTERN_PLACES);
  }
}

/* Returns the index of element i in the long row. */
static size_t position(uint64_t key, size_t i) {
  return reference_mix(key, i / STRETCH) % STRETCH + i % STRETCH;
}

size_t pattern_place(uint64_t key, size_t i) {
  return long_row[position(key, i)];
}

/* ---- writing out --------------------------------------------------------- */

static inline void spread(uint8_t *to, const uint8_t *from, size_t size,
                          const uint8_t *places, size_t n) {
  for (size_t i = 0; i < n; i++) {
    memcpy(to + i * size, from + places[i] * size, size);
  }
}

/* A separate function so that the compiler specializes it for a constant
 * size. */
static void spread_any(uint8_t *to, const uint8_t *from, size_t size,
                       const uint8_t *places, size_t n) {
  switch (size) {
    case 1:
      spread(to, from, 1, places, n);
      break;
    case 2:
      spread(to, from, 2, places, n);
      break;
    case 4:
      spread(to, from, 4, places, n);
      break;
    case 8:
      spread(to, from, 8, places, n);
      break;
    case 16:
      spread(to, from, 16, places, n);
      break;
    default:
      spread(to, from, size, places, n);
  }
}

/* Returns the long row, written out, or NULL for a short buffer. The memory is
 * the calling thread's, valid until its next call. */
static const uint8_t *written_out(const uint8_t *row, size_t size, size_t n) {
  static _Thread_local uint8_t values[ROW * REFERENCE_MOST_BYTES];
  if (n < LONG) return NULL;
  spread_any(values, row, size, long_row, ROW);
  return values;
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

void pattern_fill(const uint8_t *row, size_t size, uint64_t key, size_t n,
                  uint8_t *to) {
  const uint8_t *values = written_out(row, size, n);
  for (size_t i = 0; i < n; i += STRETCH) {
    size_t now = smaller(n - i, STRETCH), at = position(key, i);
    if (values) {
      memcpy(to + i * size, values + at * size, now * size);
    } else {
      spread_any(to + i * size, row, size, long_row + at, now);
    }
  }
}

/* ---- checking ------------------------------------------------------------ */

static size_t find_other(const uint8_t *is, const uint8_t *want, size_t size,
                         size_t n) {
  if (memcmp(is, want, n * size) == 0) return n;
  size_t i = 0;
  while (memcmp(is + i * size, want + i * size, size) == 0) i++;
  return i;
}

size_t pattern_check(const uint8_t *row, size_t size, uint64_t key, size_t from,
                     size_t n, const uint8_t *is) {
  const uint8_t *values = written_out(row, size, n);
  uint8_t piece[PIECE * REFERENCE_MOST_BYTES];
  size_t now = 0;
  for (size_t i = 0; i < n; i += now) {
    size_t at = position(key, from + i);
    const uint8_t *want = values ? values + at * size : piece;
    now = smaller(n - i, STRETCH - (from + i) % STRETCH);
    if (!values) {
      now = smaller(now, PIECE);
      spread_any(piece, row, size, long_row + at, now);
    }
    size_t wrong = find_other(is + i * size, want, size, now);
    if (wrong < now) return i + wrong;
  }
  return n;
}
