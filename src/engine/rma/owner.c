/* The owner: requests of other ranks for this rank's part of a window. No
 * message is trusted: the key must be the window's, and the range must lie
 * within it. */
#include <inttypes.h>
#include <string.h>

#include "core/bytes.h"
#include "core/cpu.h"
#include "core/error.h"
#include "engine/rma/rma.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"
#include "memory/region.h"

/* ---- answers ------------------------------------------------------------- */

static gloo_status rma_no_room(const gli_link *link, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a message to or from rank %" PRIu32,
                  link->rank);
}

static gli_transfer *new_answer(gli_link *link, uint32_t number,
                                gloo_error *error) {
  gli_rma_target *from = &link->context->window->targets[link->local];
  if (from->answers >= GLI_RMA_ANSWERS_MAX) {
    gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
             "rank %" PRIu32 " sent more window requests at once than allowed",
             link->rank);
    return NULL;
  }
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) {
    (void)rma_no_room(link, error);
    return NULL;
  }
  t->unsent = &from->answers;
  from->answers++;
  t->request.header = (gli_header){.type = GLI_MESSAGE_RMA,
                                   .op = GLI_RMA_REPLY,
                                   .context = link->group.peers,
                                   .operation = link->context->window->key,
                                   .slot = number};
  return t;
}

static void send_answer(gli_transfer *t, const void *payload, uint64_t bytes) {
  t->request.payload = payload;
  t->request.header.length = bytes;
  gli_wire_post(t);
}

static gloo_status answer_flush(gli_link *link, gli_rma_target *from,
                                gloo_error *error) {
  uint32_t *came = &from->came[from->owed_epoch % 2];
  if (!from->owes_flush || *came != from->owed_puts) return GLOO_OK;
  from->owes_flush = false;
  *came = 0; /* for the next epoch but one */
  gli_transfer *t = new_answer(link, from->owed_number, error);
  if (t == NULL) return error->status;
  send_answer(t, NULL, 0);
  return GLOO_OK;
}

/* Fills the answer to REACH: two words that tell whether and where the peer
 * finds this memory. */
static void find_reach(gli_link *link, gli_rma_target *from,
                       uint8_t answer[2 * GLI_RKEY_BYTES]) {
  const gloo_window *window = link->context->window;
  gli_pair *pair = link->pair;
  size_t bytes = (size_t)window->bytes;
  uint64_t where = 0, flags = 0;
  uint32_t rkey = 0;
  if (pair != NULL && bytes > 0) {
    const gli_transport_ops *ops = pair->ops;
    gli_exposure exposes = GLI_EXPOSES_NOT;
    if (ops->rkey_pack != NULL &&
        ops->rkey_pack(pair, window->memory, bytes, GLI_ACCESS_WRITE, &where))
      flags = GLI_RMA_IS_MAPPED;
    else if (ops->rma_expose != NULL)
      exposes = ops->rma_expose(pair, window->memory, bytes, &where, &rkey);
    if (exposes == GLI_EXPOSES) flags = GLI_RMA_IS_DEVICE;
    if (flags != 0) {
      from->exposed = true;
      gli_rma_stir(link->context->window);
    }
    if (exposes == GLI_EXPOSES_LATER) flags = GLI_RMA_ASK_AGAIN;
  }
  if (gli_rma_atomics_are_shared()) flags |= GLI_RMA_SHARES_ATOMICS;
  gli_put_u64(answer, where);
  gli_put_u64(answer + 8, flags | (uint64_t)rkey << 32);
}

static gloo_status answer_reach(gli_link *link, gli_rma_target *from,
                                uint32_t number, gloo_error *error) {
  gli_transfer *t = new_answer(link, number, error);
  if (t == NULL) return error->status;
  find_reach(link, from, t->rkey);
  send_answer(t, t->rkey, 2 * GLI_RKEY_BYTES);
  return GLOO_OK;
}

