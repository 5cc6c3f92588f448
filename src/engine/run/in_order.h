/* Small operations whose steps are taken in order (in_order.c says how). */
#ifndef GLI_ENGINE_RUN_IN_ORDER_H
#define GLI_ENGINE_RUN_IN_ORDER_H

#include "engine/state/context.h"

/* What an operation's recv_state has room for at least. */
enum { GLI_STRAIGHT_STEPS = 16 };

/* Can operations of this plan go straight? */
bool gli_straight_suits(const gli_plan *plan);
/* Make the list of its steps; its links and signature are known. */
void gli_straight_prepare(gloo_operation *op);
/* Begin. */
static inline void gli_straight_enter(gloo_operation *op) {
  _Static_assert(GLI_RECV_UNREADY == 0, "of all steps");
  memset(op->recv_state, GLI_RECV_UNREADY, GLI_STRAIGHT_STEPS);
  op->at = 0;
  op->straight = true;
}
/* Go on, as far as it can: to the next receive, or the end. */
void gli_straight_run(gloo_operation *op);
/* The last step is done; for in_order.c (end.c). */
void gli_straight_finish(gloo_operation *op);
/* Begin another run that is to go straight, if nothing is in the way; when it
 * has to wait, look so many times more before anything else is done about it.
 * False: nothing has changed. */
bool gli_straight_again(gloo_operation *op, unsigned looks);
/* Its next runs are like any other operation's. */
static inline void gli_straight_no_more(gloo_operation *op) {
  op->may_go_straight = op->again = false;
}
/* Go on like any operation. */
void gli_straight_leave(gloo_operation *op);
/* A message has come through a link that such an operation awaits one from.
 * True: it was this one, and the operation has gone on. False: nothing has
 * changed. */
bool gli_straight_message(gli_link *link, const gli_header *header,
                          const uint8_t *payload);
/* Progress for whom this operation is all that matters: is the message that it
 * waits for there? True: it has gone on, and others may be runnable. Not from
 * within upcalls. */
bool gli_straight_look_for(gloo_operation *op);
/* Does it wait for a message that can be looked for? */
static inline bool gli_straight_looks(const gloo_operation *op) {
  return op->straight && op->recv_state[op->at] == GLI_RECV_READY &&
         op->straight_steps[op->at].pair != NULL;
}
static inline bool gli_straight_look(gloo_operation *op) {
  return op->straight && gli_straight_look_for(op);
}

#endif
