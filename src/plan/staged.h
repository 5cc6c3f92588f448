/* Plans for buffers in memory of an accelerator (a GPU), which the host does
 * not touch: the plan runs on images of them in host memory, and additional
 * steps copy its inputs into the images before, and its results out of them
 * afterwards.
 *
 * An algorithm knows nothing of this. All that it reads of the buffers before
 * it writes to it is copied in, and all that it writes is copied out, in pieces
 * of gli_staged_piece() bytes at most. These steps take part in the order like
 * all others: a send waits for the pieces that it reads and for no more, and a
 * piece leaves when its last byte is there; so copies in both directions and
 * messages go on at the same time. There is one of these steps at least, a copy
 * of nothing where need be: so what must come before copies comes before the
 * end of every such plan.
 *
 * Other ranks see nothing of it: messages are the same, and ranks may differ in
 * where their buffers are. */
#ifndef GLI_PLAN_STAGED_H
#define GLI_PLAN_STAGED_H

#include "plan/raw.h"

/* The longest COPY_IN or COPY_OUT; whole elements. */
uint64_t gli_staged_piece(const gli_plan_params *p);

/* Add the copies that params.staged asks for to the steps of an algorithm. */
gloo_status gli_staged_add(gli_builder *b, gloo_error *error);

#endif
