/* In-process transport: the ranks are threads (or parts of threads) of one
 * process. It serves unit tests.
 *
 * An end point is one gli_transport. A link connects two end points for one
 * pair of ranks and has two sides, one per rank; a side is the engine's
 * gli_pair. Each side has a queue of messages that are sent to it.
 *
 * Small payloads are copied into a node of the link. For others the engine's
 * send request itself is queued: the receiver copies or reduces directly from
 * the sender's payload and returns the request through the sender's `done`
 * list. When a side is closed, requests that must still be delivered are
 * replaced by copies. The link, and with it the peer, thus holds everything
 * that was accepted, and a side owes nothing.
 *
 * Rkeys (transport.h: rkey_pack and rkey_map) are not supported: the receiver
 * could be reading a buffer while its owner frees it, and payloads are read in
 * place anyway.
 *
 * Locks, in this order: that of the table (end points and offers), of a link,
 * of an end point. No lock is held during an upcall or while a payload is
 * copied; `reading` keeps the sender from closing meanwhile. */
#ifndef GLI_TRANSPORT_INPROC_INPROC_H
#define GLI_TRANSPORT_INPROC_INPROC_H

#include <stdatomic.h>
#include <uv.h>

#include "transport/request.h"

extern const gli_transport_ops gli_transport_inproc;

#define GLI_INPROC_INLINE_BYTES ((uint64_t)512)
#define GLI_INPROC_NODES_MAX 64         /* per direction of a link */
#define GLI_INPROC_MESSAGES_PER_POLL 64 /* per side, for fairness */

typedef struct gli_inproc_endpoint gli_inproc_endpoint;
typedef struct gli_inproc_link gli_inproc_link;
typedef struct gli_inproc_side gli_inproc_side;

/* ---- lists of requests --------------------------------------------------- */

/* Values of gli_send_request.private_ for a queued message. */
enum {
  GLI_INPROC_BORROWED, /* request and payload of the engine */
  GLI_INPROC_POOLED,   /* node of the link's pool */
  GLI_INPROC_COPIED    /* separate node, made when the sender closed */
};

/* ---- links --------------------------------------------------------------- */

typedef enum gli_inproc_failure {
  GLI_INPROC_NO_FAILURE,
  GLI_INPROC_FOREIGN,  /* the address belongs to another process */
  GLI_INPROC_ABSENT,   /* no such end point (any more) */
  GLI_INPROC_REFUSED,  /* accept returned NULL */
  GLI_INPROC_DROPPED,  /* closed without BYE or ABORT */
  GLI_INPROC_EXHAUSTED /* no memory for the messages that the peer left */
} gli_inproc_failure;

/* Each side's own thread writes `attached`, `closed` and `stopped` under the
 * link's lock, and may read them without it. The end point's lock protects the
 * `ready` fields, the link's lock all others below `user`. */
struct gli_inproc_side {
  gli_pair pair;
  gli_inproc_link *link;
  gli_inproc_endpoint *endpoint;
  uint32_t rank;
  uint64_t key; /* key that the other side must present */
  void *user;
  bool attached; /* true after pair_open */
  bool closed;   /* true after pair_close, or if it will never be attached */
  bool stopped;  /* no more upcalls: header refused, or failure reported */
  bool begun;    /* true if the head of `queue` has had its header upcall */
  bool reading;  /* true while this side reads the head's payload */
  gli_inproc_failure failure;
  gli_request_queue queue; /* messages for this side */
  gli_request_queue done;  /* requests of this side that were delivered */
  gli_send_request *spare; /* free nodes for messages to this side */
  int nodes;               /* number of nodes for such messages */
  bool ready;              /* true if in the end point's list */
  gli_inproc_side *ready_next;
};

/* `rkeys` counts references: one for each side that is attached and not closed,
 * one for each side in a ready list, and one while the link is an offer. */
struct gli_inproc_link {
  uv_mutex_t lock;
  uv_cond_t read; /* signals that a side has stopped reading */
  atomic_uint rkeys;
  gli_inproc_side sides[2]; /* [0] opened first */
  uint64_t from;            /* id of side 0's end point, which may be closed */
  bool offered; /* true while waiting for side 1; the table's lock */
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

/* Processes a side that has been taken off its end point's ready list. Returns
 * the number of events. */
int gli_inproc_side_poll(gli_inproc_side *side);

/* Tells side 0 that the end point of `link`'s side 1 will not open it. The
 * caller holds the table's lock and has taken the offer off its list. */
void gli_inproc_link_refuse(gli_inproc_link *link, gli_inproc_failure why);

/* ---- end points ---------------------------------------------------------- */

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
  atomic_bool attention; /* true if the ready list is not empty */
  gli_inproc_side *ready_head, *ready_tail;
  int n_ready;
  int n_later; /* number of ready sides that only ask the engine again */
  int sleepers;
  bool woken; /* the next sleeper returns at once */
  uint64_t wake_count;
};

/* Puts a side on its end point's ready list after an event. The caller holds
 * the link's lock, and the side is not closed. */
void gli_inproc_mark_ready(gli_inproc_side *side);

void gli_inproc_table_lock(void);
void gli_inproc_table_unlock(void);

/* Returns the id in an address, or 0 if it belongs to another process. */
uint64_t gli_inproc_address_id(const gli_address *address);

/* Returns the end point with this id, or NULL. The table must be locked. */
gli_inproc_endpoint *gli_inproc_find(uint64_t id);

#endif
