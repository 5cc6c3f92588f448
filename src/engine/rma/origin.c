/* The origin: operations of this rank on the windows of others. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "engine/rma/rma.h"
#include "engine/state/device.h"
#include "engine/wire/wire.h"
#include "kernels/copy.h"

/* ---- messages ------------------------------------------------------------ */

static gloo_status rma_no_memory(const gli_link *link, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a message to rank %" PRIu32, link->rank);
}

gli_transfer *gli_rma_new_message(gli_link *link, gli_rma_verb verb,
                                  uint64_t offset) {
  gli_rma_target *target = &link->context->window->targets[link->local];
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) return NULL;
  t->request.header = (gli_header){.type = GLI_MESSAGE_RMA,
                                   .op = (uint8_t)verb,
                                   .context = link->group.peers,
                                   .operation = target->key,
                                   .slot = target->numbers++,
                                   .count = offset};
  return t;
}

/* Adds a pending request; NULL if out of memory. */
static gli_rma_request *new_request(gli_link *link, gli_rma_verb verb,
                                    const gli_rma_call *call) {
  gloo_window *window = link->context->window;
  gli_rma_target *target = &window->targets[link->local];
  gli_rma_request *r = window->spare;
  if (r != NULL)
    window->spare = r->next;
  else
    r = malloc(sizeof *r);
  if (r == NULL) return NULL;
  *r = (gli_rma_request){.link = link, .verb = verb, .begun = target->begun++};
  if (call != NULL) {
    r->to = call->to;
    r->bytes = call->bytes;
    r->blocks = call->blocks;
    r->buffer_stride = call->buffer_stride;
  }
  if (target->first != NULL)
    target->last->next = r;
  else
    target->first = r;
  target->last = r;
  target->under_way++;
  return r;
}

static void drop_request(gli_rma_request *r) {
  gloo_window *window = r->link->context->window;
  gli_rma_target *target = &window->targets[r->link->local];
  gli_rma_request *before = NULL;
  for (gli_rma_request *q = target->first; q != r; q = q->next) before = q;
  if (before != NULL)
    before->next = r->next;
  else
    target->first = r->next;
  if (target->last == r) target->last = before;
  target->under_way--;
  r->next = window->spare;
  window->spare = r;
}

gloo_status gli_rma_ask(gli_link *link, gli_transfer *t, uint64_t bytes,
                        const gli_rma_call *call, gloo_error *error) {
  gli_rma_request *r =
      new_request(link, (gli_rma_verb)t->request.header.op, call);
  if (r == NULL) {
    gli_transfer_free(t);
    return rma_no_memory(link, error);
  }
  r->number = t->request.header.slot;
  r->asks = true;
  t->request.payload = t->rkey;
  t->request.header.length = bytes;
  gli_wire_post(t);
  return GLOO_OK;
}

bool gli_rma_allocate(gli_transfer *t, uint64_t bytes) {
  t->note = malloc((size_t)bytes);
  if (t->note == NULL) return false;
  t->errand = true;
  t->link->context->device->owed++;
  return true;
}

/* Sends a message that counts as a put of the epoch. */
static void post_put(gli_link *link, gli_transfer *t, const void *payload,
                     uint64_t bytes) {
  gli_rma_target *target = &link->context->window->targets[link->local];
  t->unsent = &target->unsent[target->epoch % 2];
  (*t->unsent)++;
  target->puts++;
  t->request.header.root = target->epoch;
  t->request.payload = payload;
  t->request.header.length = bytes;
  gli_wire_post(t);
}

static gloo_status send_put(gli_link *link, const gli_rma_call *call,
                            gloo_error *error) {
  bool several = call->blocks > 1;
  gli_transfer *t = gli_rma_new_message(
      link, several ? GLI_RMA_PUT_BLOCKS : GLI_RMA_PUT, call->offset);
  if (t == NULL) return rma_no_memory(link, error);
  if (!several) {
    post_put(link, t, call->from, call->bytes);
    return GLOO_OK;
  }
  uint64_t bytes = GLI_RMA_BLOCKS_HEAD + call->blocks * call->bytes;
  if (!gli_rma_allocate(t, bytes)) {
    gli_transfer_free(t);
    return rma_no_memory(link, error);
  }
  gli_put_u64(t->note, call->bytes);
  gli_put_u64(t->note + 8, call->stride);
  gli_rma_copy_blocks(t->note + GLI_RMA_BLOCKS_HEAD, call->bytes, call->from,
                      call->buffer_stride, call->bytes, call->blocks);
  post_put(link, t, t->note, bytes);
  return GLOO_OK;
}

