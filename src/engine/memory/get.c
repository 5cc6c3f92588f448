/* Access to memory of other ranks, instead of copies in messages. (Exposing
 * memory: expose.c.)
 *
 * Where a pair can reach its peer's memory, the sender of a large message sends
 * only the address (an rkey), and the receiver takes the bytes from there and
 * sends READ_DONE. Gets and puts of plans (plan/builder.h) need no READ_DONE: a
 * later message of the plan returns the memory.
 *
 * Neither side touches the other's memory after an operation has returned. The
 * reader asks `revoked` before it relies on what it read: an operation that
 * failed at its owner fails here too. When an operation ends with an error, the
 * memory that it has exposed is detached from any rank that may still write to
 * it. */
#include "core/bytes.h"
#include "core/error.h"
#include "engine/memory/memory.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"
#include "kernels/copy.h"
#include "memory/region.h"

/* The bytes fetched at a time from memory that is not mapped: a part of the L1
 * cache. */
#define GET_BYTES ((size_t)32 * 1024)

/* ---- messages that fit --------------------------------------------------- */

bool gli_get_fits(const gli_operation *op, uint32_t step, const gli_header *h) {
  const gli_step *s = &op->plan->steps[step];
  const gli_op_peer *peer = &op->peers[s->peer];
  uint64_t expected = gli_step_wire_bytes(s);
  switch ((gli_form)h->form) {
    case GLI_FORM_BYTES:
      return h->length == expected;
    case GLI_FORM_RKEY:
    case GLI_FORM_SHARED:
      return expected > 0 && s->role != GLI_ROLE_EXPOSE_PUT &&
             peer->link->pair != NULL &&
             peer->link->pair->ops->rkey_map != NULL;
    case GLI_FORM_PUT_DONE:
      return s->role == GLI_ROLE_PUT && peer->exposed_puts > 0;
    case GLI_FORMS:
      break;
  }
  return false;
}

/* ---- access -------------------------------------------------------------- */

static gloo_status map_source(gli_link *link, uint64_t rkey, uint64_t bytes,
                              gli_source *from, gloo_error *error) {
  void *memory = NULL;
  *from = (gli_source){.pair = link->pair, .rkey = rkey};
  gloo_status status = link->pair->ops->rkey_map(
      link->pair, rkey, (size_t)bytes, false, &memory, error);
  from->memory = memory;
  return status;
}

/* Returns up to GET_BYTES of the source, in place or in `room`; NULL on
 * failure. */
static const uint8_t *view_source(const gli_source *from, uint64_t offset,
                                  size_t bytes, uint8_t *room,
                                  gloo_error *error) {
  if (from->memory != NULL) return from->memory + offset;
  gli_pair *pair = from->pair;
  gloo_status status =
      pair->ops->get(pair, from->rkey + offset, room, bytes, error);
  return status == GLOO_OK ? room : NULL;
}

static gloo_status copy_from(const gli_source *from, bool nontemporal,
                             uint8_t *dst, size_t bytes, gloo_error *error) {
  if (from->memory == NULL) {
    return from->pair->ops->get(from->pair, from->rkey, dst, bytes, error);
  }
  if (nontemporal) {
    gli_copy_nontemporal(dst, from->memory, bytes);
  } else {
    gli_copy_bytes(dst, from->memory, bytes);
  }
  return GLOO_OK;
}

static gloo_status reduce_from(gli_operation *op, const gli_step *s,
                               const gli_source *from, gloo_error *error) {
  _Alignas(64) uint8_t room[GET_BYTES];
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  const uint8_t *local = gli_operation_at(op, s->a_buffer, s->a);
  size_t elem = (size_t)op->plan->params.elem_bytes;
  size_t whole = (size_t)s->bytes;
  size_t most = from->memory != NULL ? whole : GET_BYTES / elem * elem;
  for (size_t at = 0; at < whole; at += most) {
    size_t bytes = whole - at < most ? whole - at : most;
    const uint8_t *theirs = view_source(from, at, bytes, room, error);
    if (theirs == NULL) return error->status;
    const void *left = s->incoming_first ? theirs : local + at;
    const void *right = s->incoming_first ? local + at : theirs;
    gli_operation_reduce(op, dst + at, left, right, bytes / elem);
  }
  return GLOO_OK;
}

