/* Recovery from failed ranks: the agreement on the remaining ranks
 * (membership.h) among the ranks of a context that failed, and their new
 * context, the successor.
 *
 * The agreement runs in a separate context, the council, of all ranks of the
 * failed one, which listen where they did: so it needs only the device, and no
 * store. Its connections fail one by one, and it carries no operations. The
 * keys that ranks present to connect to it, and to the successor, are derived
 * from the keys that they know of each other. A rank that has not called yet
 * answers that the council will come, and the others wait.
 *
 * A council that has ended has no connections, but lives as long as the
 * successor, to tell late ranks that they have been left out.
 *
 * All functions are called with the device's lock held. */
#ifndef GLI_ENGINE_FAILURE_COUNCIL_H
#define GLI_ENGINE_FAILURE_COUNCIL_H

#include "engine/failure/membership.h"
#include "engine/state/context.h"

/* A successor that was proposed. */
typedef struct gli_successor {
  uint64_t ballot;
  gloo_context *context;
  struct gli_successor *next;
} gli_successor;

/* The state of another rank in the agreement. */
typedef struct gli_shrink_rank {
  bool came;         /* it has called as well */
  bool courted;      /* it may become leader, and was asked for a sign */
  uint64_t asked_ns; /* start of the wait for it; 0 if not awaited */
  uint64_t sign_ns;  /* time of its last sign; 0 before the first */
  uint64_t signs;    /* last count of `heard`, see gli_transport_ops */
  uint64_t dialed_ns;
  unsigned tries; /* number of new attempts to connect */
  bool again;     /* another attempt is due */
} gli_shrink_rank;

struct gli_shrink {
  gloo_context *council;
  gli_membership members;
  bool over; /* decided or failed, which the caller waits for */
  bool quiet;
  gli_successor *successors;
  gloo_context *successor; /* the decided one, which the caller gets; NULL if
                              none */
  uint64_t origin_key;     /* key of the context that failed */
  uint32_t accused;        /* rank that its failure named; n if none */
  gli_shrink_rank *ranks;  /* [n] */
  uint64_t begun_ns, patience_ns, silence_ns, looked_ns, ping_ns, due_ns;
  gli_shrink *next; /* next agreement of the same context */
};

/* Begins the agreement on a successor of `failed`. `patience_ns` is the time
 * for ranks that are alive and do not call. `failed` keeps the agreement until
 * it is handed over. NULL with `error`. */
gli_shrink *gli_shrink_begin(gloo_context *failed, uint64_t patience_ns,
                             gloo_error *error);
/* Hands over the agreements that `from` keeps to its successor. */
void gli_shrink_hand_over(gloo_context *from, gloo_context *to);

/* The events of a council: a message (a byte per rank), a lost link, its
 * turn. */
void gli_shrink_arrived(gli_link *link, const gli_header *header,
                        const uint8_t *ranks);
void gli_shrink_lost(gli_link *link, const char *why);
void gli_shrink_turn(gloo_context *council, uint64_t now_ns);
static inline uint64_t gli_shrink_due(const gloo_context *context) {
  const gli_shrink *s = context->shrink;
  if (s == NULL) return UINT64_MAX;
  return gli_context_poisoned(context) && !s->over ? 0 : s->due_ns;
}

/* ---- within the agreement (council.c, for council_watch.c) --------------- */

/* The time that a rank that becomes leader after the deadline gives the others,
 * and the least silence after which a rank is missed. */
#define GLI_SHRINK_GRACE_NS UINT64_C(1000000000)

/* Sends a message of the agreement; `user` is the gli_shrink. */
void gli_shrink_send(void *user, uint32_t to, gli_member_message message);
/* Ends the agreement, after any event, if it is complete. */
void gli_shrink_settle(gli_shrink *s);
/* Closes the connections of an agreement that has ended. Messages to a rank
 * that has never answered are dropped: they would be outdated when it wakes. */
void gli_shrink_be_quiet(gli_shrink *s);

/* Returns true if this is the key of a council that this rank has not joined
 * yet. */
bool gli_shrink_is_to_come(const gloo_device *device, uint64_t key);

#endif