/* Sends a signal, behind the last message if that is its put. */
static gloo_status send_signal(gli_link *link, const gli_rma_call *signal,
                               bool follows, gloo_error *error) {
  gli_transfer *t = gli_rma_new_message(link, GLI_RMA_SIGNAL, signal->offset);
  if (t == NULL) return rma_no_memory(link, error);
  if (follows) t->request.header.slot--;
  t->request.header.algorithm = signal->change;
  t->request.header.dtype = (uint8_t)signal->bytes;
  gli_put_u64(t->rkey, signal->operands[0]);
  post_put(link, t, t->rkey, 8);
  return GLOO_OK;
}

static gloo_status send_question(gli_link *link, const gli_rma_call *call,
                                 gloo_error *error) {
  gli_transfer *t = gli_rma_new_message(link, call->verb, call->offset);
  if (t == NULL) return rma_no_memory(link, error);
  if (call->verb == GLI_RMA_GET) {
    t->request.header.root = (uint32_t)call->blocks;
    gli_put_u64(t->rkey, call->bytes);
    gli_put_u64(t->rkey + 8, call->stride);
    return gli_rma_ask(link, t, 16, call, error);
  }
  t->request.header.algorithm = call->change;
  t->request.header.dtype = (uint8_t)call->bytes;
  gli_put_u64(t->rkey, call->operands[0]);
  gli_put_u64(t->rkey + 8, call->operands[1]);
  return gli_rma_ask(link, t, call->change == GLI_RMA_COMPARE_SWAP ? 16 : 8,
                     call, error);
}

/* Asks whether the owner's memory can be mapped. Later calls use the answer. */
static gloo_status ask_reach(gli_link *link, gloo_error *error) {
  gli_rma_target *target = &link->context->window->targets[link->local];
  const gli_pair *pair = link->pair;
  if (pair == NULL || (pair->ops->rkey_map == NULL && pair->ops->rma == NULL)) {
    target->reach = GLI_RMA_MESSAGES;
    return GLOO_OK;
  }
  gli_transfer *t = gli_rma_new_message(link, GLI_RMA_REACH, 0);
  if (t == NULL) return rma_no_memory(link, error);
  target->reach = GLI_RMA_ASKED;
  return gli_rma_ask(link, t, 0, NULL, error);
}

/* ---- without messages ---------------------------------------------------- */

void gli_rma_copy_blocks(void *to, uint64_t to_stride, const void *from,
                         uint64_t from_stride, uint64_t bytes,
                         uint64_t blocks) {
  for (uint64_t i = 0; i < blocks; i++)
    gli_move_bytes((uint8_t *)to + i * to_stride,
                   (const uint8_t *)from + i * from_stride, (size_t)bytes);
}

void gli_rma_copy(const gli_rma_call *call, uint8_t *place) {
  if (call->verb == GLI_RMA_PUT)
    gli_rma_copy_blocks(place, call->stride, call->from, call->buffer_stride,
                        call->bytes, call->blocks);
  else
    gli_rma_copy_blocks(call->to, call->buffer_stride, place, call->stride,
                        call->bytes, call->blocks);
}

uint8_t *gli_rma_place(gloo_window *window, const gli_rma_call *call) {
  const gli_rma_target *target = &window->targets[call->rank];
  if (call->rank == window->context->rank) return window->memory + call->offset;
  return target->reach == GLI_RMA_MAPPED ? target->mapped + call->offset : NULL;
}

/* Stores the old value of a word, as long as the word. */
static void give_before(void *to, uint64_t bytes, uint64_t before) {
  uint32_t half = (uint32_t)before;
  if (to == NULL) return;
  memcpy(to, bytes == 4 ? (const void *)&half : &before, (size_t)bytes);
}

static void do_here(const gli_rma_call *call, uint8_t *place) {
  if (call->verb != GLI_RMA_ATOMIC)
    gli_rma_copy(call, place);
  else
    give_before(
        call->to, call->bytes,
        gli_rma_atomic(call->change, call->bytes, place, call->operands));
}

/* Accesses mapped memory. Returns false if it is not mapped, or if the owner
 * has revoked it, because its context has failed or ended: what was read is
 * then not valid, and messages find out why. */
