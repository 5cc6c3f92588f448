/* Flushes: of threads that wait, and of requests. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/bytes.h"
#include "core/error.h"
#include "engine/rma/rma.h"
#include "engine/run/run.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* ---- goals --------------------------------------------------------------- */

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
  gli_transfer *t = gli_rma_new_message(link, GLI_RMA_FLUSH, 0);
  if (t == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a message to rank %" PRIu32, link->rank);
  t->request.header.root = target->epoch;
  gli_put_u32(t->rkey, target->puts);
  target->flushing = true;
  target->epoch++;
  target->puts = 0;
  return gli_rma_ask(link, t, 4, NULL, error);
}

gloo_status gli_rma_fail_late(const gloo_window *window, uint32_t rank,
                              gloo_error *error) {
  const gloo_context *context = window->context;
  uint32_t late = context->peers[rank].rank;
  return gli_fail(error, GLOO_ERR_TIMEOUT, (int)late,
                  "rank %" PRIu32
                  " did not complete the window operations of rank %" PRIu32
                  " within %.3g s",
                  late, context->root_rank, (double)context->timeout_ns / 1e9);
}

/* ---- waits --------------------------------------------------------------- */

/* Continues a wait. Returns true if it has ended. */
static bool wait_ends(gloo_window *window, gli_rma_wait *wait,
                      gloo_status *status, gloo_error *error) {
  if (gli_rma_reached(window, wait->rank, &wait->goal)) wait->over = true;
  if (!wait->over && *status == GLOO_OK)
    *status = gli_rma_pursue(window, wait->rank, &wait->goal, error);
  return wait->over;
}

/* Ends a flush whose waits have ended. */
static void flush_end(const gloo_window *window, gli_rma_flush *flush) {
  gli_operation *request = flush->request;
  window->context->device->flushes--;
  if (request != NULL) request->owner = NULL;
  free(flush);
  if (request != NULL && gli_operation_is_running(request))
    gli_operation_finish(request, NULL);
}

/* Continues the flushes of one rank, or of all (GLI_NO_RANK). */
static gloo_status look_at_flushes(gloo_window *window, uint32_t rank,
                                   gloo_error *error) {
  gloo_status status = GLOO_OK;
  gli_rma_flush **at = &window->flushes;
  while (*at != NULL) {
    gli_rma_flush *flush = *at;
    for (uint32_t i = 0; i < flush->n; i++) {
      gli_rma_wait *wait = &flush->wait[i];
      if (wait->over || (rank != GLI_NO_RANK && rank != wait->rank)) continue;
      if (wait_ends(window, wait, &status, error)) flush->left--;
    }
    if (flush->left > 0) {
      at = &flush->next;
      continue;
    }
    *at = flush->next;
    flush_end(window, flush);
  }
  return status;
}

gloo_status gli_rma_look(gloo_window *window, uint32_t rank,
                         gloo_error *error) {
  gli_rma_wait **at = &window->waits;
  gloo_status status = GLOO_OK;
  while (*at != NULL && status == GLOO_OK) {
    gli_rma_wait *wait = *at;
    if (wait->rank != rank || !wait_ends(window, wait, &status, error)) {
      at = &wait->next;
      continue;
    }
    *at = wait->next;
    window->context->device->completed++;
  }
  if (status != GLOO_OK || window->flushes == NULL) return status;
  return look_at_flushes(window, rank, error);
}

static void window_look_around(gloo_context *context) {
  gloo_error error;
  gloo_window *window = context->window;
  if (window == NULL || gli_context_poisoned(context)) return;
  if (look_at_flushes(window, GLI_NO_RANK, &error) != GLOO_OK)
    gli_context_poison(context, &error);
}

void gli_rma_look_around(gloo_device *device) {
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    window_look_around(c);
    for (gloo_context *g = c->family->groups; g != NULL; g = g->next)
      window_look_around(g);
  }
}

/* ---- requests ------------------------------------------------------------ */

gloo_status gli_rma_flush_begin(gloo_window *window, uint32_t rank,
                                gli_rma_flush **out, gloo_error *error) {
  bool all = rank == GLI_NO_RANK;
  uint32_t first = all ? 0 : rank;
  uint32_t n = all ? window->context->size : 1;
  gli_rma_flush *flush =
      calloc(1, sizeof *flush + (size_t)n * sizeof flush->wait[0]);
  if (flush == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a flush of %" PRIu32 " ranks", n);
  gloo_status status = GLOO_OK;
  for (uint32_t i = first; i < first + n && status == GLOO_OK; i++) {
    gli_rma_wait wait = {.rank = i, .goal = gli_rma_goal_now(window, i)};
    if (!wait_ends(window, &wait, &status, error))
      flush->wait[flush->n++] = wait;
  }
  flush->left = flush->n;
  if (status != GLOO_OK || flush->n == 0) {
    free(flush);
    *out = NULL;
    return status;
  }
  flush->next = window->flushes;
  window->flushes = flush;
  window->context->device->flushes++;
  *out = flush;
  return GLOO_OK;
}

/* Returns the flush of a pending request; `owner` is its first member. */
static gli_rma_flush *flush_of(const gli_operation *request) {
  return (gli_rma_flush *)(void *)request->owner;
}

void gli_rma_flush_cancel(gli_operation *request) {
  gloo_error error;
  uint32_t rank = request->context->root_rank;
  gli_fail(&error, GLOO_ERR_CANCELLED, (int)rank,
           "rank %" PRIu32 " cancelled the flush of a window", rank);
  flush_of(request)->request = NULL;
  request->owner = NULL;
  gli_operation_finish(request, &error);
}

void gli_rma_flush_drop(gloo_window *window) {
  while (window->flushes != NULL) {
    gli_rma_flush *flush = window->flushes;
    window->flushes = flush->next;
    flush_end(window, flush);
  }
}

void gli_rma_flush_fail_late(const gli_operation *request, gloo_error *error) {
  const gli_rma_flush *flush = flush_of(request);
  uint32_t i = 0;
  while (flush->wait[i].over) i++;
  (void)gli_rma_fail_late(request->context->window, flush->wait[i].rank, error);
}
