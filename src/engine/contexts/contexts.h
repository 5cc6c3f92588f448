/* Contexts and groups: their creation, their end, and the rank at fault. */
#ifndef GLI_ENGINE_CONTEXTS_CONTEXTS_H
#define GLI_ENGINE_CONTEXTS_CONTEXTS_H

#include "engine/contexts/settings.h"
#include "engine/state/context.h"

/* ---- memory (context_memory.c)
 * -------------------------------------------------- */

/* Memory for a context of any kind, of `size` ranks, and its end. */
gloo_context *gli_context_new(gloo_device *device, uint32_t size);
/* A root, which is listed from now on; see gli_context_open. */
gloo_context *gli_context_new_root(gloo_device *device, uint32_t rank,
                                   uint32_t size, uint64_t key,
                                   const uint8_t *job_key);
void gli_context_free(gloo_context *context);

/* ---- the end (close.c) --------------------------------------------------- */

/* The payload of an ABORT. */
#define GLI_ABORT_MAX (8u + GLOO_ERROR_MESSAGE_BYTES)

/* The cause where this rank gives up; a reason may be NULL, or empty. */
void gli_context_describe_abort(const gloo_context *context, const char *reason,
                                gloo_error *cause);
/* Takes the failure function, so that a single thread calls it. Returns NULL if
 * the function is not set, or was called. */
gli_snapshot_fn gli_family_take_on_failure(gli_family *family);
/* After a failure that was recorded: operations end, and links are closed.
 * Again for a peer that comes later. */
void gli_context_finish_teardown(gloo_context *context);
/* A root without operations and groups says farewell to all, and forgets them.
 */
void gli_context_leave_links(gloo_context *root);
/* Does it have operations that are under way? */
bool gli_context_is_busy(const gloo_context *context);
/* Operations that the caller still holds outlive it, as mere results. */
void gli_context_detach_operations(gloo_context *context);
/* True when that was the end of the family as well. */
bool gli_context_end(gloo_context *context);

/* ---- groups (group_context.c)
 * ---------------------------------------------------- */

/* NULL with `error`: out of memory. */
gloo_context *gli_group_new(gloo_context *parent, gloo_error *error);
gloo_context *gli_group_control(gloo_context *context, gloo_error *error);
gloo_status gli_group_set_members(gloo_context *group,
                                  const gloo_context *parent,
                                  const gli_member *members, uint32_t n,
                                  uint32_t own, gloo_error *error);
/* Returns the link of the group that a message on a link of the root belongs
 * to. NULL: the group has ended, or never existed, or (with `error`) the
 * message is malformed. */
gli_link *gli_group_find_link(gli_link *base_link, const gli_header *header,
                              gloo_error *error);
/* Destroy a group. */
void gli_group_close(gloo_context *group);

/* ---- the end of links of groups (group_links.c) -------------------------- */

/* Closes a link that is no longer in the list of its group, once nothing is
 * pending on it. */
void gli_group_drain_link(gloo_context *group, gli_link *link);
/* End those that have nothing under way any more. */
void gli_group_reap(gli_family *family);
/* Tells the peer that the group of its message has ended. */
gloo_status gli_group_is_gone(gli_link *base_link, const gli_header *header,
                              gli_sink *sink, gloo_error *error);
/* DEPARTED: a rank takes no part in this context any more. Messages on other
 * streams may still come. */
void gli_group_departs(gli_link *link, const gli_header *header);
void gli_group_check_departing(gli_link *link);
/* Ends the links of groups whose pair has ended. */
void gli_group_base_departed(gli_link *base_link);
void gli_group_drop_links(gli_family *family);
/* Say DEPARTED to all peers. */
void gli_group_say_departed(gloo_context *context);
/* Discards what arrives. */
void gli_sink_nowhere(gli_sink *sink, uint64_t bytes);

/* ---- ranks that leave (departed.c) --------------------------------------- */

/* Takes the final departure of a rank, and begins to ask who is at fault if an
 * operation still needs it. */
void gli_link_departed(gli_link *link);

/* ---- signs of life (heartbeat.c) ----------------------------------------- */

/* From now on, with this GLOO_HEARTBEAT. */
void gli_heartbeat_start(gloo_context *context, uint64_t limit_ns, bool beats);
/* All ranks have begun, so a rank that is silent from now on is missed. */
void gli_heartbeat_met(gloo_context *context);
/* Returns true if this rank was stopped for so long that others miss it, and
 * not long before now, or before the context failed. */
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
/* A flag in the slot of WAITING: the rank is in another collective, or in no
 * call, and so may still make the one that is asked about. */
enum { GLI_WAITING_MAY_COME = 4 };
/* A rank says whether it waits in the call that is asked about. */
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