static bool do_mapped(gloo_window *window, gli_pair *pair,
                      const gli_rma_call *call) {
  gli_rma_target *target = &window->targets[call->rank];
  uint8_t *place = gli_rma_place(window, call);
  if (place == NULL ||
      (call->verb == GLI_RMA_ATOMIC && !target->mapped_atomics))
    return false;
  do_here(call, place);
  if (pair != NULL && !pair->ops->revoked(pair)) return true;
  target->reach = GLI_RMA_MESSAGES;
  return false;
}

/* Hands a put or a get to the device. Returns false if a message is better, or
 * if out of memory. Messages are not ordered with it, so a put with a signal is
 * one. */
static bool do_by_device(gli_link *link, const gli_rma_target *target,
                         const gli_rma_call *call) {
  gli_pair *pair = link->pair;
  if (pair == NULL || call->verb == GLI_RMA_ATOMIC || call->blocks > 1 ||
      call->signal != NULL)
    return false;
  gli_rma_request *r = new_request(link, call->verb, NULL);
  if (r == NULL) return false;
  bool puts = call->verb == GLI_RMA_PUT;
  r->work = (gli_rma_work){
      .puts = puts,
      .local = puts ? (uint8_t *)(uintptr_t)call->from : call->to,
      .bytes = call->bytes,
      .remote = target->remote + call->offset,
      .rkey = target->rkey};
  if (pair->ops->rma(pair, &r->work)) return true;
  drop_request(r);
  return false;
}

/* ---- calls --------------------------------------------------------------- */

static gloo_status begin_elsewhere(gloo_window *window, gli_link *link,
                                   const gli_rma_call *call,
                                   gloo_error *error) {
  gli_rma_target *target = &window->targets[call->rank];
  if (do_mapped(window, link->pair, call)) return GLOO_OK;
  if (target->reach == GLI_RMA_DEVICE && do_by_device(link, target, call))
    return GLOO_OK;
  if (target->reach == GLI_RMA_UNKNOWN) {
    gloo_status status = ask_reach(link, error);
    if (status != GLOO_OK) return status;
  }
  return call->verb == GLI_RMA_PUT ? send_put(link, call, error)
                                   : send_question(link, call, error);
}

gloo_status gli_rma_begin(gloo_window *window, const gli_rma_call *call,
                          gloo_error *error) {
  gloo_context *context = window->context;
  gli_rma_target *target = &window->targets[call->rank];
  if (call->rank == context->rank) {
    do_here(call, window->memory + call->offset);
    if (call->signal != NULL)
      do_here(call->signal, window->memory + call->signal->offset);
    gli_rma_look_at_words(window);
    return GLOO_OK;
  }
  gli_link *link = gli_context_link(context, call->rank, error);
  if (link == NULL) return error->status;
  if (link->leaving.departed)
    return gli_fail(error, GLOO_ERR_PEER, (int)link->rank,
                    "rank %" PRIu32
                    " has left (destroyed its window or its context)",
                    link->rank);
  uint32_t numbers = target->numbers;
  gloo_status status = GLOO_OK;
  if (call->blocks > 0) status = begin_elsewhere(window, link, call, error);
  if (status != GLOO_OK || call->signal == NULL) return status;
  return send_signal(link, call->signal, target->numbers != numbers, error);
}

bool gli_rma_needs(const gli_link *link) {
  const gloo_window *window = link->context->window;
  if (window == NULL || link->local == GLI_NO_RANK) return false;
  const gli_rma_target *target = &window->targets[link->local];
  return target->first != NULL || target->puts > 0 || target->flushing ||
         window->watches != NULL;
}

/* ---- answers ------------------------------------------------------------- */

static gloo_status fail_answer(const gli_link *link, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %" PRIu32
                  " answered a window request that was never sent",
                  link->rank);
}

static uint64_t answer_bytes(const gli_rma_request *r) {
  switch (r->verb) {
    case GLI_RMA_GET:
      return r->bytes * r->blocks;
    case GLI_RMA_ATOMIC:
      return 8;
    case GLI_RMA_REACH:
      return 2 * GLI_RKEY_BYTES;
    default:
      return 0;
  }
}

