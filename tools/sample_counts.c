#include "tools/sample_counts.h"

#include <stdlib.h>

typedef struct sample {
  gli_collective collective;
  uint32_t size, root;
  uint64_t most, seed;
  bool gaps, in_place;
} sample;

/* Mixes two numbers (splitmix64, Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* Returns the elements that one rank sends to another. In place, two ranks send
 * each other equal amounts. */
static uint64_t between(const sample *s, uint32_t from, uint32_t to) {
  if (s->seed == 0) return s->most;
  if (s->in_place && from > to) return between(s, to, from);
  uint64_t drawn = mix(s->seed, (uint64_t)from << 32 | to);
  return drawn % 4 == 0 ? 0 : drawn / 4 % (s->most + 1);
}

static uint64_t block_of(const sample *s, uint32_t rank) {
  return between(s, rank, rank);
}

static uint64_t length(const sample *s, bool input, uint32_t rank, uint32_t k) {
  if (s->collective != GLI_ALLTOALLV) return block_of(s, k);
  return input ? between(s, rank, k) : between(s, k, rank);
}

/* Sets the offsets of blocks: in ascending order, or in descending order and
 * two elements apart. */
static void place(const uint64_t *lengths, uint64_t *first, uint32_t size,
                  bool gaps) {
  uint64_t at = gaps ? 1 : 0;
  for (uint32_t i = 0; i < size; i++) {
    uint32_t k = gaps ? size - 1 - i : i;
    first[k] = at;
    at += lengths[k] + (gaps ? 2 : 0);
  }
}

static void fill(const sample *s, bool input, uint32_t rank, bool gaps,
                 uint64_t *lengths, uint64_t *first) {
  for (uint32_t k = 0; k < s->size; k++) {
    lengths[k] = length(s, input, rank, k);
  }
  place(lengths, first, s->size, gaps);
}

static void set_rank(const sample *s, uint32_t rank, gli_counts *c,
                     uint64_t *numbers) {
  gli_collective v = s->collective;
  bool root = rank == s->root;
  bool in = v == GLI_REDUCE_SCATTERV || v == GLI_ALLTOALLV ||
            (v == GLI_SCATTERV && root);
  bool out =
      v == GLI_ALLGATHERV || v == GLI_ALLTOALLV || (v == GLI_GATHERV && root);
  bool may_gap = s->gaps && v != GLI_REDUCE_SCATTERV;
  *c = (gli_counts){.own = block_of(s, rank), .packed = !may_gap};
  if (in) {
    fill(s, true, rank, may_gap, numbers, numbers + s->size);
    c->in = numbers;
    c->in_first = numbers + s->size;
  }
  if (out) {
    uint64_t *lengths = numbers + (size_t)2 * s->size;
    fill(s, false, rank, may_gap, lengths, lengths + s->size);
    c->out = lengths;
    c->out_first = lengths + s->size;
  }
}

bool gli_sample_counts_make(gli_sample_counts *made, gli_collective collective,
                            uint32_t size, uint32_t root, uint64_t most,
                            uint64_t seed, bool gaps, bool in_place) {
  sample s = {collective, size, root, most, seed, gaps, in_place};
  made->of = calloc(size, sizeof *made->of);
  made->numbers = calloc((size_t)size * size, 4 * sizeof *made->numbers);
  made->count = 0;
  if (made->of == NULL || made->numbers == NULL) {
    gli_sample_counts_free(made);
    return false;
  }
  for (uint32_t rank = 0; rank < size; rank++) {
    set_rank(&s, rank, &made->of[rank],
             made->numbers + (size_t)4 * size * rank);
    if (!gli_collective_pairwise(collective)) made->count += block_of(&s, rank);
  }
  return true;
}

void gli_sample_counts_free(gli_sample_counts *made) {
  free(made->of);
  free(made->numbers);
  *made = (gli_sample_counts){0};
}
