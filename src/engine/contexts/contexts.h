/* Contexts and groups: their creation, and their end. */
#ifndef GLI_ENGINE_CONTEXTS_CONTEXTS_H
#define GLI_ENGINE_CONTEXTS_CONTEXTS_H

#include "engine/contexts/settings.h"
#include "engine/state/context.h"

/* ---- memory (context_memory.c) ------------------------------------------- */

/* Allocate and free a context of any kind, of `size` ranks. */
gloo_context *gli_context_new(gloo_device *device, uint32_t size);
/* Returns a root, which is listed from now on; see gli_context_open. */
gloo_context *gli_context_new_root(gloo_device *device, uint32_t rank,
                                   uint32_t size, uint64_t key,
                                   const uint8_t *job_key);
void gli_context_free(gloo_context *context);

/* ---- the end (close.c) --------------------------------------------------- */

/* The maximum payload of an ABORT. */
#define GLI_ABORT_MAX (8u + GLOO_ERROR_MESSAGE_BYTES)

/* Fills the cause of an abort by this rank. The reason may be NULL or empty. */
void gli_context_describe_abort(const gloo_context *context, const char *reason,
                                gloo_error *cause);
/* Takes the failure function, so that a single thread calls it. Returns NULL if
 * the function is not set, or was called. */
gli_snapshot_fn gli_family_take_on_failure(gli_family *family);
/* Ends the operations and closes the links of a context whose failure was
 * recorded. Called again for a peer that comes later. */
void gli_context_finish_teardown(gloo_context *context);
/* Says farewell on all links of a root without operations and groups, and frees
 * them. */
void gli_context_leave_links(gloo_context *root);
/* Returns true if operations of the context, or of its control context, are
 * pending. */
bool gli_context_is_busy(const gloo_context *context);
/* Detaches the operations that the caller still holds. They remain as
 * results. */
void gli_context_detach_operations(gloo_context *context);
/* Ends a context. Returns true if that ended the family as well. */
bool gli_context_end(gloo_context *context);

/* ---- groups (group_context.c) -------------------------------------------- */

/* Returns a new group; NULL with `error` if out of memory. */
gloo_context *gli_group_new(gloo_context *parent, gloo_error *error);
gloo_context *gli_group_control(gloo_context *context, gloo_error *error);
gloo_status gli_group_set_members(gloo_context *group,
                                  const gloo_context *parent,
                                  const gli_member *members, uint32_t n,
                                  uint32_t own, gloo_error *error);
/* Returns the link of the group that a message on a link of the root belongs
 * to. Returns NULL if the group has ended or never existed, or (with `error`)
 * if the message is malformed. */
gli_link *gli_group_find_link(gli_link *base_link, const gli_header *header,
                              gloo_error *error);
/* Destroys a group. */
void gli_group_close(gloo_context *group);

/* ---- the end of links of groups (group_links.c) -------------------------- */

/* Closes a link that is no longer in the list of its group, once nothing is
 * pending on it. */
void gli_group_drain_link(gloo_context *group, gli_link *link);
/* Ends draining links that have nothing pending. */
void gli_group_reap(gli_family *family);
/* Tells the peer that the group of its message has ended. */
gloo_status gli_group_is_gone(gli_link *base_link, const gli_header *header,
                              gli_sink *sink, gloo_error *error);
/* Takes DEPARTED: a rank has left this context. Messages on other streams may
 * still arrive. */
void gli_group_departs(gli_link *link, const gli_header *header);
void gli_group_check_departing(gli_link *link);
/* Ends the links of groups whose pair has ended. */
void gli_group_base_departed(gli_link *base_link);
void gli_group_drop_links(gli_family *family);
/* Sends DEPARTED to all peers. */
void gli_group_say_departed(gloo_context *context);
/* Discards a payload. */
void gli_sink_nowhere(gli_sink *sink, uint64_t bytes);

/* ---- ranks that leave (departed.c) --------------------------------------- */

/* Takes the final departure of a rank. If an operation still needs it, the
 * search for the rank at fault begins. */
void gli_link_departed(gli_link *link);

#endif
