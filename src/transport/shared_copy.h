/* Shared copies, which two ranks make together (engine/memory/shared_copy.c):
 * the pieces that each has claimed.
 *
 * The receiver writes `to` and the name of the message, and then a new round to
 * `claimed`. From then on it claims pieces from the front, by adding to that
 * word, until none is left; the sender claims pieces from the back. The sender
 * may be late, when the receiver is in another round, and writes the other
 * fields for it. So the sender reads first, and exchanges the word only for the
 * value that it has seen: an exchange that succeeds comes before the round's
 * end, and what was read before it belongs to the round. */
#ifndef GLI_TRANSPORT_SHARED_COPY_H
#define GLI_TRANSPORT_SHARED_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/header.h"

/* The number of copies of a pair at the same time, each way. The slot of a
 * message gives its index. */
enum { GLI_SHARED_COPIES = 32 };

#define GLI_SHARED_COPY_COUNT UINT64_C(0xffff)

typedef struct gli_shared_copy {
  /* round << 32 | pieces from the back << 16 | pieces from the front */
  _Alignas(64) _Atomic uint64_t claimed;
  _Atomic uint64_t to;        /* rkey of the destination */
  _Atomic uint64_t operation; /* name of the message, as in its header */
  _Atomic uint32_t context, tag, slot;
} gli_shared_copy;

/* Begins a copy at the receiver. `h` is the header of the message, except that
 * `context` is its number at the peer. */
static inline void gli_shared_copy_begin(gli_shared_copy *copy, uint32_t round,
                                         uint64_t to, const gli_header *h,
                                         uint32_t context, uint32_t slot) {
  atomic_store_explicit(&copy->to, to, memory_order_relaxed);
  atomic_store_explicit(&copy->operation, h->operation, memory_order_relaxed);
  atomic_store_explicit(&copy->context, context, memory_order_relaxed);
  atomic_store_explicit(&copy->tag, h->tag, memory_order_relaxed);
  atomic_store_explicit(&copy->slot, slot, memory_order_relaxed);
  atomic_store(&copy->claimed, (uint64_t)round << 32);
}

/* Returns true at the sender if the copy is about this message, as far as is
 * known before a piece is claimed. */
static inline bool gli_shared_copy_is_about(gli_shared_copy *copy,
                                            const gli_header *h, uint64_t *seen,
                                            uint64_t *to) {
  *seen = atomic_load(&copy->claimed);
  *to = atomic_load_explicit(&copy->to, memory_order_relaxed);
  return atomic_load_explicit(&copy->operation, memory_order_relaxed) ==
             h->operation &&
         atomic_load_explicit(&copy->context, memory_order_relaxed) ==
             h->context &&
         atomic_load_explicit(&copy->tag, memory_order_relaxed) == h->tag &&
         atomic_load_explicit(&copy->slot, memory_order_relaxed) == h->slot;
}

/* Claims the first free piece of `pieces`, at the receiver. Returns false if
 * there is none. */
static inline bool gli_shared_copy_claim_front(gli_shared_copy *copy,
                                               uint32_t round, uint32_t pieces,
                                               uint32_t *piece) {
  uint64_t seen = atomic_fetch_add(&copy->claimed, 1);
  *piece = (uint32_t)(seen & GLI_SHARED_COPY_COUNT);
  uint32_t others = (uint32_t)(seen >> 16 & GLI_SHARED_COPY_COUNT);
  return seen >> 32 == round && *piece + others < pieces;
}

/* Claims the last free piece, at the sender, in the round in which `*seen` was
 * read. */
static inline bool gli_shared_copy_claim_back(gli_shared_copy *copy,
                                              uint64_t *seen, uint32_t pieces,
                                              uint32_t *piece) {
  uint64_t round = *seen >> 32;
  /* Each failure is a piece that the receiver has claimed. */
  for (uint32_t i = 0; i <= pieces; i++) {
    uint32_t others = (uint32_t)(*seen & GLI_SHARED_COPY_COUNT);
    uint32_t mine = (uint32_t)(*seen >> 16 & GLI_SHARED_COPY_COUNT);
    if (*seen >> 32 != round || mine + others >= pieces) return false;
    *piece = pieces - 1 - mine;
    uint64_t next = *seen + (GLI_SHARED_COPY_COUNT + 1);
    if (atomic_compare_exchange_strong(&copy->claimed, seen, next)) {
      *seen = next;
      return true;
    }
  }
  return false;
}

#endif
