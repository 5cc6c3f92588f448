/* The rank at fault when an operation does not complete. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/exhaustion.h"
#include "engine/failure/failure.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/rma/rma.h"
#include "engine/run/run.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"

/* ---- late ranks ---------------------------------------------------------- */

/* Appends "rank 3, rank 5 and 2 more". */
static void blame_list_ranks(char *text, size_t room, const uint32_t *ranks,
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

/* Returns the header of a message from `rank` for a call that has not started
 * here, with any tag or the one given; NULL if there is none. */
static const gli_header *blame_early(const gloo_context *context, uint32_t rank,
                                     const uint32_t *tag) {
  size_t slots = gli_key_table_slots(&context->early);
  for (size_t i = 0; i < slots; i++) {
    gli_keyed *entry = gli_key_table_slot(&context->early, i);
    for (; entry != NULL; entry = entry->next) {
      const gli_early *p = gli_early_keyed(entry);
      const gli_header *h = &p->header;
      if (p->link->rank != rank || h->collective == GLI_SENDRECV) continue;
      if (tag == NULL || h->tag == *tag) return h;
    }
  }
  return NULL;
}

/* Appends a hint at a peer that sends for a later operation: it has finished
 * this one, and may have called something else here. */
static void hint_at_skipped(const gli_operation *op, uint32_t rank,
                            gloo_error *error) {
  char later[GLI_TEXT_BYTES];
  const gli_header *h = blame_early(op->context, rank, &op->signature.tag);
  if (h == NULL) return;
  size_t used = strlen(error->message);
  snprintf(error->message + used, sizeof error->message - used,
           "; rank %u has already called %s: do all ranks make the same calls?",
           rank, gli_describe_call(h, later));
}

/* ---- obstacles ----------------------------------------------------------- */

static bool link_obstacle(const gli_link *link, gli_obstacle *obstacle) {
  const gli_pair *pair = link != NULL ? link->group.base->pair : NULL;
  return pair != NULL && pair->ops->obstacle != NULL &&
         pair->ops->obstacle(pair, obstacle);
}

void gli_link_explain(const gli_link *link, gloo_error *error) {
  gli_obstacle o;
  if (!link_obstacle(link, &o) || o.lack != 0) return;
  size_t used = strlen(error->message);
  snprintf(error->message + used, sizeof error->message - used, "%s", o.text);
}

/* Returns the link to a rank by which an operation waits for it. */
static gli_link *blame_link(const gli_operation *op, uint32_t rank) {
  const gloo_context *root = op->context->family->root;
  return rank < root->size ? root->peers[rank].link : NULL;
}

/* Returns the link to the first rank that cannot be reached because this
 * process lacks a resource; NULL if there is none. */
static const gli_link *find_lacking(const gli_operation *op,
                                    const uint32_t *ranks, size_t n,
                                    int *code) {
  gli_obstacle o;
  for (size_t i = 0; i < n; i++) {
    const gli_link *link = blame_link(op, ranks[i]);
    if (!link_obstacle(link, &o) || o.lack == 0) continue;
    *code = o.lack;
    return link;
  }
  return NULL;
}

/* Returns true if this process keeps the operation from completing, because it
 * lacks a resource. */
static bool describe_lack(const gli_operation *op, gloo_error *error) {
  enum { ROOM = 64 };
  char call[GLI_TEXT_BYTES];
  uint32_t ranks[ROOM];
  int code = 0;
  size_t n = gli_operation_waits(op, GLI_SILENT, GLI_WITH_US, ranks, ROOM);
  const gli_link *link = find_lacking(op, ranks, n, &code);
  if (link == NULL) return false;
  gli_fail(error, gli_exhaustion_status(code), (int)op->context->root_rank,
           "%s timed out: rank %u cannot connect to rank %u: %s",
           gli_describe_call(&op->signature, call), op->context->root_rank,
           link->rank, gli_exhaustion_text(code));
  return true;
}

/* Appends the call of the first of `n` ranks if a message of it has arrived. */
static void blame_describe_other_call(const gli_operation *op,
                                      const uint32_t *ranks, size_t n,
                                      char *text, size_t room) {
  char call[GLI_TEXT_BYTES];
  const gli_header *h =
      n == 1 ? blame_early(op->context, ranks[0], NULL) : NULL;
  snprintf(text, room,
           n == 1 ? ", which is in a different call%s%s%s"
                  : ", which are in different calls%s%s%s",
           h != NULL ? " (" : "", h != NULL ? gli_describe_call(h, call) : "",
           h != NULL ? ")" : "");
}

void gli_describe_timeout(const gli_operation *op, gloo_error *error) {
  enum { ROOM = 64 };
  char call[GLI_TEXT_BYTES], who[160] = "any rank";
  uint32_t ranks[ROOM];
  if (op->odd & GLI_ODD_FLUSH) {
    gli_rma_flush_fail_late(op, error);
    return;
  }
  if (describe_lack(op, error)) return;
  /* A rank that waits for this one in another call does so whether or not a
   * third rank is late. */
  size_t n = gli_operation_waits(op, GLI_CROSSED, GLI_CROSSED, ranks, ROOM);
  bool elsewhere = n > 0;
  if (n == 0) n = gli_operation_waits(op, GLI_SILENT, GLI_SILENT, ranks, ROOM);
  if (n == 0) {
    n = gli_operation_waits(op, GLI_ELSEWHERE, GLI_ELSEWHERE, ranks, ROOM);
    elsewhere = n > 0;
  }
  if (n == 0)
    n = gli_operation_waits(op, GLI_WITH_US, GLI_WITH_US, ranks, ROOM);
  if (n > 0) blame_list_ranks(who, sizeof who, ranks, n);
  char after[32] = "";
  if (op->deadline.timeout_ns > 0)
    snprintf(after, sizeof after, " after %.3g s",
             (double)op->deadline.timeout_ns / 1e9);
  /* A group is made by all its members, so a rank that waits elsewhere is at
   * fault. */
  bool unclear = elsewhere && !op->context->is_control;
  char which[GLI_TEXT_BYTES + 48] = "";
  if (elsewhere) blame_describe_other_call(op, ranks, n, which, sizeof which);
  gli_fail(error, GLOO_ERR_TIMEOUT, n > 0 && !unclear ? (int)ranks[0] : -1,
           "%s timed out%s: rank %u is waiting for %s%s%s",
           gli_describe_call(&op->signature, call), after,
           op->context->root_rank, who, which,
           unclear ? "; the library cannot tell which rank is wrong" : "");
  if (n > 0 && !elsewhere && op->signature.collective != GLI_SENDRECV) {
    hint_at_skipped(op, ranks[0], error);
  }
  if (n > 0) gli_link_explain(blame_link(op, ranks[0]), error);
}