static gloo_status answer_atomic(gli_link *link, const gli_header *h,
                                 const uint8_t *payload, gloo_error *error) {
  const gloo_window *window = link->context->window;
  uint64_t operands[2] = {gli_get_u64(payload), 0};
  if (h->length == 16) operands[1] = gli_get_u64(payload + 8);
  gli_transfer *t = new_answer(link, h->slot, error);
  if (t == NULL) return error->status;
  gli_put_u64(t->rkey, gli_rma_atomic(h->algorithm, h->dtype,
                                      window->memory + h->count, operands));
  send_answer(t, t->rkey, 8);
  return GLOO_OK;
}

bool gli_rma_blocks_fit(uint64_t offset, uint64_t bytes, uint64_t stride,
                        uint64_t blocks, uint64_t size) {
  if (bytes == 0 || blocks == 0 || !gli_in_bounds(offset, bytes, size))
    return false;
  if (blocks == 1) return true;
  return stride >= bytes && blocks - 1 <= (size - offset - bytes) / stride;
}

static gloo_status rma_beyond_end(const gli_link *link, const char *what,
                                  gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %" PRIu32
                  " requested a %s beyond the end of this rank's part of a "
                  "window",
                  link->rank, what);
}

static gloo_status answer_get(gli_link *link, const gli_header *h,
                              const uint8_t *payload, gloo_error *error) {
  const gloo_window *window = link->context->window;
  uint64_t bytes = gli_get_u64(payload), stride = gli_get_u64(payload + 8);
  uint64_t blocks = h->root;
  if (!gli_rma_blocks_fit(h->count, bytes, stride, blocks, window->bytes) ||
      (blocks > 1 && bytes > GLI_RMA_PACK_MAX / blocks))
    return rma_beyond_end(link, "read", error);
  gli_transfer *t = new_answer(link, h->slot, error);
  if (t == NULL) return error->status;
  const uint8_t *memory = window->memory + h->count;
  uint64_t length = bytes * blocks;
  if (length > GLI_RMA_WORDS && blocks == 1) {
    send_answer(t, memory, bytes);
    return GLOO_OK;
  }
  uint8_t *packed = t->rkey;
  if (length > GLI_RMA_WORDS) {
    if (!gli_rma_allocate(t, length)) {
      gli_wire_finish(t);
      return rma_no_room(link, error);
    }
    packed = t->note;
  }
  gli_rma_copy_blocks(packed, bytes, memory, stride, bytes, blocks);
  send_answer(t, packed, length);
  return GLOO_OK;
}

/* Stores the blocks of a message, whose length was checked. */
static gloo_status take_blocks(const gli_link *link, const gli_header *h,
                               const uint8_t *payload, gloo_error *error) {
  const gloo_window *window = link->context->window;
  uint64_t bytes = gli_get_u64(payload), stride = gli_get_u64(payload + 8);
  uint64_t all = h->length - GLI_RMA_BLOCKS_HEAD;
  if (bytes == 0 || all % bytes != 0 ||
      !gli_rma_blocks_fit(h->count, bytes, stride, all / bytes, window->bytes))
    return rma_beyond_end(link, "write", error);
  gli_rma_copy_blocks(window->memory + h->count, stride,
                      payload + GLI_RMA_BLOCKS_HEAD, bytes, bytes, all / bytes);
  return GLOO_OK;
}

/* ---- arrivals ------------------------------------------------------------ */

/* Checks the length of the payload for the verb. A PUT may have any length but
 * 0. */
static bool has_length_of_its_verb(const gli_header *h) {
  switch ((gli_rma_verb)h->op) {
    case GLI_RMA_PUT:
      return h->length > 0;
    case GLI_RMA_PUT_BLOCKS:
      return h->length > GLI_RMA_BLOCKS_HEAD &&
             h->length <= GLI_RMA_BLOCKS_HEAD + GLI_RMA_PACK_MAX;
    case GLI_RMA_GET:
      return h->length == 16;
    case GLI_RMA_ATOMIC:
      return h->length == (h->algorithm == GLI_RMA_COMPARE_SWAP ? 16 : 8);
    case GLI_RMA_SIGNAL:
      return h->length == 8;
    case GLI_RMA_FLUSH:
      return h->length == 4;
    case GLI_RMA_REACH:
      return h->length == 0;
    case GLI_RMA_REPLY:
      break;
  }
  return false;
}

