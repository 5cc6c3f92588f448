/* The beginning of a run: who it is with, and what its number is. */
#include "core/error.h"
#include "core/hints.h"
#include "core/reduce.h"
#include "engine/life/life.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/run/run.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

static gloo_status begin_send(gloo_operation *op, gloo_error *error) {
  gli_link *link = gli_context_link(op->context, (uint32_t)op->p2p_peer, error);
  if (!link) return error->status;
  op->peers[0] = (gli_op_peer){.link = link};
  op->counter = &link->p2p_sent;
  op->signature.operation = link->p2p_sent++;
  return gli_operation_launch(op, error);
}

/* Of all that it talks to. */
GLI_COLD static gloo_status open_links(gloo_operation *op, gloo_error *error) {
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    uint32_t rank = op->plan->peers[i].rank;
    op->peers[i].link = gli_context_link(op->context, rank, error);
    if (!op->peers[i].link) return error->status;
  }
  return GLOO_OK;
}

GLI_COLD static gloo_status find_counter(gloo_operation *op,
                                         gloo_error *error) {
  op->counter = gli_context_counter(op->context, op->signature.tag);
  if (op->counter) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for tag %u",
                  op->signature.tag);
}

GLI_INLINE gloo_status begin_collective(gloo_operation *op, gloo_error *error) {
  gloo_status status = GLOO_OK;
  uint32_t n = op->plan->n_peers;
  /* They stay as they are from run to run, and are opened in this order. */
  if (n > 0 && !op->peers[n - 1].link) status = open_links(op, error);
  if (status == GLOO_OK && !op->counter) status = find_counter(op, error);
  if (status != GLOO_OK) return status;
  op->signature.operation = (*op->counter)++;
  for (uint32_t i = 0; i < n; i++) {
    op->peers[i] = (gli_op_peer){.link = op->peers[i].link};
    if (op->peers[i].link->notes_count > 0) gli_early_read_notes(op, i);
  }
  return gli_operation_launch(op, error);
}

/* ---- receives ------------------------------------------------------------ */

/* Who waits for one rank opens a link to it, so that its failure is seen. Of
 * several ranks, some may have left in order, and would refuse; those who send
 * open a link themselves, and failures are heard of through the tree. */
static gloo_status open_candidates(gloo_operation *op, bool *all_left,
                                   gloo_error *error) {
  *all_left = true;
  for (uint32_t rank = 0; rank < op->context->size; rank++) {
    if (!gli_p2p_takes_from(op, rank)) continue;
    const gli_link *link = op->context->peers[rank].link;
    if (!link && op->p2p_peer >= 0) {
      link = gli_context_link(op->context, rank, error);
      if (!link) return error->status;
    }
    *all_left = *all_left && link && link->left;
  }
  return GLOO_OK;
}

static gloo_status post_receive(gloo_operation *op, gloo_error *error) {
  gloo_context *context = op->context;
  op->peers[0] = (gli_op_peer){.link = NULL};
  bool all_left;
  gloo_status status = open_candidates(op, &all_left, error);
  if (status != GLOO_OK) return status;
  if (op->p2p_peer >= 0) {
    op->counter = &context->peers[op->p2p_peer].link->p2p_came;
  }
  const gli_parked *early = gli_match_envelope(op);
  if (early) {
    gli_header header = early->header;
    return gli_receive_bind(op, early->link, &header, error);
  }
  if (all_left) {
    int rank = -1;
    if (op->p2p_peer >= 0) rank = (int)context->peers[op->p2p_peer].rank;
    return gli_fail(error, GLOO_ERR_PEER, rank,
                    "nobody is left to receive from: %s %d has destroyed its "
                    "context",
                    rank >= 0 ? "rank" : "every rank, like", rank);
  }
  op->state = GLI_OPERATION_POSTED;
  gli_operation_list_add(&context->family->posted, op);
  return GLOO_OK;
}

/* ---- any ----------------------------------------------------------------- */

/* Whatever runs at once runs behind those: messages must not overtake. */
GLI_COLD static void take_up_all(gloo_device *device) {
  while (device->put_off) gli_device_take_up(device);
}

GLI_COLD static void scale(const gloo_operation *op) {
  if (op->wide) {
    gli_wide_begin(op);
    return;
  }
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(
      op->scaled_to, op->unscaled, op->unscaled_count, op->factor);
}

/* The other ranks count on this operation now, so it cannot just not be. */
GLI_COLD static gloo_status refuse_to_begin(gloo_operation *op,
                                            const gloo_error *error) {
  gloo_context *context = op->context;
  gli_context_poison(context, error);
  if (op->state < GLI_OPERATION_POSTED) {
    op->state = GLI_OPERATION_RUNNING;
    gli_operation_list_add(&context->family->active, op);
  }
  return error->status;
}

gloo_status gli_operation_begin_anew(gloo_operation *op, bool now,
                                     gloo_error *error) {
  gloo_device *device = op->device;
  if (now && device->put_off) take_up_all(device);
  if (op->unscaled) scale(op);
  op->source = -1;
  gli_error_clear(&op->error);
  gli_late_arm(op);
  device->outstanding++;
  gloo_status status;
  if (op->signature.collective != GLI_SENDRECV) {
    status = begin_collective(op, error);
  } else if (gli_operation_is_recv(op)) {
    status = post_receive(op, error);
  } else {
    status = begin_send(op, error);
  }
  if (status != GLOO_OK) return refuse_to_begin(op, error);
  op->again = op->may_go_straight && op->counter && !op->unscaled;
  return GLOO_OK;
}
