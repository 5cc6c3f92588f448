/* Memory of this rank that others may read or write (fetch.c): what is sent is
 * only where it lies. Until they say TAKEN, or a later message of the plan
 * gives it back, the step is not done. */
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "engine/memory/memory.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"
#include "memory/region.h"

/* See is_better_copied: up to how many bytes. */
#define COPY_ONE ((uint64_t)64 * 1024)
#define COPY_LAST ((uint64_t)16 * 1024)
#define COPY_ANY ((uint64_t)4 * 1024)

/* ---- sending ------------------------------------------------------------- */

static bool refer(gli_transfer *t, const void *memory, uint64_t bytes,
                  bool write) {
  gli_pair *pair = t->link->pair;
  uint64_t reference = 0;
  if (!pair || !pair->ops->refer) return false;
  if (!pair->ops->refer(pair, memory, (size_t)bytes, write, &reference)) {
    return false;
  }
  gli_put_u64(t->reference, reference);
  return true;
}

static void by_reference(gli_transfer *t) {
  t->request.header.length = GLI_REFERENCE_BYTES;
  t->request.payload = t->reference;
}

/* A loan goes back; true when the peer has the bytes already. */
static bool is_placed(gloo_operation *op, const gli_step *s,
                      const void *memory) {
  gli_op_place *place = &op->places[s->place];
  if (!place->memory) return false;
  if (!place->filled) memcpy(place->memory, memory, (size_t)s->bytes);
  return true;
}

/* Who has only to send is done with what is copied, but with what is shown only
 * after the peers' turns, where ranks take turns on cores. Who has to receive
 * waits for them anyway, and a copy pays only while it is short. */
static bool is_better_copied(const gloo_operation *op, uint32_t step,
                             uint64_t bytes) {
  if (!op->context->crowded || bytes > COPY_ONE) return false;
  if (step < op->receives_until) return bytes <= COPY_ANY;
  return op->last_sends == 1 || bytes <= COPY_LAST;
}

bool gli_reach_refers(const gloo_operation *op, uint32_t step, gli_link *link,
                      const void *memory, uint64_t bytes) {
  gli_pair *pair = link->pair;
  uint64_t reference;
  return pair->ops->refer && !is_better_copied(op, step, bytes) &&
         pair->ops->refer(pair, memory, (size_t)bytes, false, &reference);
}

void gli_reach_offer(gli_transfer *t) {
  gloo_operation *op = t->operation;
  const gli_step *s = &op->plan->steps[t->step];
  gli_header *h = &t->request.header;
  h->length = gli_step_wire_bytes(s);
  if (h->length == 0) return;
  const void *memory = gli_operation_at(op, s->a_buffer, s->a);
  t->request.payload = memory;
  switch ((gli_role)s->role) {
    case GLI_ROLE_LEND:
      gli_put_u64(t->reference, 0);
      if (refer(t, memory, s->bytes, true)) op->peers[t->peer].lent++;
      by_reference(t);
      return;
    case GLI_ROLE_FILL:
      if (is_placed(op, s, memory)) {
        h->form = GLI_FORM_PLACED;
        h->length = 0;
        return;
      }
      break;
    case GLI_ROLE_BYTES:
      if (is_better_copied(op, t->step, h->length)) return;
      break;
    case GLI_ROLE_VIEW:
      break;
    case GLI_ROLE_SIGNAL:
    case GLI_ROLES:
      return;
  }
  if (h->length <= GLI_REFER_BYTES || !refer(t, memory, h->length, false)) {
    return;
  }
  t->shown = s->role != GLI_ROLE_VIEW;
  h->form = t->shown && gli_help_offers(op, t->step) ? GLI_FORM_SHARED
                                                     : GLI_FORM_REFERENCE;
  by_reference(t);
}

/* ---- TAKEN, and the end -------------------------------------------------- */

static gli_transfer *find_shown(const gli_transfer_list *list,
                                const gli_header *h) {
  gli_transfer *t = list->first;
  for (; t; t = t->next) {
    if (!t->shown || t->request.header.slot != h->slot) continue;
    if (t->request.header.operation != h->operation) continue;
    if (gli_signature_equal(&t->request.header, h)) break;
  }
  return t;
}

gli_transfer *gli_reach_find_shown(const gli_link *link, const gli_header *h) {
  return find_shown(&link->shown, h);
}

static void done_showing(gli_transfer *t) {
  gli_transfer_list_remove(&t->link->shown, t);
  gli_wire_finish(t);
}

gloo_status gli_reach_taken(gli_link *link, const gli_header *h,
                            gloo_error *error) {
  gli_transfer *t = find_shown(&link->shown, h);
  if (t) {
    done_showing(t);
    return GLOO_OK;
  }
  /* It may be faster than the transport is with saying that all is sent. */
  t = find_shown(&link->flying, h);
  if (t) {
    t->shown = false;
    return GLOO_OK;
  }
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u says that it has read memory that was not shown to "
                  "it",
                  link->rank);
}

void gli_reach_left(gli_link *link) {
  while (link->shown.first) done_showing(link->shown.first);
  for (gli_transfer *t = link->flying.first; t; t = t->next) t->shown = false;
}

void gli_reach_recall(gloo_operation *op) {
  gli_help_recall(op);
  const gli_plan *plan = op->plan;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    if (s->kind != GLI_STEP_SEND || s->role != GLI_ROLE_LEND) continue;
    if (op->peers[s->peer].lent == 0) continue;
    gli_region_detach(gli_operation_at(op, s->a_buffer, s->a),
                      (size_t)s->bytes);
  }
}
