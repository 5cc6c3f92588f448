/* The link of this rank to another one, and the messages on their way there.
 *
 * Every context has a link to each rank that it talks to, made when first
 * needed. A root's link owns a pair of the transport; a group's borrows it.
 *
 * The lock of the device guards everything in here and in the other headers of
 * this folder, except where a comment says otherwise. */
#ifndef GLI_ENGINE_STATE_LINK_H
#define GLI_ENGINE_STATE_LINK_H

#include "engine/state/call.h"
#include "engine/state/counters.h"
#include "engine/state/key_table.h"
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
  /* Or what is asked of a window, and short answers (engine/rma). */
  uint8_t rkey[2 * GLI_RKEY_BYTES];
  struct gloo_window *window; /* arriving: for it; else NULL */
  uint32_t *unsent; /* of a put, which is counted there until it is sent */
  uint8_t *note;    /* payload of a control message, for free(); else not set */
  struct gli_transfer *prev, *next;
  /* Blocked: the next of the same run and peer; and, of a message that is sent,
   * its place in context->blocked. */
  struct gli_transfer *blocked_next;
  gli_keyed keyed;
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

/* Names the context of the messages on a pair that several contexts use.
 * links.c alone writes it; a link of a root context has 0, 0 and itself. */
typedef struct gli_link_group {
  uint32_t peers; /* what the peer calls this context; sent with each message */
  uint32_t own;   /* what this rank calls it */
  gli_link *base; /* of the root context, to the same rank */
  gli_link *next; /* of the same row of the family's routes */
} gli_link_group;

/* How the peer leaves:
 *
 *   announced  departed  said_bye
 *   no         no        no        it is there
 *   yes        no        no        it said DEPARTED, and some of the `after`
 *                                  messages before that are still to come
 *   no         yes       no        it has left this context, not the pair
 *   -          yes       yes       (base links) nothing comes through the pair
 *
 * group_links.c writes `announced` and `after`, gli_link_departed `departed`,
 * the upcall for BYE `said_bye`, and the function that sends or takes a message
 * counts it. */
typedef struct gli_link_leaving {
  bool announced : 1, departed : 1, said_bye : 1;
  uint64_t sent, came; /* messages with payload, ever */
  uint64_t after;      /* as many must have come */
} gli_link_leaving;

/* The bytes that are sent before the receiver asked (eager), modulo 2^32.
 * Always acked <= sent <= acked + the budget of the context, and consumed_acked
 * <= consumed. The folder wire writes it, and run `early`. */
typedef struct gli_link_credit {
  uint32_t sent, acked; /* acked: known to be taken out again */
  uint32_t consumed, consumed_acked;
  uint32_t early; /* came, and still kept early */
} gli_link_credit;

/* The state of the question what a rank has called. */
typedef enum gli_vote { GLI_NOT_ASKED, GLI_ASKED, GLI_HAS_SAID } gli_vote;

/* A PROBE that came when this rank was in no call. probe.c alone writes it. */
typedef struct gli_link_question {
  bool open;
  size_t completed; /* the device's count at that time */
  gli_header about;
} gli_link_question;

/* Everything about one other rank. */
struct gli_link {
  gloo_context *context;
  uint32_t rank;  /* in the root context: its name in sentences */
  uint32_t local; /* in this context; GLI_NO_RANK while that is being made */
  gli_pair *pair; /* NULL: self, or not open. Groups use that of `group.base` */
  bool self;
  bool pending_queued; /* member of device->pending_links */
  gli_link *pending_next;

  gli_link *next; /* of the same context */
  gli_link_group group;
  gli_link_leaving leaving;
  gli_link_credit credit;

  gli_transfer_list blocked, pending, in_flight, exposed, arriving;
  /* The first of `blocked` that the peer has no RTS for; NULL: none. It moves
   * forward only, so that messages of many operations are not looked through
   * for each. */
  gli_transfer *unannounced;
  uint32_t rts_out; /* RTSs of ours that wait for their CTS */
  uint32_t rts_in;  /* RTSs of the peer that are kept here */
  uint32_t answers; /* to RTS and PROBE, not yet taken by the transport */
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

  struct { /* of a base link; shared_copy.c alone writes it */
    uint32_t round;
    uint32_t in_use; /* which of GLI_SHARED_COPIES are, a bit each */
  } copies;

  gli_link_question question;

  uint32_t alive_ms; /* the peer gives signs of life to this rank, as often; 0:
                        it does not (heartbeat.c) */
  bool failed;       /* the transport said so: no farewell */
  uint8_t vote;      /* gli_vote: in the dispute of its context */
};

#endif
