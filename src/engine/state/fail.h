/* Failures: they are recorded here, and handled when the poll under way has
 * ended (contexts/close.c). */
#ifndef GLI_ENGINE_STATE_FAIL_H
#define GLI_ENGINE_STATE_FAIL_H

#include "engine/state/context.h"

/* The time for that where a rank has left: longer than disputes take
 * (failure/dispute.c). */
#define GLI_MISSED_NS UINT64_C(250000000)

/* Fails all contexts of the family with the first error, because a pair cannot
 * forget what one of them has begun. Operations end, and links close, in
 * gli_context_finish_teardown, since a transport must not lose a pair within
 * its own calls; until then no message finds an operation. */
void gli_context_poison(gloo_context *context, const gloo_error *cause);
/* Records only that the context has failed, with all of its family. */
void gli_context_set_cause(gloo_context *root, const gloo_error *cause);
/* A call was refused: that is news, as long as nothing worse has happened. */
void gli_context_note_refused(gloo_context *context, const gloo_error *error);
/* Is it to be polled for while the program makes no calls? A root that has
 * failed is, until it ends or has a successor. */
void gli_context_attend(gloo_context *root, bool attended);
/* The error of a call that wants to use it then. */
gloo_status gli_context_unusable(const gloo_context *context,
                                 gloo_error *error);
/* A link does not work any more; a better reason may come within a moment. */
void gli_link_suspect(gli_link *link, const gloo_error *cause);
/* The rank of this link has left in order, and `called` needs it. It may have
 * been done with what others still disagree about. */
void gli_link_missed(gli_link *link, const gli_header *called,
                     const gloo_error *cause);

/* Begins a dispute: the rank of this link called `theirs` where this one called
 * `mine` (NULL: forgotten), as `error` says. Returns true if the context fails
 * when others have been asked who is wrong. False: there is no rank to ask,
 * `error` names no rank any more, and the caller fails the context. */
bool gli_link_disputes(gli_link *link, const gli_header *mine,
                       const gli_header *theirs, gloo_error *error);
/* Counts the answer of a rank in a dispute, or about a rank that left. */
void gli_link_votes(gli_link *link, const gli_header *called);
/* Removes the rank at fault from an error, because it is unknown. */
void gli_error_undecided(gloo_error *error);

#endif
