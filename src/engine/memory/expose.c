/* Exposes memory of this rank to others, which read or write it (get.c). A
 * message then carries only its address. The step is done when the peer sends
 * READ_DONE, or a later message of the plan returns the memory. */
#include "core/bytes.h"
#include "core/error.h"
#include "core/hints.h"
#include "engine/memory/memory.h"
#include "engine/state/device.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"
#include "kernels/copy.h"
#include "memory/region.h"

/* The limits of is_better_copied, in bytes. */
#define COPY_ONE ((uint64_t)64 * 1024)
#define COPY_LAST ((uint64_t)16 * 1024)
#define COPY_ANY ((uint64_t)4 * 1024)

/* The shortest message and the shortest vector of which a copy is saved, and
 * the longest vector where ranks share cores and all send to all. */
#define SINGLE_COPY_MESSAGE ((uint64_t)64 * 1024)
#define SINGLE_COPY_FROM ((uint64_t)512 * 1024)
#define SINGLE_COPY_TO ((uint64_t)8 * 1024 * 1024)

/* ---- sending ------------------------------------------------------------- */

/* Returns true if ranks that share cores are faster with two copies: several
 * readers of one vector, as in a broadcast, disturb each other. */
static bool is_copied_on_shared_cores(gli_collective c, uint64_t bytes) {
  if (c == GLI_SCATTER || c == GLI_SCATTERV) return false;
  return c == GLI_BROADCAST || bytes > SINGLE_COPY_TO;
}

/* Returns how a peer reads this rank's vectors. The rank that copies most
 * decides how long an operation takes; a rank that only sends to one other is
 * not that rank. Short vectors stay in the caches between two copies, and bytes
 * to be reduced are copied by their reader in any case. */
GLI_APART static gli_access access_to_long(const gli_operation *op) {
  const gli_plan *plan = op->plan;
  gli_collective c = plan->params.collective;
  uint64_t bytes = gli_plan_vector_bytes(&plan->params);
  bool idle = op->last_sends == plan->n_steps && plan->n_peers == 1;
  if (idle || gli_collective_reduces(c) || bytes < SINGLE_COPY_FROM ||
      (op->context->oversubscribed && is_copied_on_shared_cores(c, bytes)))
    return GLI_ACCESS_READ;
  return GLI_ACCESS_SINGLE_COPY;
}

static inline gli_access access_of(const gli_operation *op, uint64_t bytes) {
  return bytes < SINGLE_COPY_MESSAGE ? GLI_ACCESS_READ : access_to_long(op);
}

static bool pack_rkey(gli_transfer *t, const void *memory, uint64_t bytes,
                      gli_access access) {
  gli_pair *pair = t->link->pair;
  uint64_t rkey = 0;
  if (pair == NULL || pair->ops->rkey_pack == NULL) return false;
  if (!pair->ops->rkey_pack(pair, memory, (size_t)bytes, access, &rkey)) {
    return false;
  }
  gli_put_u64(t->rkey, rkey);
  return true;
}

static void send_rkey(gli_transfer *t) {
  t->request.header.length = GLI_RKEY_BYTES;
  t->request.payload = t->rkey;
}

/* Stores a put in the peer's memory. Returns true if the peer has the bytes. */
static bool is_put_done(gli_operation *op, const gli_step *s,
                        const void *memory) {
  gli_op_window *window = &op->windows[s->window];
  if (window->memory == NULL) return false;
  if (!window->put) gli_copy_bytes(window->memory, memory, (size_t)s->bytes);
  return true;
}

/* Returns true if a copy in the transport is faster than exposed memory, where
 * ranks take turns on cores. A rank that only sends is done with a copied
 * message at once, and with an exposed one only after the turns of its peers. A
 * rank that also receives waits for them anyway, so a copy pays only while it
 * is short. */
static bool is_better_copied(const gli_operation *op, uint32_t step,
                             uint64_t bytes) {
  if (!op->context->oversubscribed || bytes > COPY_ONE) return false;
  if (step < op->receives_until) return bytes <= COPY_ANY;
  return op->last_sends == 1 || bytes <= COPY_LAST;
}