static bool rma_has_change(const gli_header *h) {
  if (h->op == GLI_RMA_SIGNAL)
    return h->dtype == 8 && (h->algorithm == GLOO_ATOMIC_ADD ||
                             h->algorithm == GLOO_ATOMIC_SWAP);
  return (h->dtype == 4 || h->dtype == 8) && h->algorithm < GLI_RMA_CHANGES;
}

/* Checks what PUT, ATOMIC and SIGNAL have in the header. */
static bool rma_is_within(const gloo_window *window, const gli_header *h) {
  if (h->op == GLI_RMA_PUT)
    return gli_in_bounds(h->count, h->length, window->bytes);
  if (h->op == GLI_RMA_ATOMIC || h->op == GLI_RMA_SIGNAL)
    return rma_has_change(h) && h->count % h->dtype == 0 &&
           gli_in_bounds(h->count, h->dtype, window->bytes);
  return true;
}

static gloo_status rma_no_window(const gli_link *link, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                  "rank %" PRIu32
                  " sent a message for a window that does not exist here",
                  link->rank);
}

gloo_status gli_rma_arrives(gli_link *link, const gli_header *h, gli_sink *sink,
                            gloo_error *error) {
  gloo_window *window = link->context->window;
  if (window == NULL || window->closing || link->local == GLI_NO_RANK)
    return rma_no_window(link, error);
  if (h->op == GLI_RMA_REPLY) return gli_rma_answered(link, h, sink, error);
  if (h->operation != window->key) return rma_no_window(link, error);
  if (!has_length_of_its_verb(h) || !rma_is_within(window, h))
    return gli_fail(
        error, GLOO_ERR_PROTOCOL, (int)link->rank,
        "rank %" PRIu32
        " sent an invalid window request (operation %u, offset %" PRIu64
        ", %" PRIu64 " bytes)",
        link->rank, (unsigned)h->op, h->count, h->length);
  if (h->op == GLI_RMA_REACH)
    return answer_reach(link, &window->targets[link->local], h->slot, error);
  gli_transfer *t = gli_transfer_new(link);
  if (t == NULL) return rma_no_room(link, error);
  uint8_t *place = t->rkey;
  if (h->op == GLI_RMA_PUT && h->length > GLI_RMA_WORDS)
    place = window->memory + h->count;
  if (h->op == GLI_RMA_PUT_BLOCKS) {
    if (!gli_rma_allocate(t, h->length)) {
      gli_transfer_free(t);
      return rma_no_room(link, error);
    }
    place = t->note;
  }
  t->window = window;
  t->request.header = *h;
  gli_transfer_list_add(&link->arriving, t);
  *sink = (gli_sink){.dst = place, .token = t};
  return GLOO_OK;
}

static gloo_status came_for_owner(gli_transfer *t, gloo_error *error) {
  gli_link *link = t->link;
  const gli_header *h = &t->request.header;
  const gloo_window *window = link->context->window;
  gli_rma_target *from = &window->targets[link->local];
  gloo_status status = GLOO_OK;
  switch ((gli_rma_verb)h->op) {
    case GLI_RMA_PUT:
      if (h->length <= GLI_RMA_WORDS)
        memcpy(window->memory + h->count, t->rkey, (size_t)h->length);
      break;
    case GLI_RMA_PUT_BLOCKS:
      status = take_blocks(link, h, t->note, error);
      break;
    case GLI_RMA_SIGNAL: {
      uint64_t operands[2] = {gli_get_u64(t->rkey), 0};
      (void)gli_rma_atomic(h->algorithm, h->dtype, window->memory + h->count,
                           operands);
      break;
    }
    case GLI_RMA_GET:
      return answer_get(link, h, t->rkey, error);
    case GLI_RMA_ATOMIC:
      return answer_atomic(link, h, t->rkey, error);
    case GLI_RMA_FLUSH:
      from->owes_flush = true;
      from->owed_number = h->slot;
      from->owed_epoch = h->root;
      from->owed_puts = gli_get_u32(t->rkey);
      return answer_flush(link, from, error);
    case GLI_RMA_REACH:
    case GLI_RMA_REPLY:
      return GLOO_OK;
  }
  if (status != GLOO_OK) return status;
  from->came[h->root % 2]++;
  return answer_flush(link, from, error);
}

