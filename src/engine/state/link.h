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

/* A message in progress, in one list of its link: blocked (waits for credit or
 * for the receiver to start), pending (the transport had no room), in_flight
 * (the transport has it), exposed (the peer has an rkey) or arriving.
 * `operation` is NULL for control messages. */
typedef struct gli_transfer {
  gli_send_request request; /* first member: `sent` upcalls get its address */
  gli_link *link;
  gli_operation *operation;
  gli_early *early; /* arriving: the early message it goes to, if not to a
                       step */
  uint32_t step;
  uint32_t peer; /* index into the plan's peers */
  bool answer;   /* counted in link->answers */
  bool errand;   /* counted in device->owed */
  bool exposed;  /* sent as an rkey: completes when the peer sends READ_DONE */
  bool held;     /* a signal (engine/rma) whose put is still arriving */
  uint8_t form;  /* gli_form of an arriving message */
  /* Holds the rkey of a message, or an RMA request or short reply
   * (engine/rma). */
  uint8_t rkey[2 * GLI_RKEY_BYTES];
  struct gloo_window *window; /* window that an arriving message is for, else
                                 NULL */
  uint32_t *unsent; /* RMA: counter of unsent transfers, decremented once this
                       one is sent; else NULL */
  uint8_t *note;    /* payload of an errand, or memory for it, released with
                    free(); not set in others */
  struct gli_transfer *prev, *next;
  /* Blocked: the next message of the same run and peer. `keyed` is the entry of
   * a blocked point-to-point message in context->blocked. */
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

/* The numbers of a context in the messages of a pair that several contexts use.
 * Written by links.c only; a link of a root context has 0, 0 and itself. */
typedef struct gli_link_group {
  uint32_t peers; /* number of this context at the peer; sent with each
                     message */
  uint32_t own;   /* number of this context at this rank */
  gli_link *base; /* link of the root context to the same rank */
  gli_link *next; /* next link in the same slot of the family's routes */
} gli_link_group;

/* State of the peer's departure:
 *
 *   announced  departed  said_bye
 *   no         no        no        the peer takes part
 *   yes        no        no        the peer sent DEPARTED; some of the `after`
 *                                  messages before it have not arrived
 *   no         yes       no        the peer left this context, not the pair
 *   -          yes       yes       (base links) the pair carries nothing more
 *
 * group_links.c writes `announced` and `after`, gli_link_departed `departed`,
 * and the upcall for BYE `said_bye`. The function that sends or receives a
 * message counts it. */
typedef struct gli_link_leaving {
  bool announced : 1, departed : 1, said_bye : 1;
  uint64_t sent, came; /* number of messages with payload, ever */
  uint64_t after;      /* number of messages that must have arrived */
} gli_link_leaving;

/* Flow control of eager bytes, which are sent before the receiver asked for
 * them, modulo 2^32. Always acked <= sent <= acked + the budget of the context,
 * and consumed_acked <= consumed. Written by wire/; run/ writes `early`. */
typedef struct gli_link_credit {
  uint32_t sent, acked; /* acked: bytes returned as credit */
  uint32_t consumed, consumed_acked;
  uint32_t early; /* bytes received and still held as early messages */
} gli_link_credit;

/* State of the question to a rank about the call that it made. */
typedef enum gli_vote { GLI_NOT_ASKED, GLI_ASKED, GLI_HAS_SAID } gli_vote;

/* A PROBE that arrived while this rank was in no call. Written by probe.c
 * only. */
typedef struct gli_link_question {
  bool open;
  size_t completed; /* device->completed at that time */
  gli_header about;
} gli_link_question;

/* State of the communication with one other rank. */
struct gli_link {
  gloo_context *context;
  uint32_t rank;  /* rank in the root context; error messages use it */
  uint32_t local; /* rank in this context; GLI_NO_RANK until the group is
                     formed */
  gli_pair *pair; /* NULL if self or not open; a group uses the pair of
                     `group.base` */
  bool self;
  bool pending_queued; /* member of device->pending_links */
  gli_link *pending_next;

  gli_link *next; /* next link of the same context */
  gli_link_group group;
  gli_link_leaving leaving;
  gli_link_credit credit;

  gli_transfer_list blocked, pending, in_flight, exposed, arriving;
  /* First message of `blocked` without an RTS; NULL if none. It only moves
   * forward, so that a search does not visit the messages of many operations
   * again and again. */
  gli_transfer *unannounced;
  uint32_t rts_out; /* RTSs sent and not yet answered */
  uint32_t rts_in;  /* RTSs of the peer that are kept here */
  uint32_t answers; /* answers to RTS and PROBE, not yet taken by the
                       transport */
  /* Counters of point-to-point messages per tag: sent to the rank, and received
   * from it and matched. */
  gli_counters sent, found;

  /* CTSs that arrived before their operation was started here. Losing one costs
   * a round trip, so a few entries are enough. */
  gli_early_cts early_cts[GLI_EARLY_CTS_MAX];
  uint32_t early_cts_count;

  /* Index of the rank among the peers of the operation looked up last. The next
   * operation usually has the same. */
  uint32_t hint;
  /* Operation whose current step in order waits for a message from this rank,
   * and the header of that message. */
  gli_operation *awaits;
  const gli_header *expected;

  struct { /* shared copies of a base link; written by shared_copy.c only */
    uint32_t round;
    uint32_t in_use; /* bit mask of the GLI_SHARED_COPIES in use */
  } copies;

  gli_link_question question;

  uint32_t alive_ms; /* heartbeat period of the peer in ms; 0 if it sends none
                        (heartbeat.c) */
  bool failed; /* the transport reported a failure: close without a last message
                */
  uint8_t vote; /* gli_vote: state of the rank in the dispute of the context */
};

#endif
