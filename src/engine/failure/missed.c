/* A rank that left in order while a collective here needs it.
 *
 * Either it left too early, or this rank alone has called the collective: ranks
 * that succeeded leave one after the other then. So this rank asks the others
 * whether they have called it (ASK), and whether they wait in another call
 * (PROBE). A rank in an earlier collective may still come to it, and does not
 * count. If several ranks have left without it or wait for a message, and
 * outnumber the ranks that have called it, no rank is named. First a moment
 * passes, because a rank that waits for a message from the departed rank knows
 * more. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "engine/failure/failure.h"
#include "engine/match/match.h"
#include "engine/run/run.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

static void missed_ask(gloo_context *context) {
  for (gli_link *link = context->links; link != NULL; link = link->next) {
    link->vote = GLI_NOT_ASKED;
    if (link->self || link->failed || link->leaving.departed) continue;
    link->vote = GLI_ASKED;
    gli_wire_control(link, GLI_MESSAGE_ASK, &context->dispute.mine, 0);
    gli_wire_control(link, GLI_MESSAGE_PROBE, &context->dispute.mine, 0);
  }
}

void gli_missed_answered(gli_link *link, const gli_header *header) {
  gloo_context *context = link->context;
  const gloo_context *root = context->family->root;
  gli_dispute *d = &context->dispute;
  if (!root->misses || root->suspected != context) return;
  if (link->vote != GLI_ASKED || d->mine.operation != header->operation ||
      d->mine.tag != header->tag)
    return;
  link->vote = GLI_HAS_SAID;
  if (header->slot == 0)
    d->with_us++;
  else if ((header->slot & GLI_WAITING_MAY_COME) == 0)
    d->elsewhere++;
}

/* Counts departed ranks that the collective needs. Other departed ranks have
 * called it, or it does not know them. */
static uint32_t missed_count_left(const gloo_context *context) {
  const gli_operation *op =
      context->links != NULL
          ? gli_match_operation(context->links, &context->dispute.mine)
          : NULL;
  if (op == NULL) return 1;
  uint32_t n = 0;
  for (uint32_t i = 0; i < op->plan->n_peers; i++)
    n += gli_operation_needs(op, i) && op->peers[i].link->leaving.departed;
  return n;
}

static void missed_name_none(gloo_error *error, const gli_dispute *d,
                             uint32_t left) {
  size_t used = strlen(error->message);
  error->status = GLOO_ERR_MISMATCH;
  error->rank = error->root_rank = -1;
  snprintf(
      error->message + used, sizeof error->message - used,
      "; of %u ranks that replied, %u made this call, %u wait in other calls "
      "and %u have left, so the library cannot tell which made the wrong call",
      d->with_us + d->elsewhere + left, d->with_us, d->elsewhere, left);
}

uint64_t gli_missed_turn(gloo_context *root, uint64_t now_ns) {
  gloo_context *context = root->suspected;
  gli_dispute *d = &context->dispute;
  if (d->heard_ns == 0) {
    d->heard_ns = root->suspect_ns;
    missed_ask(context);
  }
  if (now_ns < root->suspect_ns) return root->suspect_ns;
  uint32_t left = missed_count_left(context);
  bool alone = left + d->elsewhere > 1 && left + d->elsewhere > d->with_us;
  if (alone && root->suspect_ns == d->heard_ns) {
    root->suspect_ns = now_ns + GLI_MISSED_NS;
    return root->suspect_ns;
  }
  if (alone) missed_name_none(&root->suspect, d, left);
  root->misses = false;
  return now_ns;
}