/* Finds a request by number. Most answers come in the order of the requests. */
static gli_rma_request *find_request(const gli_rma_target *target,
                                     uint32_t number) {
  gli_rma_request *r = target->first;
  while (r != NULL && (!r->asks || r->number != number)) r = r->next;
  return r;
}

/* Takes the answer to REACH. Messages work whatever it is. */
static gloo_status learn_reach(gli_link *link, gli_rma_target *target,
                               const uint8_t *answer, gloo_error *error) {
  uint64_t where = gli_get_u64(answer), flags = gli_get_u64(answer + 8);
  gli_pair *pair = link->pair;
  bool again = (flags & GLI_RMA_ASK_AGAIN) != 0;
  target->reach = again ? GLI_RMA_UNKNOWN : GLI_RMA_MESSAGES;
  if (pair == NULL || target->bytes == 0 || target->bytes > SIZE_MAX)
    return GLOO_OK;
  if ((flags & GLI_RMA_IS_DEVICE) != 0 && pair->ops->rma != NULL) {
    target->reach = GLI_RMA_DEVICE;
    target->remote = where;
    target->rkey = (uint32_t)(flags >> 32);
    return GLOO_OK;
  }
  if ((flags & GLI_RMA_IS_MAPPED) == 0 || pair->ops->rkey_map == NULL)
    return GLOO_OK;
  void *memory;
  gloo_status status = pair->ops->rkey_map(pair, where, (size_t)target->bytes,
                                           true, &memory, error);
  if (status == GLOO_ERR_NO_MEMORY) return GLOO_OK;
  if (status != GLOO_OK || memory == NULL) return status;
  target->reach = GLI_RMA_MAPPED;
  target->mapped = memory;
  target->mapped_atomics = (flags & GLI_RMA_SHARES_ATOMICS) != 0 &&
                           gli_rma_atomics_are_shared() &&
                           (uintptr_t)memory % 8 == 0;
  return GLOO_OK;
}

static gloo_status end_request(gli_link *link, gli_rma_request *r,
                               const uint8_t *answer, gloo_error *error) {
  gloo_window *window = link->context->window;
  gli_rma_target *target = &window->targets[link->local];
  gloo_status status = GLOO_OK;
  if (r->verb == GLI_RMA_FLUSH) {
    target->flushing = false;
  } else if (r->verb == GLI_RMA_REACH) {
    status = learn_reach(link, target, answer, error);
  } else if (r->verb == GLI_RMA_ATOMIC) {
    give_before(r->to, r->bytes, gli_get_u64(answer));
  } else if (r->blocks > 1) {
    gli_rma_copy_blocks(r->to, r->buffer_stride, answer, r->bytes, r->bytes,
                        r->blocks);
  }
  drop_request(r);
  return status == GLOO_OK ? gli_rma_look(window, link->local, error) : status;
}

gloo_status gli_rma_device_done(gli_rma_work *work, gloo_error *error) {
  gli_rma_request *r = (gli_rma_request *)(void *)work;
  gloo_window *window = r->link->context->window;
  uint32_t rank = r->link->local;
  drop_request(r);
  return gli_rma_look(window, rank, error);
}

gloo_status gli_rma_answered(gli_link *link, const gli_header *h,
                             gli_sink *sink, gloo_error *error) {
  gloo_window *window = link->context->window;
  gli_rma_request *r = find_request(&window->targets[link->local], h->slot);
  if (r == NULL || r->answered || h->length != answer_bytes(r) ||
      h->operation != window->targets[link->local].key)
    return fail_answer(link, error);
  if (h->length == 0) return end_request(link, r, NULL, error);
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) return rma_no_memory(link, error);
  void *place = r->verb == GLI_RMA_GET ? r->to : t->rkey;
  if (r->blocks > 1) {
    if (!gli_rma_allocate(t, h->length)) {
      gli_transfer_free(t);
      return rma_no_memory(link, error);
    }
    place = t->note;
  }
  r->answered = true;
  t->window = window;
  t->request.header = *h;
  gli_transfer_list_add(&link->arriving, t);
  *sink = (gli_sink){.dst = place, .token = t};
  return GLOO_OK;
}

gloo_status gli_rma_took_answer(gli_transfer *t, gloo_error *error) {
  const gli_link *link = t->link;
  gli_rma_request *r = find_request(
      &link->context->window->targets[link->local], t->request.header.slot);
  return end_request(t->link, r, r->blocks > 1 ? t->note : t->rkey, error);
}
