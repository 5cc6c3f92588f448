/* What connects this rank with one other, and the messages on their way there.
 *
 * Every context has a link to each rank that it talks to, made when first
 * needed. A root's link owns a pair of the transport; a group's borrows it.
 *
 * Everything in here and in the other headers of this folder is guarded by the
 * device's lock, except where a comment says otherwise. */
#ifndef GLI_ENGINE_STATE_LINK_H
#define GLI_ENGINE_STATE_LINK_H

#include "engine/state/call.h"
#include "engine/state/counters.h"
#include "plan/plan.h"
#include "transport/transport.h"

typedef struct gli_link gli_link;
typedef struct gli_early gli_early; /* see early.h */

/* ---- messages on their way (transfer.c) ---------------------------------- */

/* A message that is moving, in one list of its link: blocked (waits for credit
 * or for the receiver to start), pending (the transport had no room), in_flight
 * (the transport has it), exposed (the peer has an rkey) or arriving.
 * `operation` is NULL for control messages. */
typedef struct gli_transfer {
  gli_send_request request; /* first: `sent` upcalls get its address */
  gli_link *link;
  gli_operation *operation;
  gli_early *early; /* arriving: where to, when not to a step */
  uint32_t step;
  uint32_t peer; /* index into the plan's peers */
  bool answer;   /* counted in link->answers */
  bool errand;   /* counted in device->owed */
  bool exposed;  /* sent as an rkey: over when the peer says READ_DONE */
  uint8_t form;  /* arriving: gli_form */
  uint8_t rkey[GLI_RKEY_BYTES];
  struct gli_transfer *prev, *next;
} gli_transfer;

typedef struct gli_transfer_list {
  gli_transfer *first, *last;
} gli_transfer_list;

void gli_transfer_list_add(gli_transfer_list *list, gli_transfer *t);
void gli_transfer_list_remove(gli_transfer_list *list, gli_transfer *t);
gli_transfer *gli_transfer_new(gli_link *link);
void gli_transfer_free(gli_transfer *t);
void gli_transfer_free_pool(gloo_device *device);

/* ---- links --------------------------------------------------------------- */

enum { GLI_EARLY_CTS_MAX = 16 };

typedef struct gli_early_cts {
  uint32_t tag;
  uint64_t operation;
} gli_early_cts;

/* Everything about one other rank. */
struct gli_link {
  gloo_context *context;
  uint32_t rank;  /* in the root context: who it is in sentences */
  uint32_t local; /* in this context; GLI_NO_RANK while that is being made */
  gli_pair *pair; /* NULL: self, or not open. Groups use that of `base_link` */
  bool self;
  bool departed;  /* the peer said BYE, or DEPARTED */
  bool said_bye;  /* it said BYE: nothing else comes through this pair */
  bool departing; /* it said DEPARTED, but some of what it sent is still to come
                   */
  bool pending_queued; /* member of device->pending_links */
  gli_link *pending_next;

  uint32_t group;      /* what the peer calls this context, and what we do; */
  uint32_t own;        /* both are 0 for a root context */
  gli_link *base_link; /* of the root context, to the same rank; or itself */
  gli_link *next;      /* of the same context */
  gli_link *route_next;
  uint64_t data_sent, data_came; /* messages */
  uint64_t departs_after;        /* as many as that */

  /* Outgoing credit. All three count bytes modulo 2^32. */
  uint32_t eager_sent;  /* sent on credit: before the receiver asked */
  uint32_t eager_acked; /* of those, known to be taken out again */
  /* Incoming credit. */
  uint32_t eager_consumed;
  uint32_t eager_consumed_acked;
  uint32_t early_bytes; /* eager and still kept early */

  gli_transfer_list blocked, pending, in_flight, exposed, arriving;
  uint32_t unannounced; /* of `blocked`: the peer has no RTS for them yet */
  uint32_t rts_out;     /* RTSs of ours that wait for their CTS */
  uint32_t rts_in;      /* RTSs of the peer that are kept here */
  uint32_t answers;     /* to RTS and PROBE, not yet taken by the transport */
  /* Messages of point-to-point calls, per tag: sent to the rank, and those from
   * it that a receive was found for. */
  gli_counters sent, found;

  /* CTSs that came before the operation was started here. Forgetting
   * one costs a round trip, so a few are enough. */
  gli_early_cts early_cts[GLI_EARLY_CTS_MAX];
  uint32_t early_cts_count;

  /* The rank's index among the peers of the operation that was last asked, and
   * most often of the next one as well. */
  uint32_t hint;
  /* The operation whose step that is next in order waits for a message from it:
   * this one. */
  gli_operation *awaits;
  const gli_header *expected;

  /* Of a base link, see shared_copy.c. */
  uint32_t copy_round;
  uint32_t
      copies_in_use; /* which of GLI_SHARED_COPIES are in use, a bit each */

  bool failed; /* the transport said so: no farewell */
};

#endif
