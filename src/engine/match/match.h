/* The matching of messages with operations and their receives.
 *
 * A message names an operation by key, and a receive step of it by slot.
 * Matching changes no operation, link or context; the functions that begin and
 * end operations keep the table of operations by key. */
#ifndef GLI_ENGINE_MATCH_MATCH_H
#define GLI_ENGINE_MATCH_MATCH_H

#include "core/hints.h"
#include "engine/state/context.h"
#include "engine/state/early.h"

/* ---- operations by key --------------------------------------------------- */

gli_key gli_match_key_of(const gli_operation *op);
gli_operation *gli_match_find(const gloo_context *context, gli_key key);
/* Enter an operation in the table, and remove it. */
GLI_COLD void gli_match_file(gli_operation *op);
GLI_COLD void gli_match_unfile(gli_operation *op);

/* Makes an operation known to messages. There is usually only one, which needs
 * no table. */
static inline void gli_match_insert(gli_operation *op) {
  gloo_context *context = op->context;
  if (op->side == GLI_SEND_SIDE) return; /* no message is for it */
  if (context->newest != NULL) gli_match_file(context->newest);
  context->newest = op;
}
static inline void gli_match_remove(gli_operation *op) {
  gloo_context *context = op->context;
  if (context->newest == op) {
    context->newest = NULL;
  } else {
    gli_match_unfile(op);
  }
}

/* ---- messages and operations (match.c) ----------------------------------- */

/* Returns the operation that a message is for. In state GLI_OPERATION_POSTED it
 * is a receive that must be bound to the message, its first. Returns NULL if
 * the operation has not started here, or has ended. */
gli_operation *gli_match_operation(const gli_link *link,
                                   const gli_header *header);
/* Finds the receive step of an operation that a message is for, by all of its
 * header but form and length. Errors: GLOO_ERR_MISMATCH, GLOO_ERR_PROTOCOL. */
gloo_status gli_match_step(const gli_operation *op, gli_link *link,
                           const gli_header *header, uint32_t *step,
                           gloo_error *error);
/* Returns the index of a link among the peers of the operation's plan, or
 * GLI_NO_PEER. */
uint32_t gli_match_peer(const gli_operation *op, gli_link *link);
/* Checks that both sides made the same call. */
gloo_status gli_match_agree(const gli_operation *op, const gli_link *link,
                            const gli_header *header, gloo_error *error);

/* Returns true if the operation of an unmatched message has ended here. */
bool gli_match_is_over(const gli_link *link, const gli_header *header);
/* Sets `own` to the call that this rank has made at the position of the header,
 * as far as calls are compared. Returns false if it made none yet, or it is
 * forgotten, or it is no collective. */
bool gli_match_own(const gli_link *link, const gli_header *header,
                   gli_header *own);
/* Checks a message for an operation that has ended: both sides must have made
 * the same call. Returns GLOO_OK also if the call is forgotten. */
gloo_status gli_match_agree_late(const gli_link *link, const gli_header *header,
                                 gloo_error *error);
/* Fills the error of a rank that sends data for an operation that has ended, or
 * never had a message from that rank. */
gloo_status gli_match_too_late(const gli_link *link, const gli_header *header,
                               gloo_error *error);

/* ---- messages between two ranks ------------------------------------------ */

bool gli_p2p_takes_from(const gli_operation *op, uint32_t rank);
/* Returns the oldest early message that a receive could take; NULL if none. */
gli_early *gli_match_envelope(const gli_operation *op);
/* Returns the oldest posted receive that could take a message with this tag
 * from a rank of the context; NULL if none. */
gli_operation *gli_match_posted(const gloo_context *context, uint32_t rank,
                                uint32_t tag);

#endif
