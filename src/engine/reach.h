/* Memory of other ranks: messages that only say where bytes lie, and plans that
 * read and write what a peer has lent (reach.c says how). */
#ifndef GLI_ENGINE_REACH_H
#define GLI_ENGINE_REACH_H

#include "engine/link.h"
#include "plan/plan.h"

/* A view or a loan of a plan. */
typedef struct gli_op_place {
  gli_link *link;
  uint8_t *memory;    /* NULL: a view to be fetched; a loan out of reach */
  uint64_t reference; /* of a view */
  bool shown;         /* a view of the peer's memory, not of bytes it sent */
  bool filled;        /* a loan: the result is there */
} gli_op_place;

/* Memory of this rank or a peer. */
typedef struct gli_source {
  gli_pair *pair;
  const uint8_t *memory; /* NULL: fetch it */
  uint64_t reference;
} gli_source;

/* Room for the operands of one step. */
typedef struct gli_operands {
  size_t n, n_to, n_lent; /* of `to`, the first n_lent are other ranks' */
  bool fetches;
  gli_source *from;
  uint8_t **room; /* to fetch to; NULL where mapped */
  uint8_t **to;
  const void **srcs; /* for the kernel */
  void **dsts;
} gli_operands;

/* Messages up to this long always go as bytes. Transports have limits of their
 * own. */
#define GLI_REFER_BYTES ((uint64_t)256)

/* ---- showing own memory (show.c) ----------------------------------------- */

/* Is a message of plain bytes, longer than that, better referred to? */
bool gli_reach_refers(const gloo_operation *op, uint32_t step, gli_link *link,
                      const void *memory, uint64_t bytes);
/* How the message of a send step goes: sets form, length and payload. */
void gli_reach_offer(gli_transfer *t);
/* What the peer was shown as that message; NULL: it is not. */
gli_transfer *gli_reach_find_shown(const gli_link *link,
                                   const gli_header *header);
gloo_status gli_reach_taken(gli_link *link, const gli_header *header,
                            gloo_error *error);
/* The peer has left in order: it needs nothing more of what it was shown. */
void gli_reach_left(gli_link *link);
/* The operation failed: no peer may write to its memory any more. */
void gli_reach_recall(gloo_operation *op);

/* ---- taking from a peer's (reach.c) -------------------------------------- */

/* Can this message be the one that a receive step waits for? */
bool gli_reach_fits(const gloo_operation *op, uint32_t step,
                    const gli_header *header);
/* A message that is not for a plain receive of bytes is here. False when its
 * step is not done: the peer helps with it, or the context has failed, or will.
 */
bool gli_reach_arrived(gloo_operation *op, uint32_t step, uint8_t form,
                       const uint8_t *payload);
/* What a receive step took from the peer's memory is here, all of it: say so,
 * and true; false: it was taken back meanwhile. */
bool gli_reach_took(gloo_operation *op, uint32_t step);
/* Is it one? */
static inline bool gli_reach_is_plain(const gli_step *s, uint8_t form) {
  return form == GLI_FORM_BYTES && s->role == GLI_ROLE_BYTES;
}
/* A local step of several operands, views or loans. */
bool gli_reach_combine(gloo_operation *op, uint32_t step);

/* ---- copies that both ends make (help.c) --------------------------------- */

typedef enum gli_helping {
  GLI_HELP_NONE,    /* nothing has been done */
  GLI_HELP_NOT_YET, /* gli_help_ended goes on */
  GLI_HELP_DONE
} gli_helping;

/* Will this rank help to copy what a step shows? */
bool gli_help_offers(const gloo_operation *op, uint32_t step);
/* Copy what a receive step expects from the peer's memory, with its help. */
gli_helping gli_help_copy(gloo_operation *op, uint32_t step,
                          const gli_source *from);
void gli_help_wanted(gli_link *link, const gli_header *header);
gloo_status gli_help_ended(gli_link *link, const gli_header *header,
                           gloo_error *error);
/* The operation failed: the peer may not write to its memory any more. */
void gli_help_recall(gloo_operation *op);

#endif
