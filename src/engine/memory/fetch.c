/* Memory of other ranks: what need not travel. (Showing it to them: expose.c.)
 *
 * Where a pair can reach its peer's memory, the sender of a large message sends
 * only where it lies (a reference), the receiver takes it from there, and says
 * TAKEN. Views and loans of plans (plan/builder.h) go without TAKEN: a later
 * message of the plan gives them back.
 *
 * Neither side touches the other's memory after an operation has returned. Who
 * reads asks `recalled` before it relies on what it read: an operation that
 * failed at its owner fails here too. And when an operation ends with an error,
 * what it has lent is cut off from whoever may still write to it. */
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "engine/memory/memory.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"
#include "memory/region.h"

/* At a time from memory that is not mapped: a part of the nearest cache. */
#define FETCH_BYTES ((size_t)32 * 1024)

/* ---- what may come ------------------------------------------------------- */

bool gli_reach_fits(const gloo_operation *op, uint32_t step,
                    const gli_header *h) {
  const gli_step *s = &op->plan->steps[step];
  const gli_op_peer *peer = &op->peers[s->peer];
  uint64_t expected = gli_step_wire_bytes(s);
  switch ((gli_form)h->form) {
    case GLI_FORM_BYTES:
      return h->length == expected;
    case GLI_FORM_REFERENCE:
    case GLI_FORM_SHARED:
      return expected > 0 && s->role != GLI_ROLE_LEND && peer->link->pair &&
             peer->link->pair->ops->reach != NULL;
    case GLI_FORM_PLACED:
      return s->role == GLI_ROLE_FILL && peer->lent > 0;
    case GLI_FORMS:
      break;
  }
  return false;
}

/* ---- taking -------------------------------------------------------------- */

static gloo_status find(gli_link *link, uint64_t reference, uint64_t bytes,
                        gli_source *from, gloo_error *error) {
  void *memory = NULL;
  *from = (gli_source){.pair = link->pair, .reference = reference};
  gloo_status status = link->pair->ops->reach(
      link->pair, reference, (size_t)bytes, false, &memory, error);
  from->memory = memory;
  return status;
}

/* Up to FETCH_BYTES of it, in place or in `room`; NULL on failure. */
static const uint8_t *look(const gli_source *from, uint64_t offset,
                           size_t bytes, uint8_t *room, gloo_error *error) {
  if (from->memory) return from->memory + offset;
  gli_pair *pair = from->pair;
  gloo_status status =
      pair->ops->fetch(pair, from->reference + offset, room, bytes, error);
  return status == GLOO_OK ? room : NULL;
}

static gloo_status copy_from(const gli_source *from, bool stream, uint8_t *dst,
                             size_t bytes, gloo_error *error) {
  if (!from->memory) {
    return from->pair->ops->fetch(from->pair, from->reference, dst, bytes,
                                  error);
  }
  if (stream) {
    gli_copy_stream(dst, from->memory, bytes);
  } else {
    memcpy(dst, from->memory, bytes);
  }
  return GLOO_OK;
}

static gloo_status reduce_from(gloo_operation *op, const gli_step *s,
                               const gli_source *from, gloo_error *error) {
  _Alignas(64) uint8_t room[FETCH_BYTES];
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  const uint8_t *local = gli_operation_at(op, s->a_buffer, s->a);
  size_t elem = (size_t)op->plan->params.elem_bytes;
  size_t whole = (size_t)s->bytes;
  size_t most = from->memory ? whole : FETCH_BYTES / elem * elem;
  for (size_t at = 0; at < whole; at += most) {
    size_t bytes = whole - at < most ? whole - at : most;
    const uint8_t *theirs = look(from, at, bytes, room, error);
    if (!theirs) return error->status;
    const void *left = s->incoming_left ? theirs : local + at;
    const void *right = s->incoming_left ? local + at : theirs;
    gli_operation_reduce(op, dst + at, left, right, bytes / elem);
  }
  return GLOO_OK;
}

/* The memory was taken back while it was read: its owner has failed, and will
 * say why. */
static bool still_shown(gli_link *link) {
  if (!link->pair->ops->recalled(link->pair)) return true;
  gloo_error error;
  gli_fail(&error, GLOO_ERR_PEER, (int)link->rank,
           "rank %u ended the operation while its memory was read", link->rank);
  gli_link_suspect(link, &error);
  return false;
}

static gli_outcome failed(gloo_operation *op, const gloo_error *error) {
  gli_context_poison(op->context, error);
  return GLI_FAILED;
}

/* ---- several sources and destinations ------------------------------------ */

static void add_source(gli_operands *o, gli_source from, uint8_t *room) {
  o->room[o->n] = from.memory ? NULL : room;
  o->fetches = o->fetches || !from.memory;
  o->from[o->n++] = from;
}

static void add_target(gli_operands *o, uint8_t *memory) {
  o->to[o->n_to++] = memory;
}

/* Where the result goes: to loans within reach, and to dst. In SCRATCH that
 * only serves to fill loans, and is not needed when all are within reach. */
