/* Failures: what goes wrong is recorded here, and acted on when the poll that
 * is under way is over (contexts/close.c). */
#ifndef GLI_ENGINE_STATE_FAIL_H
#define GLI_ENGINE_STATE_FAIL_H

#include "engine/state/context.h"

/* How long one that left waits for that: longer than others disagree
 * (contexts/dispute.c). */
#define GLI_MISSED_NS UINT64_C(250000000)

/* The first error wins, and takes all contexts of the family with it, for a
 * pair cannot be made to forget what one of them has begun. Operations end, and
 * links are closed, in gli_context_finish_teardown, for a transport must not
 * lose a pair from under its feet; until then no message finds an operation. */
void gli_context_poison(gloo_context *context, const gloo_error *cause);
/* No more than that it has failed, and all of the family. */
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

/* The rank of this link called `theirs` where this one called `mine` (NULL: not
 * known any more), and `error` says so. True: the context fails of that when
 * others have been asked who is wrong. False: there is nobody to ask, so nobody
 * is named in `error` any more, and the caller is to see to it. */
bool gli_link_disputes(gli_link *link, const gli_header *mine,
                       const gli_header *theirs, gloo_error *error);
/* A rank has called that, in a dispute or where one that left is missed. */
void gli_link_votes(gli_link *link, const gli_header *called);
/* Which of the two is wrong is not known. */
void gli_error_undecided(gloo_error *error);

#endif
