/* The first phase of a run: steps in the order of the plan (in_order.c). */
#ifndef GLI_ENGINE_RUN_IN_ORDER_H
#define GLI_ENGINE_RUN_IN_ORDER_H

#include "engine/state/context.h"

/* The least number of entries of recv_state. */
enum { GLI_IN_ORDER_STEPS = 16 };

/* Returns true if operations of this plan can begin in order. */
bool gli_in_order_suits(const gli_plan *plan);
/* Makes the messages of all steps. Links and signature are known. */
void gli_in_order_prepare(gli_operation *op);
/* Resets all receives: none is ready. */
static inline void gli_in_order_reset(gli_operation *op) {
  _Static_assert(GLI_RECV_UNREADY == 0, "of all steps");
  memset(op->recv_state, GLI_RECV_UNREADY, GLI_IN_ORDER_STEPS);
}
/* Begins a run of a prepared operation, and runs it as far as possible. It may
 * have ended on return, without having been in a list; otherwise the next poll
 * lists it (device->unlisted). Returns false, without any change, if it cannot
 * begin. Not within upcalls. */
bool gli_in_order_begin(gli_operation *op);
/* Continues as far as possible: to the next receive, or the end. */
void gli_in_order_run(gli_operation *op);
/* Excludes the operation from this phase in its next runs. */
static inline void gli_in_order_no_more(gli_operation *op) {
  op->in_order.allowed = op->in_order.prepared = false;
}
/* Counts steps from here on, as if all so far had been counted. */
void gli_in_order_leave(gli_operation *op);
/* Takes a message from a link that `awaits` such an operation. Returns true if
 * the operation took it and has advanced; otherwise nothing has changed. */
bool gli_in_order_message(gli_link *link, const gli_header *header,
                          const uint8_t *payload);
/* Returns true if the operation waits for a message that can be polled for
 * alone. */
static inline bool gli_in_order_looks(const gli_operation *op) {
  const gli_in_order *o = &op->in_order;
  return o->active && op->recv_state[o->at] == GLI_RECV_READY &&
         o->messages[o->at].pair != NULL;
}
/* Polls for the message. Returns true if it had arrived and the operation
 * advanced; others may be runnable. Not within upcalls. */
bool gli_in_order_look(gli_operation *op);

#endif