static void add_targets(gloo_operation *op, const gli_step *s) {
  gli_operands *o = &op->operands;
  for (uint32_t i = 0; i < s->n_loans; i++) {
    gli_op_place *loan = &op->places[s->loan + i];
    if (!loan->memory) continue;
    loan->filled = true;
    add_target(o, loan->memory);
  }
  o->n_lent = o->n_to;
  bool spare = s->dst_buffer == GLI_SCRATCH && o->n_to > 0;
  if (spare && o->n_to == s->n_loans) return;
  add_target(o, gli_operation_at(op, s->dst_buffer, s->dst));
}

static gli_source own_source(const gloo_operation *op, const gli_step *s) {
  return (gli_source){.memory = gli_operation_at(op, s->a_buffer, s->a)};
}

static void begin_operands(gli_operands *o) {
  o->n = o->n_to = o->n_lent = 0;
  o->fetches = false;
}

/* NULL: nothing to choose. */
static gli_storing *storing_elsewhere(const gloo_operation *op, size_t bytes) {
  const gli_operands *o = &op->operands;
  if (o->n_lent == 0 || o->fetches || op->vast || op->custom.op) return NULL;
  if (bytes < GLI_STORING_MIN || op->context->crowded) return NULL;
  return gli_context_storing(
      op->context, o->n > 1 ? GLI_STORING_SUMS : GLI_STORING_COPIES, bytes);
}

static gloo_status combine_as(gloo_operation *op, size_t whole,
                              uint64_t streamed, gloo_error *error) {
  gli_operands *o = &op->operands;
  /* One source is copied, whatever the operation. */
  gli_combine_fn copy =
      o->n == 1 ? gli_combine_kernel(GLOO_UINT8, GLOO_BAND) : NULL;
  size_t elem = copy ? 1 : (size_t)op->plan->params.elem_bytes;
  size_t most = o->fetches ? FETCH_BYTES / elem * elem : whole;
  for (size_t at = 0; at < whole; at += most) {
    size_t bytes = whole - at < most ? whole - at : most;
    for (size_t i = 0; i < o->n; i++) {
      o->srcs[i] = look(&o->from[i], at, bytes, o->room[i], error);
      if (!o->srcs[i]) return error->status;
    }
    for (size_t i = 0; i < o->n_to; i++) o->dsts[i] = o->to[i] + at;
    if (copy) {
      copy(o->dsts, o->n_to, o->srcs, 1, bytes, streamed);
    } else {
      gli_operation_combine(op, o->dsts, o->n_to, o->srcs, o->n, bytes / elem,
                            streamed);
    }
  }
  return GLOO_OK;
}

static gloo_status combine(gloo_operation *op, size_t whole,
                           gloo_error *error) {
  gli_storing *storing = storing_elsewhere(op, whole);
  if (!storing) {
    return combine_as(op, whole, op->vast ? GLI_STREAM_ALL : 0, error);
  }
  size_t lent = op->operands.n_lent;
  uint64_t elsewhere = lent < 64 ? ((uint64_t)1 << lent) - 1 : GLI_STREAM_ALL;
  gli_storing_way way = gli_storing_next(storing);
  const gloo_device *device = op->context->device;
  uint64_t begin_ns = 0;
  if (way.timed) begin_ns = device->ops->now_ns(device->transport);
  gloo_status status = combine_as(op, whole, way.stream ? elsewhere : 0, error);
  if (way.timed) {
    uint64_t ns = device->ops->now_ns(device->transport) - begin_ns;
    gli_storing_note(storing, gli_storing_elsewhere, way.stream, ns, whole);
  }
  return status;
}

/* View or block i of a step; a view that had to be sent is in its block. */
static void add_block(gloo_operation *op, const gli_step *s, uint32_t i) {
  bool one = s->kind == GLI_STEP_COPY_VIEW;
  uint8_t *block =
      one ? gli_operation_at(op, s->a_buffer, s->a)
          : gli_operation_at(op, s->b_buffer, s->b + i * s->stride);
  gli_source from = {.memory = block};
  if (i < gli_step_views(s)) {
    const gli_op_place *p = &op->places[s->place + i];
    from = (gli_source){p->link->pair, p->memory, p->reference};
  }
  add_source(&op->operands, from, block);
}

static void add_sources(gloo_operation *op, const gli_step *s) {
  if (s->kind == GLI_STEP_COPY_VIEW) {
    add_block(op, s, 0);
    return;
  }
  for (uint32_t i = 0; i <= s->n; i++) {
    if (i == s->own) add_source(&op->operands, own_source(op, s), NULL);
    if (i < s->n) add_block(op, s, i);
  }
}

gli_outcome gli_reach_combine(gloo_operation *op, uint32_t index) {
  const gli_step *s = &op->plan->steps[index];
  begin_operands(&op->operands);
  add_sources(op, s);
  add_targets(op, s);
  gloo_error error;
  gloo_status status = combine(op, (size_t)s->bytes, &error);
  for (uint32_t i = 0; i < gli_step_views(s); i++) {
    const gli_op_place *p = &op->places[s->place + i];
    if (p->shown && !still_shown(p->link)) return GLI_FAILED;
  }
  return status == GLOO_OK ? GLI_DONE : failed(op, &error);
}

