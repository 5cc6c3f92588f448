/* Combination of many operands into many destinations. One fused loop handles
 * two sources with up to two destinations. All other cases work block by block,
 * so that intermediate results stay in the first-level cache, and every input
 * is read and every output written once. */
#include <stdalign.h>

#include "kernels/copy.h"
#include "kernels/reduce_kernel.h"

/* Block sizes: BLOCK_BYTES of intermediate results if all operands together
 * have at most CACHED_BYTES, else SHORT_BLOCK_BYTES of elements. Long blocks
 * need the fewest calls. If operands come from memory or from a cache that
 * cores share, short blocks keep more loads in flight: with eight sources of 4
 * MiB they are twice as fast. */
#define BLOCK_BYTES ((size_t)4096)
#define SHORT_BLOCK_BYTES ((size_t)512)
#define CACHED_BYTES ((size_t)2 << 20)

_Static_assert(BLOCK_BYTES / sizeof(float) <= GLI_WIDE_BLOCK &&
                   SHORT_BLOCK_BYTES <= GLI_WIDE_BLOCK,
               "blocks to combine must have the same length");

#define FOUR(x) x, x, x, x
#define BLOCK_OF(x) FOUR(FOUR(FOUR(FOUR(FOUR(x)))))
const uint16_t gli_nothing16[GLI_WIDE_BLOCK] = {BLOCK_OF(0x8000)};
const uint8_t gli_nothing8[GLI_WIDE_BLOCK] = {BLOCK_OF(0x80)};

typedef struct job {
  const gli_combine_parts *parts;
  void *const *dsts;
  const void *const *srcs;
  size_t n_dsts, n_srcs;
  uint64_t streamed; /* bit k: dsts[k] is written around the caches */
} job;

static void *in_dst(const job *j, size_t k, size_t skip) {
  return (unsigned char *)j->dsts[k] + skip;
}

static const void *in_src(const job *j, size_t k, size_t skip) {
  return (const unsigned char *)j->srcs[k] + skip;
}

/* Returns the wanted destinations that are not sources as well: memory that has
 * just been read is in the caches, where ordinary stores are much faster. */
static uint64_t find_streamed(const job *j, uint64_t wanted) {
  uint64_t streamed = 0;
  for (size_t k = 0; k < j->n_dsts && k < 64; k++) {
    bool read = false;
    for (size_t s = 0; s < j->n_srcs; s++) read |= j->srcs[s] == j->dsts[k];
    if (!read) streamed |= UINT64_C(1) << k;
  }
  return streamed & wanted;
}

static bool is_streamed(const job *j, size_t k) {
  return k < 64 && (j->streamed >> k & 1) != 0;
}

static void reduce_combine_distribute(const job *j, const void *from,
                                      size_t skip, size_t bytes) {
  for (size_t k = 0; k < j->n_dsts; k++) {
    void *dst = in_dst(j, k, skip);
    if (dst == from) continue;
    if (is_streamed(j, k)) {
      gli_copy_nontemporal_unfenced(dst, from, bytes);
    } else {
      gli_copy_bytes(dst, from, bytes);
    }
  }
}

/* Combines `count` elements, which begin `skip` bytes into all sources. `dst`
 * may be one of the sources. */
static void combine_block(const job *j, void *dst, size_t skip, size_t count) {
  alignas(64) unsigned char wide[BLOCK_BYTES];
  const gli_combine_parts *parts = j->parts;
  const void *first = in_src(j, 0, skip), *second = in_src(j, 1, skip);
  if (j->n_srcs == 2) {
    parts->both(dst, first, second, count);
    return;
  }
  parts->begin(wide, first, second, count);
  for (size_t s = 2; s < j->n_srcs - 1; s++) {
    parts->step(wide, wide, in_src(j, s, skip), count);
  }
  const void *last = in_src(j, j->n_srcs - 1, skip);
  if (parts->divide != NULL) {
    parts->step(wide, wide, last, count);
    parts->divide(wide, count, (float)j->n_srcs / 2);
    last = parts->nothing != NULL ? parts->nothing : wide;
  }
  parts->finish(dst, wide, last, count);
}

