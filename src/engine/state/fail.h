/* Failures are recorded here, and handled when the current poll has ended
 * (contexts/close.c). */
#ifndef GLI_ENGINE_STATE_FAIL_H
#define GLI_ENGINE_STATE_FAIL_H

#include "engine/state/context.h"

/* The time for a peer that knows the reason to report it after a rank has left:
 * longer than a dispute takes (failure/dispute.c). */
#define GLI_MISSED_NS UINT64_C(250000000)

/* Fails all contexts of the family with the first error, because a pair cannot
 * forget what one of them has begun. Operations end, and links close, in
 * gli_context_finish_teardown, since a transport must not lose a pair within
 * its own calls; until then no message finds an operation. */
void gli_context_poison(gloo_context *context, const gloo_error *cause);
/* Records that the context has failed with all of its family, and does nothing
 * else. */
void gli_context_set_cause(gloo_context *root, const gloo_error *cause);
/* Records a refused call, unless the context has failed. */
void gli_context_note_refused(gloo_context *context, const gloo_error *error);
/* Sets whether the root is polled for while the program makes no calls. A
 * failed root is, until it ends or has a successor. */
void gli_context_attend(gloo_context *root, bool attended);
/* Fills the error of a call that wants to use a failed context. */
gloo_status gli_context_unusable(const gloo_context *context,
                                 gloo_error *error);
/* Records that a link has broken. For a moment, a better reason may replace the
 * cause. */
void gli_link_suspect(gli_link *link, const gloo_error *cause);
/* Records that the rank of this link has left in order while `called` needs it.
 * The rank may have finished what others still disagree about. */
void gli_link_missed(gli_link *link, const gli_header *called,
                     const gloo_error *cause);

/* Begins a dispute: the rank of this link called `theirs` where this one called
 * `mine` (NULL if forgotten), as `error` describes. Returns true if the context
 * fails once others have been asked. Returns false if there is no rank to ask:
 * then `error` names no rank, and the caller fails the context. */
bool gli_link_disputes(gli_link *link, const gli_header *mine,
                       const gli_header *theirs, gloo_error *error);
/* Counts the answer of a rank in a dispute, or about a rank that left. */
void gli_link_votes(gli_link *link, const gli_header *called);
/* Removes the rank at fault from an error, because it is unknown. */
void gli_error_undecided(gloo_error *error);

#endif