/* ---- a reference has arrived --------------------------------------------- */

static gloo_status take(gloo_operation *op, uint32_t step,
                        const gli_source *from, gloo_error *error) {
  const gli_step *s = &op->plan->steps[step];
  if (s->kind == GLI_STEP_RECV) {
    return copy_from(from, gli_operation_streams(op, step),
                     gli_operation_at(op, s->dst_buffer, s->dst),
                     (size_t)s->bytes, error);
  }
  if (s->n_loans == 0 || !from->memory) return reduce_from(op, s, from, error);
  gli_operands *o = &op->operands;
  gli_source own = own_source(op, s);
  begin_operands(o);
  add_source(o, s->incoming_left ? *from : own, NULL);
  add_source(o, s->incoming_left ? own : *from, NULL);
  add_targets(op, s);
  return combine(op, (size_t)s->bytes, error);
}

gli_outcome gli_reach_took(gloo_operation *op, uint32_t step) {
  const gli_step *s = &op->plan->steps[step];
  gli_link *link = op->peers[s->peer].link;
  if (!still_shown(link)) return GLI_FAILED;
  if (s->role != GLI_ROLE_VIEW) {
    gli_flow_control(link, GLI_MESSAGE_TAKEN, &op->signature, s->slot);
  }
  return GLI_DONE;
}

static gli_outcome arrived_by_reference(gloo_operation *op, uint32_t step,
                                        uint64_t reference, bool shared) {
  const gli_step *s = &op->plan->steps[step];
  gli_link *link = op->peers[s->peer].link;
  gloo_error error;
  gli_source from;
  if (find(link, reference, s->bytes, &from, &error) != GLOO_OK) {
    return failed(op, &error);
  }
  if (s->role == GLI_ROLE_VIEW && s->kind == GLI_STEP_RECV) {
    op->places[s->place] = (gli_op_place){.link = link,
                                          .memory = (uint8_t *)from.memory,
                                          .reference = reference,
                                          .shown = true};
    return GLI_DONE;
  }
  gli_helping helping = GLI_HELP_NONE;
  if (shared) helping = gli_help_copy(op, step, &from);
  if (helping == GLI_HELP_NOT_YET) return GLI_PENDING;
  if (helping == GLI_HELP_NONE && take(op, step, &from, &error) != GLOO_OK) {
    return still_shown(link) ? failed(op, &error) : GLI_FAILED;
  }
  return gli_reach_took(op, step);
}

static gli_outcome borrowed(gloo_operation *op, const gli_step *s,
                            uint64_t reference) {
  gli_link *link = op->peers[s->peer].link;
  gli_op_place *place = &op->places[s->place];
  *place = (gli_op_place){.link = link};
  if (reference == 0) return GLI_DONE;
  gloo_error error;
  void *memory = NULL;
  if (!link->pair->ops->reach) {
    gli_fail(&error, GLOO_ERR_PROTOCOL, (int)link->rank,
             "rank %u lent memory that cannot be reached", link->rank);
    return failed(op, &error);
  }
  if (link->pair->ops->reach(link->pair, reference, (size_t)s->bytes, true,
                             &memory, &error) != GLOO_OK) {
    return failed(op, &error);
  }
  place->memory = memory;
  return GLI_DONE;
}

/* The peer says that it has filled one of the ranges that it was lent. */
static gli_outcome placed(gloo_operation *op, const gli_step *s) {
  gli_op_peer *peer = &op->peers[s->peer];
  gloo_error error;
  if (peer->lent == 0) {
    gli_fail(&error, GLOO_ERR_PROTOCOL, (int)peer->link->rank,
             "rank %u says that it has written to more memory than it was lent",
             peer->link->rank);
    return failed(op, &error);
  }
  peer->lent--;
  uint8_t *memory = gli_operation_at(op, s->dst_buffer, s->dst);
  if (gli_region_retake(memory, (size_t)s->bytes)) return GLI_DONE;
  gli_fail(&error, GLOO_ERR_IO, -1,
           "what rank %u wrote cannot be read: an operation of another context "
           "failed, and had lent memory of the same page",
           peer->link->rank);
  return failed(op, &error);
}

gli_outcome gli_reach_arrived(gloo_operation *op, uint32_t step, uint8_t form,
                              const uint8_t *payload) {
  const gli_step *s = &op->plan->steps[step];
  if (s->role == GLI_ROLE_LEND) {
    return borrowed(op, s, gli_get_u64(payload));
  }
  if (gli_form_refers(form)) {
    return arrived_by_reference(op, step, gli_get_u64(payload),
                                form == GLI_FORM_SHARED);
  }
  if (form == GLI_FORM_PLACED) return placed(op, s);
  if (s->role == GLI_ROLE_VIEW && s->kind == GLI_STEP_RECV) {
    op->places[s->place] =
        (gli_op_place){.link = op->peers[s->peer].link,
                       .memory = gli_operation_at(op, s->dst_buffer, s->dst)};
  }
  return GLI_DONE;
}
