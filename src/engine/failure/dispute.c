/* Disputes: two ranks made different calls at one position of their order.
 *
 * Neither can know which call is wrong. So the context continues for a moment,
 * and the rank that detected the dispute asks its connected peers (ASK) for
 * their calls at that position; ranks that have made a call there answer
 * (CALLED). A rank outside the majority is wrong, and is named. Without a
 * majority, as always with two ranks, no rank is named, and the message says
 * so. Several ranks may detect the dispute at once: ranks with a majority fail
 * the context first, so that all name the same rank. */
#include "core/error.h"
#include "engine/failure/failure.h"
#include "engine/match/match.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

#include <stdio.h>
#include <string.h>

/* The time to find a majority of all ranks, and after that a majority of the
 * ranks that have answered. A rank without a majority leaves time to those that
 * have one. */
#define DISPUTE_ALL_NS UINT64_C(50000000)
#define DISPUTE_HEARD_NS UINT64_C(150000000)
/* The interval, which grows, at which a rank that has not made the call yet is
 * asked again. */
#define DISPUTE_AGAIN_NS UINT64_C(2000000)
/* The least number of ranks to ask, because a rank that has made few calls has
 * few connections. */
#define DISPUTE_ASKED_MIN 2

static void ask_link(gli_dispute *d, gli_link *link) {
  if (link->self || link->pair == NULL || link->failed) return;
  if (link->local == GLI_NO_RANK || link->leaving.departed) return;
  if (link->vote == GLI_HAS_SAID) return;
  if (link->vote == GLI_NOT_ASKED) d->asked++;
  link->vote = GLI_ASKED;
  gli_wire_control(link, GLI_MESSAGE_ASK, &d->mine, 0);
}

static void ask_others(gloo_context *context) {
  gloo_error ignored;
  gli_dispute *d = &context->dispute;
  for (gli_link *link = context->links; link != NULL; link = link->next)
    ask_link(d, link);
  for (uint32_t i = 1; i < context->size && d->asked < DISPUTE_ASKED_MIN; i++) {
    uint32_t rank = (context->rank + i) % context->size;
    gli_link *link = gli_context_link(context, rank, &ignored);
    if (link != NULL && link->vote == GLI_NOT_ASKED) ask_link(d, link);
  }
}

static void begin_dispute(gloo_context *root, gli_dispute *d, uint64_t now_ns) {
  d->heard_ns = now_ns + DISPUTE_ALL_NS;
  d->pause_ns = DISPUTE_AGAIN_NS;
  d->again_ns = now_ns;
  root->suspect_ns = now_ns + DISPUTE_HEARD_NS;
}

/* Ends the dispute: `rank` is at fault. */
static void decide_dispute(gloo_context *root, int rank) {
  const gli_dispute *d = &root->suspected->dispute;
  gloo_error *error = &root->suspect;
  size_t used = strlen(error->message);
  error->rank = error->root_rank = rank;
  snprintf(
      error->message + used, sizeof error->message - used,
      "; of %u ranks that replied, %u made the first call and %u the second",
      d->with_us + d->with_them + d->elsewhere, d->with_us, d->with_them);
}

uint64_t gli_dispute_turn(gloo_context *root, uint64_t now_ns) {
  gloo_context *context = root->suspected;
  gli_dispute *d = &context->dispute;
  if (d->pause_ns == 0) begin_dispute(root, d, now_ns);
  if (now_ns >= d->again_ns) {
    ask_others(context);
    d->again_ns = now_ns + d->pause_ns;
    d->pause_ns *= 2;
  }
  uint32_t heard = d->with_us + d->with_them + d->elsewhere;
  /* Ranks without an answer cannot change a majority. */
  uint32_t most = (now_ns >= d->heard_ns ? heard : context->size) / 2;
  if (d->with_us > most)
    decide_dispute(root, (int)d->peer);
  else if (d->with_them > most)
    decide_dispute(root, (int)context->root_rank);
  else if (heard >= context->size || now_ns >= root->suspect_ns)
    gli_error_undecided(&root->suspect);
  else
    return d->again_ns < root->suspect_ns ? d->again_ns : root->suspect_ns;
  root->suspect_ns = now_ns;
  return now_ns;
}

gloo_status gli_dispute_asked(gli_link *link, const gli_header *header,
                              gloo_error *error) {
  gli_header own;
  if (!gli_match_own(link, header, &own))
    return GLOO_OK; /* silence is the answer */
  return gli_wire_answer(link, GLI_MESSAGE_CALLED, &own, error);
}
