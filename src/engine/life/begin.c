/* The begin of a run: its ranks and its number. */
#include "core/error.h"
#include "core/hints.h"
#include "engine/life/life.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/memory/staged_copies.h"
#include "engine/run/run.h"
#include "engine/state/deadline.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* ---- ranks --------------------------------------------------------------- */

/* Opens the links to all peers of the operation. */
GLI_COLD static gloo_status open_links(gli_operation *op, gloo_error *error) {
  bool message = gli_operation_is_message(op);
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    uint32_t rank = op->plan->peers[i].rank;
    if (message) rank = (uint32_t)op->p2p.peer;
    op->peers[i].link = gli_context_link(op->context, rank, error);
    if (op->peers[i].link == NULL) return error->status;
  }
  return GLOO_OK;
}

GLI_COLD static gloo_status begin_find_counter(gli_operation *op,
                                               gloo_error *error) {
  gli_counters *counters = &op->context->counters;
  if (op->side == GLI_SEND_SIDE) counters = &op->peers[0].link->sent;
  if (op->side == GLI_RECV_SIDE) counters = &op->peers[0].link->found;
  op->counter = gli_counter(counters, op->signature.tag);
  if (op->counter != NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for tag %u",
                  op->signature.tag);
}

/* Begins an operation whose ranks and number are known beforehand. */
GLI_INLINE gloo_status begin_numbered(gli_operation *op, gloo_error *error) {
  gloo_status status = GLOO_OK;
  uint32_t n = op->plan->n_peers;
  /* Links stay open from run to run, and are opened in this order. */
  if (n > 0 && op->peers[n - 1].link == NULL) status = open_links(op, error);
  if (status == GLOO_OK && op->counter == NULL)
    status = begin_find_counter(op, error);
  if (status != GLOO_OK) return status;
  op->signature.operation = (*op->counter)++;
  gli_operation_forget(op);
  gli_early_read_cts(op);
  return gli_operation_launch(op, error);
}

/* ---- receives ------------------------------------------------------------ */

/* Returns true if all ranks that a receive takes from have left. Some may have
 * left in order, and would refuse a link; senders open one themselves, and
 * failures arrive through the tree. */
static bool all_departed(const gli_operation *op) {
  for (uint32_t rank = 0; rank < op->context->size; rank++) {
    if (!gli_p2p_takes_from(op, rank)) continue;
    const gli_link *link = op->context->peers[rank].link;
    if (link == NULL || !link->leaving.departed) return false;
  }
  return true;
}

static gloo_status post_receive(gli_operation *op, gloo_error *error) {
  gloo_context *context = op->context;
  op->peers[0] = (gli_op_peer){.link = NULL};
  op->counter = NULL;
  const gli_early *early = gli_match_envelope(op);
  if (early != NULL) return gli_receive_bind(op, early->link, error);
  if (all_departed(op)) {
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "no rank is left to receive from: every possible sender "
                    "has destroyed its context");
  }
  gli_operation_becomes(op, GLI_OPERATION_POSTED);
  gli_deadline_arm(op);
  gli_operation_list_add(&context->family->posted, op);
  return GLOO_OK;
}

/* Begins a receive from one rank, unless a posted receive may take its
 * message. */
static gloo_status begin_receive(gli_operation *op, gloo_error *error) {
  if (op->p2p.peer < 0) return post_receive(op, error);
  uint32_t rank = (uint32_t)op->p2p.peer, tag = op->signature.tag;
  if (op->context->family->posted.first != NULL &&
      gli_match_posted(op->context, rank, tag) != NULL) {
    return post_receive(op, error);
  }
  op->p2p.source = (int)op->p2p.peer;
  return begin_numbered(op, error);
}

/* ---- any operation ------------------------------------------------------- */

/* Starts all deferred operations. A new one runs after them, because messages
 * must not overtake each other. */
GLI_COLD static void start_all_deferred(gloo_device *device) {
  while (device->deferred != NULL) gli_device_start_deferred(device);
}

/* Fails the context, because the other ranks count on the operation. */
GLI_COLD static gloo_status refuse_to_begin(gli_operation *op,
                                            const gloo_error *error) {
  gloo_context *context = op->context;
  gli_context_poison(context, error);
  if (!gli_operation_is_running(op)) {
    gli_operation_becomes(op, GLI_OPERATION_RUNNING);
    gli_deadline_arm(op);
    gli_operation_list_add(&context->family->active, op);
  }
  return error->status;
}

GLI_COLD static gloo_status begin_too_late(gli_operation *op,
                                           gloo_error *error) {
  gloo_status status = gli_context_unusable(op->context, error);
  op->error = *error;
  if (op->ending & GLI_ENDS_COPIED) gli_staged_end(op, false);
  gli_operation_becomes(op, GLI_OPERATION_DONE);
  return status;
}

/* Forgets the source, since the next message may come from another rank. */
static void forget_source(gli_operation *op) {
  gli_operation_count_runs(op);
  op->about.peer = GLI_NO_RANK;
}

gloo_status gli_operation_begin_counted(gli_operation *op, bool now,
                                        gloo_error *error) {
  gloo_device *device = op->device;
  op->started = gli_ticks();
  if (op->scaling.from != NULL) {
    gli_operation_make_input(op);
    /* Other threads may have run meanwhile. */
    if (gli_context_poisoned(op->context)) return begin_too_late(op, error);
  }
  if (now && device->deferred != NULL) start_all_deferred(device);
  if (op->side == GLI_RECV_SIDE && op->p2p.peer < 0) forget_source(op);
  op->p2p.source = -1;
  gli_error_clear(&op->error);
  device->outstanding++;
  gloo_status status = op->side == GLI_RECV_SIDE ? begin_receive(op, error)
                                                 : begin_numbered(op, error);
  return status == GLOO_OK ? GLOO_OK : refuse_to_begin(op, error);
}
