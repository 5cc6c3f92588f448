/* Plans for buffers in memory of an accelerator (a GPU), which the host does
 * not touch: the plan runs on images of the buffers in host memory, and
 * additional steps copy its inputs into the images before, and its results out
 * of them afterwards.
 *
 * An algorithm does not know about this. Bytes that it reads before it writes
 * them are copied in, and bytes that it writes are copied out, in pieces of at
 * most gli_staged_piece() bytes. These steps are ordered like all others: a
 * send waits only for the pieces that it reads, and a piece is copied out once
 * its last byte is final; so copies in both directions and messages overlap.
 * Every such plan has at least one of these steps, if necessary a copy of
 * nothing, so that whatever must precede the copies also precedes the end of
 * the plan.
 *
 * Other ranks do not notice: messages are the same, and ranks may differ in
 * where their buffers are. */
#ifndef GLI_PLAN_STAGED_H
#define GLI_PLAN_STAGED_H

#include "plan/raw.h"

/* Returns the length of the longest COPY_IN or COPY_OUT, in whole elements. */
uint64_t gli_staged_piece(const gli_plan_params *p);

/* Adds the copies that params.staged requires to the steps of an algorithm. */
gloo_status gli_staged_add(gli_builder *b, gloo_error *error);

#endif
