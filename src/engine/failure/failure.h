/* The rank at fault: signs of life, and questions to other ranks when an
 * operation is late, a rank has left, or calls differ. */
#ifndef GLI_ENGINE_FAILURE_FAILURE_H
#define GLI_ENGINE_FAILURE_FAILURE_H

#include "engine/state/context.h"

/* ---- signs of life (heartbeat.c) ----------------------------------------- */

/* Starts the signs of life, with this GLOO_HEARTBEAT. */
void gli_heartbeat_start(gloo_context *context, uint64_t limit_ns, bool beats);
/* All ranks have begun, so a rank that is silent from now on is missed. */
void gli_heartbeat_met(gloo_context *context);
/* Returns true if other ranks may have missed this one: it was stopped for that
 * long a short time before now, or before the context failed. */
bool gli_heartbeat_was_away(const gloo_context *context, uint64_t now_ns);
/* Sends the next sign of life, and checks for those of others. */
void gli_heartbeat_turn(gloo_context *context, uint64_t now_ns);
/* ALIVE came; its slot says how many milliseconds pass until the next, or (0)
 * that it is an answer to the first one. */
void gli_heartbeat_heard(gli_link *link, const gli_header *header);
/* The peer of a root's link has left. */
void gli_heartbeat_departed(gli_link *link);
/* Takes a failed link. Returns true if the link was for signs of life alone and
 * none was answered, so that its loss harms no rank. */
bool gli_heartbeat_gives_up(const gli_link *link, const gloo_error *cause);
/* Has it just done so? */
bool gli_heartbeat_gave_up(const gloo_context *root, uint32_t rank);

/* ---- ranks that disagree (dispute.c) ------------------------------------- */

/* A rank asks what this one has called. */
gloo_status gli_dispute_asked(gli_link *link, const gli_header *header,
                              gloo_error *error);
/* Ask others, and decide if that can be, or has to be: that is the suspect of
 * the context then, and due. Returns when to come again. */
uint64_t gli_dispute_turn(gloo_context *root, uint64_t now_ns);

/* ---- ranks that left early, or not (missed.c) ---------------------------- */

/* As gli_dispute_turn, for a rank that left while a collective needs it. */
uint64_t gli_missed_turn(gloo_context *root, uint64_t now_ns);
/* A flag in the slot of WAITING: the rank is in another collective or in no
 * call, and can still make the call in question. */
enum { GLI_WAITING_MAY_COME = 4 };
/* Handles the answer of a rank to the question whether it waits in a call. */
void gli_missed_answered(gli_link *link, const gli_header *header);

/* ---- which rank is to blame (probe.c, blame.c) --------------------------- */

/* The timer is due. */
void gli_blame_timer(gli_operation *op, uint64_t now_ns);
gloo_status gli_blame_probed(gli_link *link, const gli_header *header,
                             gloo_error *error);
void gli_blame_answered(gli_link *link, const gli_header *header);
/* Answers questions that came when this rank was in no call, if it has been in
 * one since. */
void gli_blame_answer_late(gloo_device *device);

/* Names the ranks it waits for; only those not known to be cleared, if any. */
void gli_describe_timeout(const gli_operation *op, gloo_error *error);
/* Appends what keeps messages to the peer from getting through, if that is
 * known. */
void gli_link_explain(const gli_link *link, gloo_error *error);

#endif
