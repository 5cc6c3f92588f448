/* Memory and queues that the pairs of an end point share, so that locked memory
 * grows with the frames on their way and not with the number of pairs.
 *
 * Slots of registered memory hold frames that arrive and frames that are sent.
 * Received frames come into buffers of a shared receive queue (SRQ). Credits
 * bound what each peer may send. Their sum may exceed the buffers: then devices
 * retry, without end (RNR_RETRIES), until this rank polls. The device reports
 * that buffers run low, and the queue grows. If the device has no SRQ, each
 * pair posts buffers of its own. */
#ifndef GLI_TRANSPORT_IBV_IBV_SHARED_H
#define GLI_TRANSPORT_IBV_IBV_SHARED_H

#include <stdbool.h>

#include "transport_ibv/verbs.h"

struct gli_ibv;
struct gli_ibv_pair;

enum {
  GLI_IBV_REFILL = 4,       /* buffers that are posted at once */
  GLI_IBV_BLOCK = 32,       /* slots that are registered at once */
  GLI_IBV_NUMBERS = 1 << 10 /* lists of queue pairs, by their number */
};

typedef struct gli_ibv_slot {
  struct gli_ibv_slot *next;
  struct gli_ibv_pair *pair; /* sender of the frame in it; NULL if unknown */
  uint8_t *memory;
  uint32_t lkey;
} gli_ibv_slot;

/* Buffers whose frames are handled, to be posted again. */
typedef struct gli_ibv_refill {
  gli_ibv_slot *slot[GLI_IBV_REFILL];
  uint32_t n;
} gli_ibv_refill;

typedef struct gli_ibv_shared {
  struct gli_ibv_block *blocks;
  gli_ibv_slot *free;
  uint32_t n_pairs;  /* pairs that have a share */
  uint32_t n_unused; /* pairs with a share that fell back to TCP */
  struct ibv_srq *srq;
  uint32_t buffers; /* size of the SRQ */
  gli_ibv_refill refill;
  uint32_t sending;             /* slots of sends */
  uint32_t extra, extra_max;    /* slots beyond one per pair */
  bool freed;                   /* slots of sends, since pairs began to wait */
  struct gli_ibv_pair *waiting; /* pairs that lack a slot, the latest first */
  struct gli_ibv_pair *by_number[GLI_IBV_NUMBERS];
} gli_ibv_shared;

/* Reserves what the pair's queue pair needs. Returns NULL, or the missing part
 * with errno. */
const char *gli_ibv_share(struct gli_ibv_pair *pair);
/* Returns the pair's share, if it has one. No completion refers to the pair any
 * more. */
void gli_ibv_unshare(struct gli_ibv_pair *pair);
/* Returns the shares of pairs that stay with TCP. The completion queue is
 * empty. */
void gli_ibv_unshare_unused(struct gli_ibv *t);
/* Frees the slots' records, in a forked child. */
void gli_ibv_shared_abandon(struct gli_ibv *t);

/* Returns "locked memory" if that is why a call of verbs has failed (errno),
 * else `what`. */
const char *gli_ibv_lacks(const char *what);

/* Names the pair by the number of its queue pair. */
void gli_ibv_number(struct gli_ibv_pair *pair);
/* Returns the pair of a queue pair, or NULL. */
struct gli_ibv_pair *gli_ibv_find(const struct gli_ibv *t, uint32_t number);

/* Posts the buffers of a pair without SRQ. */
bool gli_ibv_post_own(struct gli_ibv_pair *pair);
/* Posts the buffers that wait, then lets this one wait, as gli_ibv_reuse does. */
bool gli_ibv_repost(struct gli_ibv *t, struct gli_ibv_pair *pair,
                    gli_ibv_slot *slot);
/* Adds buffers, of which few are left. */
void gli_ibv_buffers_low(struct gli_ibv *t);

/* Makes a slot available, or lets the pair wait for one (gli_ibv_slot_ready). */
bool gli_ibv_slot_make(struct gli_ibv_pair *pair);
/* Has poll make the pairs busy that wait for slots. */
void gli_ibv_slots_freed(struct gli_ibv *t);
/* Makes pairs busy that waited for slots. */
void gli_ibv_slots_wake(struct gli_ibv *t);
/* Returns true if sends must free their slots soon. */
static inline bool gli_ibv_slots_scarce(const gli_ibv_shared *s) {
  return s->sending >= GLI_IBV_BLOCK;
}

#endif
