/* Contexts and groups: their creation, and their end. */
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

#endif
