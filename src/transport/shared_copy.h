/* Copies that two ranks make together (engine/memory/shared_copy.c): which
 * pieces are taken.
 *
 * The receiver writes `to` and what names the message, and then a new round to
 * `claimed`. From then on it takes pieces from the front, by adding to that
 * word, until none is left; the sender takes some from the back. The sender may
 * come too late, when the receiver is in another round, and is writing the rest
 * for it. So it looks first, and exchanges the word only for what it has seen:
 * an exchange that succeeds comes before the round's end, and what was read
 * before it belongs to the round. */
#ifndef GLI_TRANSPORT_SHARED_COPY_H
#define GLI_TRANSPORT_SHARED_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/header.h"

/* Of a pair, each way, at the same time: that of a message is known by its
 * slot. */
enum { GLI_SHARED_COPIES = 32 };

#define GLI_SHARED_COPY_COUNT UINT64_C(0xffff)

typedef struct gli_shared_copy {
  /* round << 32 | pieces from the back << 16 | pieces from the front */
  _Alignas(64) _Atomic uint64_t claimed;
  _Atomic uint64_t to;        /* an rkey to where it goes */
  _Atomic uint64_t operation; /* the message, as in its header */
  _Atomic uint32_t context, tag, slot;
} gli_shared_copy;

/* The receiver: it begins, for a message with such a header, but that the peer
 * knows `context`. */
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

/* The sender: is it about that message, as far as can be told before a piece is
 * claimed? */
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

/* The receiver: the first piece that neither side has yet, of `pieces`. False:
 * there is none. */
static inline bool gli_shared_copy_claim_front(gli_shared_copy *copy,
                                               uint32_t round, uint32_t pieces,
                                               uint32_t *piece) {
  uint64_t seen = atomic_fetch_add(&copy->claimed, 1);
  *piece = (uint32_t)(seen & GLI_SHARED_COPY_COUNT);
  uint32_t others = (uint32_t)(seen >> 16 & GLI_SHARED_COPY_COUNT);
  return seen >> 32 == round && *piece + others < pieces;
}

/* The sender: the last one, in the round in which `*seen` was read. */
static inline bool gli_shared_copy_claim_back(gli_shared_copy *copy,
                                              uint64_t *seen, uint32_t pieces,
                                              uint32_t *piece) {
  uint64_t round = *seen >> 32;
  /* Each failure is a piece that the other has got. */
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
