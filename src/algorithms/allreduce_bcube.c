/* Allreduce, bcube: halving and doubling in groups of more than two.
 *
 * Wins: between hosts, vectors of 16 to some 100 KiB on 16 hosts and more: as
 * few bytes as the ring, in fewer rounds than halving in two; three quarters of
 * halving's time by simulation on 16 to 1,000 hosts. For longer vectors on a
 * power of two of ranks halving is better, because messages sent at the same
 * time are added only when all have arrived. On one host it measured no better
 * than circulant.
 * Cost for P ranks and m bytes in groups of up to b: P is factored into numbers
 * up to b, and the rest into primes; for each factor r, two rounds in which
 * every rank sends r - 1 messages; in total 2 m (P-1)/P bytes. Every P works,
 * but a large prime factor is slow.
 * Source: Guo, Lu, Li, Wu, Zhang, Shi, Tian, Zhang, Lu, "BCube: A High
 * Performance, Server-centric Network Architecture for Modular Data Centers",
 * 2009 (the network); Gloo's allreduce of this name (the steps).
 *
 * The vector is cut into P parts. In each stage the ranks of a group hold the
 * same parts and divide them into one share per rank; a rank receives its share
 * from all others, adds it up and enters the next stage with it. Then the same
 * stages run backwards and copy. P = 4 in groups of 2, parts in hand:
 *
 *   rank     0         1         2         3
 *            0 1 2 3   0 1 2 3   0 1 2 3   0 1 2 3   0 with 1, 2 with 3
 *            0 1       2 3       0 1       2 3       0 with 2, 1 with 3
 *            0         2         1         3         and back
 */
#include "algorithms/radix.h"

static gli_radices bcube_radices(uint32_t size, uint32_t base) {
  uint32_t left = size;
  gli_radices r = gli_radices_up_to(base, &left);
  for (uint32_t prime = base + 1; prime <= left / prime; prime++) {
    for (; left % prime == 0; left /= prime) gli_radices_add(&r, prime);
  }
  if (left > 1) gli_radices_add(&r, left);
  return r;
}

/* A rank's state in a stage: its parts of the vector, its place in its group,
 * and the distance between ranks of the group. */
typedef struct stage {
  uint32_t radix, apart, digit;
  uint64_t first, share; /* first part of its group; parts in a share */
} stage;

static uint32_t bcube_member(const gli_plan_params *p, const stage *s,
                             uint32_t j) {
  return p->rank - s->digit * s->apart + j * s->apart;
}

static gli_range bcube_share(const gli_plan_params *p, const stage *s,
                             gli_buffer buffer, uint32_t j) {
  uint64_t first = s->first + j * s->share;
  return gli_parts(p, buffer, p->size, first, first + s->share);
}

/* Adds this rank's share outwards from its own input, to both sides, so that
 * operands keep the order of ranks. */
static void bcube_reduce_scatter(gli_builder *b, const gli_plan_params *p,
                                 const stage *s, gli_buffer held) {
  for (uint32_t k = 1; k < s->radix; k++) {
    uint32_t j = (s->digit + k) % s->radix;
    gli_send(b, bcube_member(p, s, j), bcube_share(p, s, held, j));
  }
  gli_range own = bcube_share(p, s, held, s->digit);
  gli_range sum = bcube_share(p, s, GLI_OUT, s->digit);
  for (uint32_t k = 1; k < s->radix; k++) {
    bool below = k <= s->digit;
    uint32_t j = below ? s->digit - k : k;
    gli_recv_reduce(b, bcube_member(p, s, j), own, sum, below);
    own = sum;
  }
}

static void bcube_allgather(gli_builder *b, const gli_plan_params *p,
                            const stage *s) {
  for (uint32_t k = 1; k < s->radix; k++)
    gli_send(b, bcube_member(p, s, (s->digit + k) % s->radix),
             bcube_share(p, s, GLI_OUT, s->digit));
  for (uint32_t k = 1; k < s->radix; k++) {
    uint32_t j = (s->digit + s->radix - k) % s->radix;
    gli_recv(b, bcube_member(p, s, j), bcube_share(p, s, GLI_OUT, j));
  }
}

static void bcube_build(gli_builder *b, const gli_plan_params *p,
                        uint32_t base) {
  gli_radices r = bcube_radices(p->size, base);
  stage stages[32];
  uint64_t first = 0, parts = p->size;
  uint32_t apart = 1;
  for (uint32_t i = 0; i < r.n; apart *= r.of[i++]) {
    stage *s = &stages[i];
    parts /= r.of[i];
    *s = (stage){r.of[i], apart, p->rank / apart % r.of[i], first, parts};
    first += s->digit * parts;
    bcube_reduce_scatter(b, p, s, i == 0 ? GLI_IN : GLI_OUT);
  }
  for (uint32_t i = r.n; i > 0; i--) bcube_allgather(b, p, &stages[i - 1]);
  if (p->size == 1) gli_copy(b, gli_own(p, GLI_IN), gli_own(p, GLI_OUT));
}

#define BCUBE(base)                                                           \
  uint32_t gli_allreduce_bcube_##base##_rounds(uint32_t size) {               \
    return 2 * bcube_radices(size, base).n;                                   \
  }                                                                           \
  uint64_t gli_allreduce_bcube_##base##_bytes(uint32_t size,                  \
                                              uint64_t vector) {              \
    return 2 * (vector - vector / size);                                      \
  }                                                                           \
  void gli_allreduce_bcube_##base(gli_builder *b, const gli_plan_params *p) { \
    bcube_build(b, p, base);                                                  \
  }
BCUBE(4)
BCUBE(8)