/* Returns false if the memory was revoked while it was read: its owner has
 * failed, and will report why. */
static bool still_exposed(gli_link *link) {
  if (!link->pair->ops->revoked(link->pair)) return true;
  gloo_error error;
  gli_fail(&error, GLOO_ERR_PEER, (int)link->rank,
           "rank %u ended the operation while its memory was being read",
           link->rank);
  gli_link_suspect(link, &error);
  return false;
}

static gli_outcome fail_context(gli_operation *op, const gloo_error *error) {
  gli_context_poison(op->context, error);
  return GLI_FAILED;
}

/* ---- several sources and destinations ------------------------------------ */

static void add_source(gli_operands *o, gli_source from, uint8_t *room) {
  o->room[o->n] = from.memory != NULL ? NULL : room;
  o->gets = o->gets || from.memory == NULL;
  o->from[o->n++] = from;
}

static void add_target(gli_operands *o, uint8_t *memory) {
  o->to[o->n_to++] = memory;
}

/* Adds the destinations of the result: mapped puts, and dst. A dst in SCRATCH
 * only serves puts, and is not needed if all are mapped. */
static void add_targets(gli_operation *op, const gli_step *s) {
  gli_operands *o = &op->operands;
  for (uint32_t i = 0; i < s->n_puts; i++) {
    gli_op_window *window = &op->windows[s->put + i];
    if (window->memory == NULL) continue;
    window->put = true;
    add_target(o, window->memory);
  }
  o->n_windowed = o->n_to;
  bool spare = s->dst_buffer == GLI_SCRATCH && o->n_to > 0;
  if (spare && o->n_to == s->n_puts) return;
  add_target(o, gli_operation_at(op, s->dst_buffer, s->dst));
}

static gli_source own_source(const gli_operation *op, const gli_step *s) {
  return (gli_source){.memory = gli_operation_at(op, s->a_buffer, s->a)};
}

static void begin_operands(gli_operands *o) {
  o->n = o->n_to = o->n_windowed = 0;
  o->gets = false;
}

/* Returns the store policy for memory of other ranks; NULL if there is no
 * choice. */
static gli_store_policy *policy_elsewhere(const gli_operation *op,
                                          size_t bytes) {
  const gli_operands *o = &op->operands;
  if (o->n_windowed == 0 || o->gets || op->nontemporal || op->custom.op != NULL)
    return NULL;
  if (bytes < GLI_STORE_CLASS_MIN || op->context->oversubscribed) return NULL;
  return gli_context_store_policy(
      op->context, o->n > 1 ? GLI_STORE_SUMS : GLI_STORE_COPIES, bytes);
}

static gloo_status combine_as(gli_operation *op, size_t whole,
                              uint64_t streamed, gloo_error *error) {
  gli_operands *o = &op->operands;
  /* A single source is copied, whatever the operation. */
  gli_combine_fn copy =
      o->n == 1 ? gli_combine_kernel(GLOO_UINT8, GLOO_BAND) : NULL;
  size_t elem = copy != NULL ? 1 : (size_t)op->plan->params.elem_bytes;
  size_t most = o->gets ? GET_BYTES / elem * elem : whole;
  for (size_t at = 0; at < whole; at += most) {
    size_t bytes = whole - at < most ? whole - at : most;
    for (size_t i = 0; i < o->n; i++) {
      o->srcs[i] = view_source(&o->from[i], at, bytes, o->room[i], error);
      if (o->srcs[i] == NULL) return error->status;
    }
    for (size_t i = 0; i < o->n_to; i++) o->dsts[i] = o->to[i] + at;
    if (copy != NULL) {
      copy(o->dsts, o->n_to, o->srcs, 1, bytes, streamed);
    } else {
      gli_operation_combine(op, o->dsts, o->n_to, o->srcs, o->n, bytes / elem,
                            streamed);
    }
  }
  return GLOO_OK;
}

