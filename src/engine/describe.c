/* Sentences about calls and their failures. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/collective.h"
#include "core/error.h"
#include "engine/context.h"
#include "engine/describe.h"
#include "engine/link.h"
#include "engine/match.h"
#include "engine/operation.h"

/* Where two ranks alone know how much they exchange, see check_pair. */
bool gli_signature_equal(const gli_header *a, const gli_header *b) {
  gli_header of_b = *b;
  if (gli_collective_pairwise((gli_collective)a->collective)) {
    of_b.count = a->count;
  }
  return gli_signature_same(a, &of_b);
}

const char *gli_describe_call(const gli_header *h, char text[GLI_TEXT_BYTES]) {
  gli_collective collective = (gli_collective)h->collective;
  int n = snprintf(
      text, GLI_TEXT_BYTES, "%s #%" PRIu64,
      collective == GLI_SENDRECV ? "message" : gli_collective_name(collective),
      h->operation);
  char *at = text + n;
  size_t room = GLI_TEXT_BYTES - (size_t)n;
  char tag[32] = "";
  if (h->tag != 0) snprintf(tag, sizeof tag, ", tag %u", h->tag);
  if (collective == GLI_BARRIER) {
    if (h->tag != 0) snprintf(at, room, " (tag %u)", h->tag);
    return text;
  }
  char root[32] = "";
  if (gli_collective_rooted(collective)) {
    bool custom = gli_signature_op(h) == GLOO_CUSTOM;
    uint32_t mask = custom ? (UINT32_C(1) << GLI_ROOT_BITS) - 1 : UINT32_MAX;
    snprintf(root, sizeof root, ", root %u", h->root & mask);
  }
  bool reduces = gli_collective_reduces(collective);
  char count[32] = "";
  if (!gli_collective_pairwise(collective)) {
    snprintf(count, sizeof count, "%" PRIu64 " x ", h->count);
  }
  bool ordered = reduces && (h->op & GLI_OP_ORDERED) != 0;
  snprintf(at, room, " (%s%s%s%s%s%s%s)", count,
           gloo_dtype_name((gloo_dtype)h->dtype), reduces ? ", " : "",
           reduces ? gloo_op_name(gli_signature_op(h)) : "",
           ordered ? ", ordered" : "", root, tag);
  return text;
}

void gli_describe_mismatch(const gloo_context *context, uint32_t peer,
                           const gli_header *mine, const gli_header *theirs,
                           gloo_error *error) {
  char here[GLI_TEXT_BYTES], there[GLI_TEXT_BYTES];
  gli_describe_call(mine, here);
  gli_describe_call(theirs, there);
  const char *hint = "";
  if (strcmp(here, there) == 0) {
    bool custom = gli_signature_op(mine) == GLOO_CUSTOM;
    hint = mine->algorithm != theirs->algorithm
               ? " with another algorithm"
               : " with another table of tuning";
    if (mine->root != theirs->root) {
      hint = custom ? " with another custom operation"
                    : " with other counts of single ranks";
    }
  }
  gli_fail(error, GLOO_ERR_MISMATCH, (int)peer,
           "rank %u called %s where rank %u called %s%s; all ranks must make "
           "the same calls in the same order",
           context->root_rank, here, peer, there, hint);
}

/* Append "rank 3, rank 5 and 2 more". */
static void list_ranks(char *text, size_t room, const uint32_t *ranks,
                       size_t n) {
  size_t shown = n < 6 ? n : 6;
  size_t used = 0;
  for (size_t i = 0; i < shown && used < room; i++) {
    int wrote = snprintf(text + used, room - used, "%srank %u",
                         i == 0 ? "" : ", ", ranks[i]);
    used += (size_t)wrote;
  }
  if (n > shown && used < room) {
    snprintf(text + used, room - used, " and %zu more", n - shown);
  }
}

bool gli_operation_waits_for(const gloo_operation *op, uint32_t peer) {
  const gli_plan_peer *p = &op->plan->peers[peer];
  for (uint32_t slot = 0; slot < p->recvs; slot++) {
    uint8_t state = op->recv_state[op->plan->recv_steps[p->first_recv + slot]];
    if (state != GLI_RECV_UNREADY && state != GLI_RECV_DONE) return true;
  }
  const gli_link *link = op->peers[peer].link;
  const gli_transfer_list *lists[] = {&link->blocked, &link->again,
                                      &link->flying, &link->shown};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    for (const gli_transfer *t = lists[i]->first; t; t = t->next) {
      if (t->operation == op) return true;
    }
  }
  return false;
}

/* A peer that sends for a later operation has left this one behind: it may have
 * called something else here. */
static void hint_at_skipped(const gloo_operation *op, uint32_t rank,
                            gloo_error *error) {
  const gloo_context *context = op->context;
  for (size_t i = 0; i < GLI_BUCKETS; i++) {
    for (const gli_parked *p = context->parked[i]; p; p = p->next) {
      const gli_header *h = &p->header;
      if (p->link->rank != rank || h->tag != op->signature.tag) continue;
      if (h->collective == GLI_SENDRECV) continue;
      char later[GLI_TEXT_BYTES];
      size_t used = strlen(error->message);
      snprintf(error->message + used, sizeof error->message - used,
               "; rank %u is at %s already: did it make the same calls?", rank,
               gli_describe_call(h, later));
      return;
    }
  }
}

static size_t waited_ranks(const gloo_operation *op, bool guilty_only,
                           uint32_t *ranks, size_t room) {
  size_t n = 0;
  if (op->state == GLI_OPERATION_POSTED) {
    const gli_peer *peers = op->context->peers;
    if (op->p2p_peer >= 0) ranks[n++] = peers[op->p2p_peer].rank;
    for (size_t i = 0; i < op->n_candidates && n < room; i++) {
      ranks[n++] = peers[op->candidates[i]].rank;
    }
    return n;
  }
  for (uint32_t i = 0; i < op->plan->n_peers && n < room; i++) {
    if (guilty_only && op->peers[i].innocent) continue;
    if (gli_operation_waits_for(op, i)) ranks[n++] = op->peers[i].link->rank;
  }
  return n;
}

void gli_describe_timeout(const gloo_operation *op, gloo_error *error) {
  enum { ROOM = 64 };
  char call[GLI_TEXT_BYTES], who[160] = "any rank";
  uint32_t ranks[ROOM];
  size_t n = waited_ranks(op, true, ranks, ROOM);
  if (n == 0) n = waited_ranks(op, false, ranks, ROOM);
  if (n > 0) list_ranks(who, sizeof who, ranks, n);
  gli_fail(error, GLOO_ERR_TIMEOUT, n > 0 ? (int)ranks[0] : -1,
           "%s did not complete within %.3g s: rank %u still waits for %s",
           gli_describe_call(&op->signature, call),
           (double)op->timeout_ns / 1e9, op->context->root_rank, who);
  if (n > 0 && op->signature.collective != GLI_SENDRECV) {
    hint_at_skipped(op, ranks[0], error);
  }
}
