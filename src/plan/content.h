/* Symbolic content of a buffer, used by the checker.
 *
 * Every byte holds the combination of one byte of the inputs of a set of ranks:
 * the same byte, `source`, of each. Adjacent equal bytes form one piece. So do
 * blocks that differ by a constant from one to the next, as the blocks of an
 * allgather do (rank 0's, rank 1's, ...) and the blocks of a ring half way:
 * without that, 10,000 ranks would need 10,000 pieces each.
 *
 * A piece also records how the bytes were combined: the order, the largest
 * number of additions that an input went through, and how many of them stored
 * the result, which is where floats narrower than float32 are rounded. */
#ifndef GLI_PLAN_CONTENT_H
#define GLI_PLAN_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/builder.h"
#include "plan/ranks.h"

/* [start, end). With stride 0, byte x holds byte source + (x - start) of
 * `ranks`. Otherwise the piece is a series of blocks of `stride` bytes, of
 * which block j begins with byte source + j * source_step of the ranks {first +
 * j * first_step, n + j * n_step}, which took adds + j * adds_step additions
 * and stores + j * stores_step stores. */
typedef struct gli_piece {
  uint64_t start, end;
  uint64_t source;
  gli_ranks ranks;
  uint64_t stride, source_step;
  uint32_t first_step, n_step; /* modulo size; modulo 2^32 */
  gli_order order;             /* GLI_ORDER_FOLD for a single input */
  uint32_t adds, stores;
  uint32_t adds_step, stores_step; /* modulo 2^32 */
} gli_piece;

/* Pieces in ascending order, without overlaps; gaps are undefined. */
typedef struct gli_content {
  gli_piece *pieces;
  size_t n, capacity;
} gli_content;

void gli_content_free(gli_content *c);

/* Appends a piece behind the last, and joins pieces where possible. Returns
 * false if out of memory. `size` is the number of ranks. */
bool gli_content_append(gli_content *c, uint32_t size, gli_piece piece);

/* Copies [offset, offset + bytes) to `out` (which is emptied first), moved so
 * that it starts at 0. Gaps stay gaps. Returns false if out of memory. */
bool gli_content_read(const gli_content *c, uint32_t size, uint64_t offset,
                      uint64_t bytes, gli_content *out);

/* Returns the first byte below `bytes` that is in no piece, or `bytes`. */
uint64_t gli_content_first_gap(const gli_content *c, uint64_t bytes);

/* Writes `in`, covering [0, bytes), at `offset`; false if out of memory. */
bool gli_content_write(gli_content *c, uint32_t size, uint64_t offset,
                       uint64_t bytes, const gli_content *in);

/* The number of blocks of a piece, and one block as a piece with stride 0. */
uint64_t gli_piece_blocks(const gli_piece *p);
gli_piece gli_piece_block(const gli_piece *p, uint32_t size, uint64_t j);

#endif