static gloo_status combine_operands(gli_operation *op, size_t whole,
                                    gloo_error *error) {
  gli_store_policy *policy = policy_elsewhere(op, whole);
  if (policy == NULL) {
    return combine_as(op, whole, op->nontemporal ? GLI_STREAM_ALL : 0, error);
  }
  size_t windowed = op->operands.n_windowed;
  uint64_t elsewhere =
      windowed < 64 ? ((uint64_t)1 << windowed) - 1 : GLI_STREAM_ALL;
  gli_store_way way = gli_store_policy_next(policy);
  const gloo_device *device = op->context->device;
  uint64_t begin_ns = 0;
  if (way.timed) begin_ns = device->ops->now_ns(device->transport);
  gloo_status status =
      combine_as(op, whole, way.nontemporal ? elsewhere : 0, error);
  if (way.timed) {
    uint64_t ns = device->ops->now_ns(device->transport) - begin_ns;
    gli_store_policy_learn(policy, gli_store_bars_elsewhere, way.nontemporal,
                           ns, whole);
  }
  return status;
}

/* Adds get or block i of a step. A get that was sent as bytes is in its
 * block. */
static void add_block(gli_operation *op, const gli_step *s, uint32_t i) {
  bool one = s->kind == GLI_STEP_COPY_GET;
  uint8_t *block =
      one ? gli_operation_at(op, s->a_buffer, s->a)
          : gli_operation_at(op, s->b_buffer, s->b + i * s->stride);
  gli_source from = {.memory = block};
  if (i < gli_step_gets(s)) {
    const gli_op_window *p = &op->windows[s->window + i];
    from = (gli_source){p->link->pair, p->memory, p->rkey};
  }
  add_source(&op->operands, from, block);
}

static void add_sources(gli_operation *op, const gli_step *s) {
  if (s->kind == GLI_STEP_COPY_GET) {
    add_block(op, s, 0);
    return;
  }
  for (uint32_t i = 0; i <= s->n; i++) {
    if (i == s->own) add_source(&op->operands, own_source(op, s), NULL);
    if (i < s->n) add_block(op, s, i);
  }
}

gli_outcome gli_get_combine(gli_operation *op, uint32_t index) {
  const gli_step *s = &op->plan->steps[index];
  begin_operands(&op->operands);
  add_sources(op, s);
  add_targets(op, s);
  gloo_error error;
  gloo_status status = combine_operands(op, (size_t)s->bytes, &error);
  for (uint32_t i = 0; i < gli_step_gets(s); i++) {
    const gli_op_window *p = &op->windows[s->window + i];
    if (p->exposed && !still_exposed(p->link)) return GLI_FAILED;
  }
  return status == GLOO_OK ? GLI_DONE : fail_context(op, &error);
}

/* ---- arrivals ------------------------------------------------------------ */

static gloo_status get_bytes(gli_operation *op, uint32_t step,
                             const gli_source *from, gloo_error *error) {
  const gli_step *s = &op->plan->steps[step];
  if (s->kind == GLI_STEP_RECV) {
    return copy_from(from, gli_operation_is_nontemporal(op, step),
                     gli_operation_at(op, s->dst_buffer, s->dst),
                     (size_t)s->bytes, error);
  }
  if (s->n_puts == 0 || from->memory == NULL)
    return reduce_from(op, s, from, error);
  gli_operands *o = &op->operands;
  gli_source own = own_source(op, s);
  begin_operands(o);
  add_source(o, s->incoming_first ? *from : own, NULL);
  add_source(o, s->incoming_first ? own : *from, NULL);
  add_targets(op, s);
  return combine_operands(op, (size_t)s->bytes, error);
}

gli_outcome gli_get_done(gli_operation *op, uint32_t step) {
  const gli_step *s = &op->plan->steps[step];
  gli_link *link = op->peers[s->peer].link;
  if (!still_exposed(link)) return GLI_FAILED;
  if (s->role != GLI_ROLE_EXPOSE_GET) {
    gli_wire_control(link, GLI_MESSAGE_READ_DONE, &op->signature, s->slot);
  }
  return GLI_DONE;
}