/* Returns the number of elements before a destination's next cache line. */
static size_t head_of(const job *j, size_t k) {
  size_t bytes = (size_t)(-(uintptr_t)j->dsts[k] % GLI_FUSED_BYTES);
  return bytes / j->parts->element_bytes;
}

static size_t reduce_combine_block_of(const job *j, size_t count) {
  size_t most = CACHED_BYTES / j->parts->element_bytes;
  bool cached = count <= most / (j->n_srcs + j->n_dsts);
  return cached ? BLOCK_BYTES / j->parts->wide_bytes
                : SHORT_BLOCK_BYTES / j->parts->element_bytes;
}

static void combine_blocks(const job *j, size_t count) {
  alignas(64) unsigned char result[BLOCK_BYTES];
  size_t block = reduce_combine_block_of(j, count);
  size_t head = j->streamed != 0 ? head_of(j, 0) : 0;
  size_t direct = 0; /* the first destination that is stored normally */
  while (direct < j->n_dsts && is_streamed(j, direct)) direct++;
  for (size_t done = 0, n; done < count; done += n) {
    size_t skip = done * j->parts->element_bytes;
    n = done == 0 && head > 0 ? head : block;
    if (n > count - done) n = count - done;
    void *at = direct < j->n_dsts ? in_dst(j, direct, skip) : result;
    if (j->n_srcs > 1) combine_block(j, at, skip, n);
    reduce_combine_distribute(j, j->n_srcs > 1 ? at : in_src(j, 0, skip), skip,
                              n * j->parts->element_bytes);
  }
}

/* Combines elements before or after the range of the fused loop. */
static void combine_rest(const job *j, size_t skip, size_t count) {
  alignas(64) unsigned char result[GLI_FUSED_BYTES];
  j->parts->both(result, in_src(j, 0, skip), in_src(j, 1, skip), count);
  for (size_t k = 0; k < j->n_dsts; k++) {
    memcpy(in_dst(j, k, skip), result, count * j->parts->element_bytes);
  }
}

static gli_fused_mode mode_of(const job *j) {
  if (j->n_dsts == 1) return GLI_STREAM_ONE;
  if (j->streamed == 0) return GLI_STORE_TWO;
  return j->streamed == 3 ? GLI_STREAM_TWO : GLI_STORE_STREAM;
}

/* Runs the fused loop. Returns false if it does not apply: it requires two
 * sources, one or two destinations, and the same offset within a cache line if
 * both destinations are streamed. */
static bool combine_fused(const job *j, size_t count) {
  size_t bytes = j->parts->element_bytes, head = 0;
  if (j->parts->fused == NULL || j->n_srcs != 2 || j->n_dsts > 2) return false;
  gli_fused_mode mode = mode_of(j);
  size_t last = j->streamed == 1 ? 0 : j->n_dsts - 1; /* streamed if any is */
  size_t first = j->n_dsts - 1 - last;
  if (j->streamed != 0) head = head_of(j, last);
  for (size_t k = 0; k < j->n_dsts; k++) {
    uintptr_t at = (uintptr_t)in_dst(j, k, head * bytes);
    if (is_streamed(j, k) && at % GLI_FUSED_BYTES != 0) return false;
  }
  if (head > count) head = count;
  size_t skip = head * bytes;
  size_t tail = (count - head) % (GLI_FUSED_BYTES / bytes);
  size_t middle = (count - head - tail) * bytes;
  combine_rest(j, 0, head);
  j->parts->fused(in_dst(j, first, skip), in_dst(j, last, skip),
                  in_src(j, 0, skip), in_src(j, 1, skip), middle, mode);
  combine_rest(j, skip + middle, tail);
  return true;
}

void gli_combine(const gli_combine_parts *parts, void *const *dsts,
                 size_t n_dsts, const void *const *srcs, size_t n_srcs,
                 size_t count, uint64_t streamed) {
  job j = {parts, dsts, srcs, n_dsts, n_srcs, 0};
  if (streamed != 0) j.streamed = find_streamed(&j, streamed);
  if (n_srcs == 2 && n_dsts == 1 && j.streamed == 0) {
    parts->both(dsts[0], srcs[0], srcs[1], count);
    return;
  }
  if (!combine_fused(&j, count)) combine_blocks(&j, count);
  if (j.streamed != 0) gli_nontemporal_fence();
}
