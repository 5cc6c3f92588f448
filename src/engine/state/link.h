/* What connects this rank with one other, and the messages on their way there.
 *
 * Every context has a link to each rank that it talks to, made when first
 * needed. A root's link owns a pair of the transport; a group's borrows it.
 *
 * Everything in here and in the other headers of this folder is guarded by the
 * device's lock, except where a comment says otherwise. */
#ifndef GLI_ENGINE_STATE_LINK_H
#define GLI_ENGINE_STATE_LINK_H

#include "engine/state/counters.h"
#include "gloo_c/collectives.h"
#include "plan/plan.h"
#include "transport/transport.h"

typedef struct gli_link gli_link;
typedef struct gli_parked gli_parked; /* see early.h */

/* ---- messages on their way (transfer.c) ---------------------------------- */

/* A message that is moving, in one list of its link: blocked (waits for credit
 * or for the receiver to start), again (the transport had no room), flying (the
 * transport has it), shown (the peer has a reference) or arriving. `operation`
 * is NULL for control messages. */
typedef struct gli_transfer {
  gli_send_request request; /* first: `sent` upcalls get its address */
  gli_link *link;
  gloo_operation *operation;
  gli_parked *parked; /* arriving: where to, when not to a step */
  uint32_t step;
  uint32_t peer; /* index into the plan's peers */
  bool answer;   /* counted in link->answers */
  bool errand;   /* counted in device->owed */
  bool shown;    /* sent by reference: over when the peer says TAKEN */
  uint8_t form;  /* arriving: gli_form */
  uint8_t reference[GLI_REFERENCE_BYTES];
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

enum { GLI_EARLY_NOTES = 16 };

typedef struct gli_note {
  uint32_t tag;
  uint64_t operation;
} gli_note;

/* Everything about one other rank. */
struct gli_link {
  gloo_context *context;
  uint32_t rank;  /* in the root context: who it is in sentences */
  uint32_t local; /* in this context; GLI_NO_RANK while that is being made */
  gli_pair *pair; /* NULL: self, or not open. Groups use that of `carrier` */
  bool self;
  bool left;    /* the peer said BYE, or LEFT */
  bool gone;    /* it said BYE: nothing else comes through this pair */
  bool leaving; /* it said LEFT, but some of what it sent is still to come */
  bool again_queued; /* member of device->again_links */
  gli_link *again_next;

  uint32_t group;    /* what the peer calls this context, and what we do; */
  uint32_t own;      /* both are 0 for a root context */
  gli_link *carrier; /* of the root context, to the same rank; or itself */
  gli_link *next;    /* of the same context */
  gli_link *route_next;
  uint64_t data_sent, data_came; /* messages */
  uint64_t leaves_after;         /* as many as that */

  /* Outgoing credit. All three count bytes modulo 2^32. */
  uint32_t charged;  /* sent at the receiver's parking expense */
  uint32_t credited; /* of those, known to be taken out again */
  /* Incoming credit. */
  uint32_t consumed;
  uint32_t consumed_told;
  uint32_t parked_bytes; /* charged and still parked */

  gli_transfer_list blocked, again, flying, shown, arriving;
  uint32_t unannounced; /* of `blocked`: the peer has no WANT for them yet */
  uint32_t wants_out;   /* WANTs of ours that wait for their STARTED */
  uint32_t wants_in;    /* WANTs of the peer that are parked here */
  uint32_t answers;     /* to WANT and PROBE, not yet taken by the transport */
  /* Messages of point-to-point calls, per tag: sent to the rank, and those from
   * it that a receive was found for. */
  gli_counters sent, found;

  /* STARTED notes that came before the operation was started here. Forgetting
   * one costs a round trip, so a few are enough. */
  gli_note notes[GLI_EARLY_NOTES];
  uint32_t notes_count;

  /* The rank's index among the peers of the operation that was last asked, and
   * most often of the next one as well. */
  uint32_t hint;
  /* The operation whose step that is next in order waits for a message from it:
   * this one. */
  gloo_operation *awaits;
  const gli_header *expected;

  /* Of a carrier, see help.c. */
  uint32_t help_round;
  uint32_t helping; /* which of GLI_HELPS are in use, a bit each */

  bool failed; /* the transport said so: no farewell */
};

#endif
