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

static gli_transfer *new_message(gli_link *link, gli_rma_verb verb,
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

/* Sends a request that the owner answers; the payload is in `rkey`. */
static gloo_status send_request(gli_link *link, gli_transfer *t, uint64_t bytes,
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

static gloo_status send_put(gli_link *link, const gli_rma_call *call,
                            gloo_error *error) {
  gli_rma_target *target = &link->context->window->targets[link->local];
  gli_transfer *t = new_message(link, GLI_RMA_PUT, call->offset);
  if (t == NULL) return rma_no_memory(link, error);
  t->unsent = &target->unsent[target->epoch % 2];
  (*t->unsent)++;
  target->puts++;
  t->request.header.root = target->epoch;
  t->request.payload = call->from;
  t->request.header.length = call->bytes;
  gli_wire_post(t);
  return GLOO_OK;
}

static gloo_status send_question(gli_link *link, const gli_rma_call *call,
                                 gloo_error *error) {
  gli_transfer *t = new_message(link, call->verb, call->offset);
  if (t == NULL) return rma_no_memory(link, error);
  if (call->verb == GLI_RMA_GET) {
    gli_put_u64(t->rkey, call->bytes);
    return send_request(link, t, 8, call, error);
  }
  const uint64_t *operands = call->from;
  gli_put_u64(t->rkey, operands[0]);
  if (call->verb == GLI_RMA_ADD) return send_request(link, t, 8, call, error);
  gli_put_u64(t->rkey + 8, operands[1]);
  return send_request(link, t, 16, call, error);
}

/* Asks whether the owner's memory can be mapped. Later calls use the answer. */
static gloo_status ask_reach(gli_link *link, gloo_error *error) {
  gli_rma_target *target = &link->context->window->targets[link->local];
  const gli_pair *pair = link->pair;
  if (pair == NULL || (pair->ops->rkey_map == NULL && pair->ops->rma == NULL)) {
    target->reach = GLI_RMA_MESSAGES;
    return GLOO_OK;
  }
  gli_transfer *t = new_message(link, GLI_RMA_REACH, 0);
  if (t == NULL) return rma_no_memory(link, error);
  target->reach = GLI_RMA_ASKED;
  return send_request(link, t, 0, NULL, error);
}

/* ---- without messages ---------------------------------------------------- */

static void do_here(const gli_rma_call *call, uint8_t *at) {
  if (call->verb == GLI_RMA_PUT) {
    gli_move_bytes(at, call->from, (size_t)call->bytes);
  } else if (call->verb == GLI_RMA_GET) {
    gli_move_bytes(call->to, at, (size_t)call->bytes);
  } else {
    uint64_t before = gli_rma_atomic(call->verb, at, call->from);
    if (call->to != NULL) memcpy(call->to, &before, sizeof before);
  }
}

/* Accesses mapped memory. Returns false if the owner has revoked it, because
 * its context has failed or ended: what was read is then not valid. */
static bool do_mapped(gli_pair *pair, const gli_rma_target *target,
                      const gli_rma_call *call) {
  do_here(call, target->mapped + call->offset);
  return pair != NULL && !pair->ops->revoked(pair);
}

/* Hands a put or a get to the device. Returns false if a message is better, or
 * if out of memory. */
static bool do_by_device(gli_link *link, const gli_rma_target *target,
                         const gli_rma_call *call) {
  gli_pair *pair = link->pair;
  if (pair == NULL || (call->verb != GLI_RMA_PUT && call->verb != GLI_RMA_GET))
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

gloo_status gli_rma_begin(gloo_window *window, const gli_rma_call *call,
                          gloo_error *error) {
  gloo_context *context = window->context;
  gli_rma_target *target = &window->targets[call->rank];
  if (call->rank == context->rank) {
    do_here(call, window->memory + call->offset);
    return GLOO_OK;
  }
  gli_link *link = gli_context_link(context, call->rank, error);
  if (link == NULL) return error->status;
  if (link->leaving.departed)
    return gli_fail(error, GLOO_ERR_PEER, (int)link->rank,
                    "rank %" PRIu32
                    " has left (destroyed its window or its context)",
                    link->rank);
  bool atomic = call->verb == GLI_RMA_ADD || call->verb == GLI_RMA_SWAP;
  if (target->reach == GLI_RMA_MAPPED && (!atomic || target->mapped_atomics)) {
    if (do_mapped(link->pair, target, call)) return GLOO_OK;
    target->reach = GLI_RMA_MESSAGES; /* messages find out why */
  }
  if (target->reach == GLI_RMA_DEVICE && do_by_device(link, target, call))
    return GLOO_OK;
  if (target->reach == GLI_RMA_UNKNOWN) {
    gloo_status status = ask_reach(link, error);
    if (status != GLOO_OK) return status;
  }
  return call->verb == GLI_RMA_PUT ? send_put(link, call, error)
                                   : send_question(link, call, error);
}

/* ---- flush --------------------------------------------------------------- */

/* Returns the goal of a flush. An epoch without puts needs no FLUSH. */
gli_rma_goal gli_rma_goal_now(const gloo_window *window, uint32_t rank) {
  const gli_rma_target *target = &window->targets[rank];
  return (gli_rma_goal){.epoch = target->epoch - (target->puts == 0 ? 1u : 0u),
                        .begun = target->begun};
}

/* Returns true if an epoch was flushed: of past epochs, only the last may lack
 * its answer. */
static bool epoch_is_flushed(const gli_rma_target *target, uint32_t epoch) {
  uint32_t ago = target->epoch - epoch;
  return ago != 0 && (ago != 1 || !target->flushing);
}

bool gli_rma_waits_untold(const gloo_window *window, uint32_t rank) {
  const gli_rma_target *target = &window->targets[rank];
  return target->unsent[0] > 0 || target->unsent[1] > 0;
}

bool gli_rma_reached(const gloo_window *window, uint32_t rank,
                     const gli_rma_goal *goal) {
  const gli_rma_target *target = &window->targets[rank];
  if (target->first != NULL && target->first->begun < goal->begun) return false;
  if (!epoch_is_flushed(target, goal->epoch)) return false;
  /* Two epochs later its slot belongs to another epoch, which could begin only
   * once these puts were sent. */
  return target->epoch - goal->epoch > 1 ||
         target->unsent[goal->epoch % 2] == 0;
}

gloo_status gli_rma_pursue(gloo_window *window, uint32_t rank,
                           const gli_rma_goal *goal, gloo_error *error) {
  gli_rma_target *target = &window->targets[rank];
  if (target->epoch != goal->epoch || target->flushing ||
      target->unsent[(target->epoch + 1) % 2] > 0)
    return GLOO_OK;
  gli_link *link = gli_context_link(window->context, rank, error);
  if (link == NULL) return error->status;
  gli_transfer *t = new_message(link, GLI_RMA_FLUSH, 0);
  if (t == NULL) return rma_no_memory(link, error);
  t->request.header.root = target->epoch;
  gli_put_u32(t->rkey, target->puts);
  target->flushing = true;
  target->epoch++;
  target->puts = 0;
  return send_request(link, t, 4, NULL, error);
}

/* Ends the waits that are complete, and continues others. */
static gloo_status look_at_waits(gloo_window *window, uint32_t rank,
                                 gloo_error *error) {
  gli_rma_wait **at = &window->waits;
  gloo_status status = GLOO_OK;
  while (*at != NULL && status == GLOO_OK) {
    gli_rma_wait *wait = *at;
    if (wait->rank == rank && gli_rma_reached(window, rank, &wait->goal)) {
      *at = wait->next;
      wait->over = true;
      window->context->device->completed++;
      continue;
    }
    if (wait->rank == rank)
      status = gli_rma_pursue(window, rank, &wait->goal, error);
    at = &wait->next;
  }
  return status;
}

bool gli_rma_needs(const gli_link *link) {
  const gloo_window *window = link->context->window;
  if (window == NULL || link->local == GLI_NO_RANK) return false;
  const gli_rma_target *target = &window->targets[link->local];
  return target->first != NULL || target->puts > 0 || target->flushing;
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
      return r->bytes;
    case GLI_RMA_ADD:
    case GLI_RMA_SWAP:
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
  } else if (r->verb != GLI_RMA_GET && r->to != NULL) {
    uint64_t before = gli_get_u64(answer);
    memcpy(r->to, &before, sizeof before);
  }
  drop_request(r);
  return status == GLOO_OK ? look_at_waits(window, link->local, error) : status;
}

gloo_status gli_rma_device_done(gli_rma_work *work, gloo_error *error) {
  gli_rma_request *r = (gli_rma_request *)(void *)work;
  gloo_window *window = r->link->context->window;
  uint32_t rank = r->link->local;
  drop_request(r);
  return look_at_waits(window, rank, error);
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
  r->answered = true;
  t->window = window;
  t->request.header = *h;
  gli_transfer_list_add(&link->arriving, t);
  *sink =
      (gli_sink){.dst = r->verb == GLI_RMA_GET ? r->to : t->rkey, .token = t};
  return GLOO_OK;
}

gloo_status gli_rma_took_answer(gli_transfer *t, gloo_error *error) {
  const gli_link *link = t->link;
  gli_rma_request *r = find_request(
      &link->context->window->targets[link->local], t->request.header.slot);
  return end_request(t->link, r, t->rkey, error);
}
