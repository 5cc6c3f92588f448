/* The rank at fault: heartbeats, and questions to other ranks when an operation
 * is late, a rank has left, or calls differ. */
#ifndef GLI_ENGINE_FAILURE_FAILURE_H
#define GLI_ENGINE_FAILURE_FAILURE_H

#include "engine/state/context.h"

/* ---- heartbeats (heartbeat.c) -------------------------------------------- */

/* Starts the heartbeat, with this GLOO_HEARTBEAT. */
void gli_heartbeat_start(gloo_context *context, uint64_t limit_ns, bool beats);
/* Counts silence from now on: all ranks have begun. */
void gli_heartbeat_met(gloo_context *context);
/* Returns true if other ranks may have missed this one: it was stopped for long
 * enough a short time ago, or before the context failed. */
bool gli_heartbeat_was_away(const gloo_context *context, uint64_t now_ns);
/* Sends the next heartbeat, and checks for those of others. */
void gli_heartbeat_turn(gloo_context *context, uint64_t now_ns);
/* Takes an ALIVE. Its slot is the time in ms to the next one, or 0 if it
 * answers the first one. */
void gli_heartbeat_heard(gli_link *link, const gli_header *header);
/* Takes the departure of the peer of a root's link. */
void gli_heartbeat_departed(gli_link *link);
/* Takes a failed link. Returns true if the link was for heartbeats alone and
 * none was answered, so that its loss harms no rank. */
bool gli_heartbeat_gives_up(const gli_link *link, const gloo_error *cause);
/* Returns true if the link to this rank has just failed that way. */
bool gli_heartbeat_gave_up(const gloo_context *root, uint32_t rank);

/* ---- disputes (dispute.c) ------------------------------------------------ */

/* Answers a rank that asks what this one has called. */
gloo_status gli_dispute_asked(gli_link *link, const gli_header *header,
                              gloo_error *error);
/* Asks others, and decides if possible or due: then the suspect of the context
 * has the result, and is due. Returns the time of the next turn. */
uint64_t gli_dispute_turn(gloo_context *root, uint64_t now_ns);

/* ---- ranks that left early, or not (missed.c) ---------------------------- */

/* Like gli_dispute_turn, about a rank that left while a collective needs it. */
uint64_t gli_missed_turn(gloo_context *root, uint64_t now_ns);
/* A flag in the slot of WAITING: the rank is in another collective or in no
 * call, and can still make the call in question. */
enum { GLI_WAITING_MAY_COME = 4 };
/* Handles the answer of a rank to the question whether it waits in a call. */
void gli_missed_answered(gli_link *link, const gli_header *header);

/* ---- the rank at fault (probe.c, blame.c) -------------------------------- */

/* Handles a timer that is due. */
void gli_blame_timer(gli_operation *op, uint64_t now_ns);
gloo_status gli_blame_probed(gli_link *link, const gli_header *header,
                             gloo_error *error);
void gli_blame_answered(gli_link *link, const gli_header *header);
/* Answers questions that came when this rank was in no call, if it has been in
 * one since. */
void gli_blame_answer_late(gloo_device *device);

/* Names the ranks that the operation waits for; if any are not cleared, only
 * those. */
void gli_describe_timeout(const gli_operation *op, gloo_error *error);
/* Appends the reason why messages to the peer do not get through, if it is
 * known. */
void gli_link_explain(const gli_link *link, gloo_error *error);

#endif