bool gli_expose_is_better(const gli_operation *op, uint32_t step,
                          gli_link *link, const void *memory, uint64_t bytes) {
  gli_pair *pair = link->pair;
  return bytes >= COPY_ANY && pair->ops->rkey_pack != NULL &&
         !is_better_copied(op, step, bytes) &&
         pair->ops->rkey_pack(pair, memory, (size_t)bytes, access_of(op, bytes),
                              &op->device->rkey);
}

void gli_expose_message(gli_transfer *t) {
  gli_operation *op = t->operation;
  const gli_step *s = &op->plan->steps[t->step];
  gli_header *h = &t->request.header;
  h->length = gli_step_wire_bytes(s);
  if (h->length == 0) return;
  const void *memory = gli_operation_at(op, s->a_buffer, s->a);
  t->request.payload = memory;
  switch ((gli_role)s->role) {
    case GLI_ROLE_EXPOSE_PUT:
      gli_put_u64(t->rkey, 0);
      if (pack_rkey(t, memory, s->bytes, GLI_ACCESS_WRITE))
        gli_operation_note(op, t->peer)->exposed_puts++;
      send_rkey(t);
      return;
    case GLI_ROLE_PUT:
      if (is_put_done(op, s, memory)) {
        h->form = GLI_FORM_PUT_DONE;
        h->length = 0;
        return;
      }
      break;
    case GLI_ROLE_BYTES:
      if (is_better_copied(op, t->step, h->length)) return;
      break;
    case GLI_ROLE_EXPOSE_GET:
      break;
    case GLI_ROLE_SIGNAL:
    case GLI_ROLES:
      return;
  }
  if (h->length <= GLI_ZERO_COPY_BYTES ||
      !pack_rkey(t, memory, h->length, access_of(op, h->length))) {
    return;
  }
  t->exposed = s->role != GLI_ROLE_EXPOSE_GET;
  h->form = t->exposed && gli_shared_copy_offers(op, t->step) ? GLI_FORM_SHARED
                                                              : GLI_FORM_RKEY;
  send_rkey(t);
}

/* ---- READ_DONE, and the end ---------------------------------------------- */

static gli_transfer *find_exposed(const gli_transfer_list *list,
                                  const gli_header *h) {
  gli_transfer *t = list->first;
  for (; t != NULL; t = t->next) {
    if (!t->exposed || t->request.header.slot != h->slot) continue;
    if (t->request.header.operation != h->operation) continue;
    if (gli_signature_equal(&t->request.header, h)) break;
  }
  return t;
}

gli_transfer *gli_expose_find(const gli_link *link, const gli_header *h) {
  return find_exposed(&link->exposed, h);
}

static void end_exposed(gli_transfer *t) {
  gli_transfer_list_remove(&t->link->exposed, t);
  gli_wire_finish(t);
}

gloo_status gli_expose_read_done(gli_link *link, const gli_header *h,
                                 gloo_error *error) {
  gli_transfer *t = find_exposed(&link->exposed, h);
  if (t != NULL) {
    end_exposed(t);
    return GLOO_OK;
  }
  /* The peer may be faster than the transport's report that all is sent. */
  t = find_exposed(&link->in_flight, h);
  if (t != NULL) {
    t->exposed = false;
    return GLOO_OK;
  }
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %u reported reading memory that was not exposed to it",
                  link->rank);
}

void gli_expose_departed(gli_link *link) {
  while (link->exposed.first != NULL) end_exposed(link->exposed.first);
  for (gli_transfer *t = link->in_flight.first; t != NULL; t = t->next)
    t->exposed = false;
}

void gli_expose_revoke(gli_operation *op) {
  gli_shared_copy_revoke(op);
  const gli_plan *plan = op->plan;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    if (s->kind != GLI_STEP_SEND || s->role != GLI_ROLE_EXPOSE_PUT) continue;
    if (op->peers[s->peer].exposed_puts == 0) continue;
    gli_region_detach(gli_operation_at(op, s->a_buffer, s->a),
                      (size_t)s->bytes);
  }
}
