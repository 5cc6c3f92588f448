#include "engine/state/fail.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/log.h"
#include "engine/state/device.h"
#include "engine/state/signature.h"

/* The time for a peer that knows the reason of a lost connection to report
 * it. */
#define SUSPECT_NS UINT64_C(50000000)

gloo_status gli_context_unusable(const gloo_context *context,
                                 gloo_error *error) {
  if (context->cause.status == GLOO_ERR_FORKED) {
    if (error != NULL) *error = context->cause;
    return GLOO_ERR_FORKED;
  }
  gli_fail(error, GLOO_ERR_POISONED, context->cause.rank,
           "the context is unusable: %s", context->cause.message);
  if (error != NULL) error->cause = context->cause.status;
  return GLOO_ERR_POISONED;
}

static void fail_set_cause(gloo_context *context, const gloo_error *cause) {
  context->cause = *cause;
  gli_posted_put(&context->news, cause);
}

void gli_context_set_cause(gloo_context *root, const gloo_error *cause) {
  fail_set_cause(root, cause);
  for (gloo_context *g = root->family->groups; g != NULL; g = g->next)
    fail_set_cause(g, cause);
}

void gli_context_note_refused(gloo_context *context, const gloo_error *error) {
  if (!gli_context_poisoned(context)) gli_posted_put(&context->news, error);
}

void gli_context_attend(gloo_context *root, bool attended) {
  if (root->attended == attended) return;
  root->attended = attended;
  if (attended)
    root->device->attended++;
  else
    root->device->attended--;
}

void gli_context_poison(gloo_context *context, const gloo_error *cause) {
  if (gli_context_poisoned(context)) return;
  gli_family *family = context->family;
  gloo_error told = *cause;
  char where[48] = "";
  if (context->is_control) {
    snprintf(where, sizeof where, "while creating a group: ");
  } else if (!gli_context_is_root(context)) {
    snprintf(where, sizeof where, "in a group of %u ranks: ", context->size);
  }
  gli_error_prefix(&told, "%s", where);
  gli_context_set_cause(family->root, &told);
  family->root->teardown_pending = true;
  if (family->root->shrink == NULL) gli_context_attend(family->root, true);
  context->device->teardowns_pending = 1;
  for (gli_operation *op = family->active.first; op != NULL;
       op = op->active_next) {
    if (op->in_order.active) gli_in_order_stop(op);
  }
  gli_operation *unlisted = context->device->unlisted;
  if (unlisted != NULL && unlisted->context->family == family) {
    gli_in_order_stop(unlisted);
  }
  gli_log(GLOO_LOG_INFO, "rank %u: the context failed: %s", context->root_rank,
          told.message);
}

static void fail_suspect(gloo_context *context, const gloo_error *cause,
                         uint64_t moment_ns) {
  gloo_context *root = context->family->root;
  gloo_device *device = root->device;
  root->suspect = *cause;
  root->suspected = context;
  root->suspect_ns = device->ops->now_ns(device->transport) + moment_ns;
  device->suspects = device->leftovers = true;
}

/* Suspects the rank of a lost connection. A rank that fails reports the reason
 * to the ranks that it is connected to, and ends. To the others it looks as if
 * it had died: they wait a moment for the reason from another rank. */
void gli_link_suspect(gli_link *link, const gloo_error *cause) {
  gloo_context *root = link->context->family->root;
  if (root->suspect.status != GLOO_OK) return;
  fail_suspect(root, cause, SUSPECT_NS);
}

void gli_link_missed(gli_link *link, const gli_header *called,
                     const gloo_error *cause) {
  gloo_context *context = link->context, *root = context->family->root;
  if (root->suspect.status != GLOO_OK) return;
  fail_suspect(context, cause, GLI_MISSED_NS);
  if (called->collective == GLI_SENDRECV) return; /* between two ranks */
  context->dispute = (gli_dispute){.mine = *called, .with_us = 1};
  root->misses = true;
}

/* ---- disputes ------------------------------------------------------------ */

void gli_error_undecided(gloo_error *error) {
  size_t used = strlen(error->message);
  error->rank = error->root_rank = -1;
  snprintf(error->message + used, sizeof error->message - used,
           "; the library cannot tell which rank is wrong");
}

static bool fail_is_same_call(const gli_header *a, const gli_header *b) {
  return a->operation == b->operation && a->tag == b->tag;
}

void gli_link_votes(gli_link *link, const gli_header *called) {
  gloo_context *context = link->context;
  gli_dispute *d = &context->dispute;
  const gloo_context *root = context->family->root;
  if (!root->disputes && !root->misses) return;
  if (root->suspected != context) return;
  if (link->vote == GLI_HAS_SAID || !fail_is_same_call(&d->mine, called))
    return;
  link->vote = GLI_HAS_SAID;
  if (gli_signature_equal(&d->mine, called))
    d->with_us++;
  else if (gli_signature_equal(&d->theirs, called))
    d->with_them++;
  else
    d->elsewhere++;
}

bool gli_link_disputes(gli_link *link, const gli_header *mine,
                       const gli_header *theirs, gloo_error *error) {
  gloo_context *context = link->context, *root = context->family->root;
  bool alone = mine == NULL || context->size < 3 ||
               theirs->collective == GLI_SENDRECV ||
               gli_signature_equal(mine, theirs);
  if (root->disputes) { /* found earlier */
    gli_link_votes(link, theirs);
    return true;
  }
  if (alone) {
    gli_error_undecided(error);
    return false;
  }
  for (gli_link *l = context->links; l != NULL; l = l->next)
    l->vote = GLI_NOT_ASKED;
  link->vote = GLI_HAS_SAID;
  context->dispute = (gli_dispute){.mine = *mine,
                                   .theirs = *theirs,
                                   .peer = link->rank,
                                   .with_us = 1,
                                   .with_them = 1};
  fail_suspect(context, error, SUSPECT_NS);
  root->disputes = true;
  root->misses = false;
  return true;
}