/* Returns an arriving message with that verb and number; NULL if none. */
static gli_transfer *find_arriving(const gli_link *link, gli_rma_verb verb,
                                   uint32_t number, bool held) {
  gli_transfer *t = link->arriving.first;
  while (t != NULL && (t->window == NULL || t->request.header.op != verb ||
                       t->request.header.slot != number || t->held != held))
    t = t->next;
  return t;
}

gloo_status gli_rma_arrived(gli_transfer *t, gloo_error *error) {
  gli_link *link = t->link;
  gloo_window *window = link->context->window;
  const uint8_t verb = t->request.header.op;
  const uint32_t number = t->request.header.slot;
  if (verb == GLI_RMA_SIGNAL && !t->held &&
      find_arriving(link, GLI_RMA_PUT, number, false) != NULL) {
    if (find_arriving(link, GLI_RMA_SIGNAL, number, true) != NULL)
      return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                      "rank %" PRIu32 " sent two signals behind one put",
                      link->rank);
    t->held = true;
    return GLOO_OK;
  }
  gli_transfer_list_remove(&link->arriving, t);
  gloo_status status = verb == GLI_RMA_REPLY ? gli_rma_took_answer(t, error)
                                             : came_for_owner(t, error);
  gli_transfer_free(t);
  t = verb == GLI_RMA_PUT && status == GLOO_OK
          ? find_arriving(link, GLI_RMA_SIGNAL, number, true)
          : NULL;
  if (t != NULL) return gli_rma_arrived(t, error);
  gli_rma_look_at_words(window);
  return status;
}

/* ---- the end ------------------------------------------------------------- */

static bool link_arrives_for(const gli_link *link, const gloo_window *window) {
  const gli_transfer *t = link->arriving.first;
  while (t != NULL && t->window != window) t = t->next;
  return t != NULL;
}

uint32_t gli_rma_user(const gloo_window *window) {
  const gloo_context *context = window->context;
  for (const gli_link *link = context->links; link != NULL; link = link->next) {
    if (link->local == GLI_NO_RANK) continue;
    const gli_rma_target *target = &window->targets[link->local];
    if (link_arrives_for(link, window) || target->answers > 0 ||
        target->unsent[0] > 0 || target->unsent[1] > 0)
      return link->local;
  }
  return GLI_NO_RANK;
}

bool gli_rma_is_exposed(const gloo_window *window) {
  for (uint32_t i = 0; i < window->context->size; i++)
    if (window->targets[i].exposed) return true;
  return false;
}

bool gli_rma_is_shared(const gloo_window *window) {
  return !gli_rma_is_exposed(window) ||
         gli_region_is_intact(window->memory, (size_t)window->bytes);
}

void gli_rma_await_copies(gloo_window *window) {
  /* In a forked child the threads that copy do not exist. */
  if (window->context->device->fork.child) return;
  while (atomic_load(&window->copying) > 0) gli_cpu_yield();
}

/* Ends all waits. In a forked child there are no waiting threads, so their
 * stacks must not be touched. */
void gli_rma_fail(gloo_window *window) {
  gloo_device *device = window->context->device;
  bool child = device->fork.child;
  for (gli_rma_wait *w = window->waits; w != NULL && !child; w = w->next)
    w->over = true;
  if (!child) gli_rma_stir(window);
  window->waits = NULL;
  window->watches = NULL;
  gli_rma_flush_drop(window);
  device->completed++;
  if (gli_rma_is_exposed(window) && !child)
    (void)gli_region_detach(window->memory, (size_t)window->bytes);
}