static gli_outcome arrived_by_rkey(gli_operation *op, uint32_t step,
                                   uint64_t rkey, bool shared) {
  const gli_step *s = &op->plan->steps[step];
  gli_link *link = op->peers[s->peer].link;
  gloo_error error;
  gli_source from;
  if (map_source(link, rkey, s->bytes, &from, &error) != GLOO_OK) {
    return fail_context(op, &error);
  }
  if (s->role == GLI_ROLE_EXPOSE_GET && s->kind == GLI_STEP_RECV) {
    op->windows[s->window] = (gli_op_window){.link = link,
                                             .memory = (uint8_t *)from.memory,
                                             .rkey = rkey,
                                             .exposed = true};
    return GLI_DONE;
  }
  gli_shared_copy_outcome shared_outcome = GLI_SHARED_COPY_NONE;
  if (shared) shared_outcome = gli_shared_copy_run(op, step, &from);
  if (shared_outcome == GLI_SHARED_COPY_PENDING) return GLI_PENDING;
  if (shared_outcome == GLI_SHARED_COPY_NONE &&
      get_bytes(op, step, &from, &error) != GLOO_OK) {
    return still_exposed(link) ? fail_context(op, &error) : GLI_FAILED;
  }
  return gli_get_done(op, step);
}

static gli_outcome arrived_expose_put(gli_operation *op, const gli_step *s,
                                      uint64_t rkey) {
  gli_link *link = op->peers[s->peer].link;
  gli_op_window *window = &op->windows[s->window];
  *window = (gli_op_window){.link = link};
  if (rkey == 0) return GLI_DONE;
  gloo_error error;
  void *memory = NULL;
  if (link->pair->ops->rkey_map == NULL) {
    gli_fail(&error, GLOO_ERR_PROTOCOL, (int)link->rank,
             "rank %u exposed memory that cannot be accessed", link->rank);
    return fail_context(op, &error);
  }
  if (link->pair->ops->rkey_map(link->pair, rkey, (size_t)s->bytes, true,
                                &memory, &error) != GLOO_OK) {
    return fail_context(op, &error);
  }
  window->memory = memory;
  return GLI_DONE;
}

/* Takes a PUT_DONE: the peer has filled one of the ranges that were exposed to
 * it. */
static gli_outcome arrived_put_done(gli_operation *op, const gli_step *s) {
  gli_op_peer *peer = &op->peers[s->peer];
  gloo_error error;
  if (peer->exposed_puts == 0) {
    gli_fail(&error, GLOO_ERR_PROTOCOL, (int)peer->link->rank,
             "rank %u reported writing to more memory than was exposed to it",
             peer->link->rank);
    return fail_context(op, &error);
  }
  peer->exposed_puts--;
  uint8_t *memory = gli_operation_at(op, s->dst_buffer, s->dst);
  if (gli_region_retake(memory, (size_t)s->bytes)) return GLI_DONE;
  gli_fail(&error, GLOO_ERR_IO, -1,
           "data written by rank %u is lost: a failed operation of another "
           "context had exposed memory in the same page",
           peer->link->rank);
  return fail_context(op, &error);
}

gli_outcome gli_get_arrived(gli_operation *op, uint32_t step, uint8_t form,
                            const uint8_t *payload) {
  const gli_step *s = &op->plan->steps[step];
  if (s->role == GLI_ROLE_EXPOSE_PUT) {
    return arrived_expose_put(op, s, gli_get_u64(payload));
  }
  if (gli_form_has_rkey(form)) {
    return arrived_by_rkey(op, step, gli_get_u64(payload),
                           form == GLI_FORM_SHARED);
  }
  if (form == GLI_FORM_PUT_DONE) return arrived_put_done(op, s);
  if (s->role == GLI_ROLE_EXPOSE_GET && s->kind == GLI_STEP_RECV) {
    op->windows[s->window] =
        (gli_op_window){.link = op->peers[s->peer].link,
                        .memory = gli_operation_at(op, s->dst_buffer, s->dst)};
  }
  return GLI_DONE;
}
