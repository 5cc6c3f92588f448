/* The in-process transport: ranks are threads (or parts of threads) of one
 * process. For unit tests on a laptop.
 *
 * An end point is one gli_transport. A link joins two end points for one pair
 * of ranks and has two sides, one per rank; a side is what the engine knows as
 * a gli_pair. Every side has a queue of messages that are on their way to it.
 *
 * Small payloads are copied into a node of the link. For others the engine's
 * send request itself is queued: the receiver copies or reduces straight from
 * the sender's payload and hands the request back through the sender's `done`
 * list. When a side is closed, requests that must still be delivered are
 * replaced by copies. So all that was taken is in the hands of the link, and
 * with it of the peer: a side owes nothing.
 *
 * There are no rkeys (transport.h: rkey_pack and rkey_map): the
 * receiver could be in the middle of a buffer that its owner frees, and
 * payloads are read in place as it is.
 *
 * Locks, in this order: the table's (end points and offers), a link's, an end
 * point's. No lock is held during an upcall or while a payload is copied;
 * `reading` keeps the sender from closing meanwhile. */
#ifndef GLI_TRANSPORT_INPROC_INPROC_H
#define GLI_TRANSPORT_INPROC_INPROC_H

#include <stdatomic.h>
#include <uv.h>

#include "transport/request.h"

extern const gli_transport_ops gli_transport_inproc;

#define GLI_INPROC_INLINE_BYTES ((uint64_t)512)
#define GLI_INPROC_NODES_MAX 64         /* per direction of a link */
#define GLI_INPROC_MESSAGES_PER_POLL 64 /* per side, so that all get a turn */

typedef struct gli_inproc_endpoint gli_inproc_endpoint;
typedef struct gli_inproc_link gli_inproc_link;
typedef struct gli_inproc_side gli_inproc_side;

/* ---- lists of requests -------------------------------------------------- */

/* What gli_send_request.private_ holds for a queued message. */
enum {
  GLI_INPROC_BORROWED, /* the engine's own request and payload */
  GLI_INPROC_POOLED,   /* a node of the link's pool */
  GLI_INPROC_COPIED    /* a node of its own, made when the sender closed */
};

/* ---- links -------------------------------------------------------------- */

typedef enum gli_inproc_failure {
  GLI_INPROC_NO_FAILURE,
  GLI_INPROC_FOREIGN,  /* the address is of another process */
  GLI_INPROC_ABSENT,   /* no such end point (any more) */
  GLI_INPROC_REFUSED,  /* accept returned NULL */
  GLI_INPROC_DROPPED,  /* closed without BYE or ABORT */
  GLI_INPROC_EXHAUSTED /* no memory for what the peer left behind */
} gli_inproc_failure;

/* `attached`, `closed` and `stopped` are written by the side's own thread under
 * the link's lock: that thread may read them without. The `ready` fields belong
 * to the end point's lock, all others below `user` to the link's. */
struct gli_inproc_side {
  gli_pair pair;
  gli_inproc_link *link;
  gli_inproc_endpoint *endpoint;
  uint32_t rank;
  uint64_t key; /* what the other side must present */
  void *user;
  bool attached; /* pair_open has been called for it */
  bool closed;   /* pair_close has, or it will never be attached */
  bool stopped;  /* no more upcalls: header refused, or failure reported */
  bool begun;    /* the head of `queue` has had its header upcall */
  bool reading;  /* this side is reading the head's payload right now */
  gli_inproc_failure failure;
  gli_request_queue queue; /* messages for this side */
  gli_request_queue done;  /* requests of this side that were delivered */
  gli_send_request *spare; /* free nodes for messages to this side */
  int nodes;               /* how many nodes exist for it */
  bool ready;              /* in the end point's list */
  gli_inproc_side *ready_next;
};

/* Counted references: one for each attached and not closed side, one for each
 * side that is in a ready list, one while it is an offer. */
struct gli_inproc_link {
  uv_mutex_t lock;
  uv_cond_t read; /* a side has stopped reading */
  atomic_uint rkeys;
  gli_inproc_side sides[2]; /* [0] opened it first */
  uint64_t from;            /* id of side 0's end point, which may be gone */
  bool offered;             /* waits for side 1; the table's lock */
  gli_inproc_link *offer_next;
};

gli_inproc_side *gli_inproc_other_side(gli_inproc_side *side);
void gli_inproc_link_unref(gli_inproc_link *link);

gloo_status gli_inproc_pair_open(gli_transport *t,
                                 const gli_pair_config *config, gli_pair **pair,
                                 gloo_error *error);
gli_post gli_inproc_send(gli_pair *pair, gli_send_request *request);
void gli_inproc_pair_close(gli_pair *pair, const gli_send_request *last);
void gli_inproc_pair_abandon(gli_pair *pair);

/* Give a side, taken off its end point's ready list, its turn. Returns how many
 * things happened. */
int gli_inproc_side_poll(gli_inproc_side *side);

/* The end point of `link`'s side 1 will not open it: tell side 0. The caller
 * holds the table's lock and has taken the offer off its list. */
void gli_inproc_link_refuse(gli_inproc_link *link, gli_inproc_failure why);

/* ---- end points --------------------------------------------------------- */

struct gli_inproc_endpoint {
  gli_transport transport;
  gli_upcalls upcalls;
  void *device_user;
  uint64_t id;
  gli_inproc_endpoint *next; /* in the table */
  gli_inproc_link *offers;   /* links that wait for this end point to open
                                its side; the table's lock */
  uv_mutex_t lock;
  uv_cond_t wakeup;
  atomic_bool attention; /* the ready list is not empty */
  gli_inproc_side *ready_head, *ready_tail;
  int n_ready;
  int n_later; /* of those: only to be asked again */
  int sleepers;
  bool woken; /* the next sleeper returns at once */
  uint64_t wake_count;
};

/* Put a side that something happened to on its end point's ready list. The
 * caller holds the link's lock, and the side is not closed. */
void gli_inproc_mark_ready(gli_inproc_side *side);

void gli_inproc_table_lock(void);
void gli_inproc_table_unlock(void);

/* The id that an address holds; 0 when it is of another process. */
uint64_t gli_inproc_address_id(const gli_address *address);

/* The end point with this id, or NULL. With the table locked. */
gli_inproc_endpoint *gli_inproc_find(uint64_t id);

#endif
