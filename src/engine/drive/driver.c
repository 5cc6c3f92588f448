/* Devices: a transport, its lock, and the state that its contexts share. */
#include <stdlib.h>
#include <string.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/hints.h"
#include "core/log.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/failure/council.h"
#include "engine/failure/failure.h"
#include "engine/memory/staged_copies.h"
#include "engine/rma/rma.h"
#include "engine/run/in_order.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"
#include "kernels/copy.h"
#include "transport/sink.h"

void gli_device_lock_contended(gloo_device *device) {
  if (atomic_exchange(&device->fork.pending, false)) {
    gli_device_disable_in_child(device); /* no thread holds the lock */
    return;
  }
  gli_device_wait_lock(device);
}

gloo_status gli_device_open(const gli_transport_ops *ops,
                            const gli_transport_config *config, bool helper,
                            gloo_device **out, gloo_error *error) {
  gloo_device *device = calloc(1, sizeof *device);
  if (device == NULL) goto no_memory;
  device->ops = ops;
  device->timers_ns = UINT64_MAX;
  atomic_init(&device->lock_wanted, 0);
  atomic_init(&device->oversubscribed, false);
  if (!gli_lock_init(&device->lock)) goto no_lock;
  if (uv_mutex_init(&device->helper.lock) != 0) goto no_helper_lock;
  if (uv_cond_init(&device->helper.wake) != 0) goto no_condition;
  gloo_status status = gli_device_read_wait_mode(device, error);
  if (status != GLOO_OK) goto no_transport;
  gli_transport_config full = *config;
  full.upcalls = &gli_engine_upcalls;
  full.device_user = device;
  full.owed = &device->owed;
  status = ops->open(&full, &device->transport, error);
  if (status != GLOO_OK) goto no_transport;
  if (helper) {
    status = gli_device_start_helper(device, error);
    if (status != GLOO_OK) goto no_helper;
  }
  if (!gli_device_watch_forks(device)) goto no_watch;
  *out = device;
  return GLOO_OK;

no_watch:
  gli_device_stop_helper(device);
  status =
      gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a device");
no_helper:
  ops->close(device->transport);
no_transport:
  uv_cond_destroy(&device->helper.wake);
  uv_mutex_destroy(&device->helper.lock);
  gli_lock_destroy(&device->lock);
  free(device);
  return status;
no_condition:
  uv_mutex_destroy(&device->helper.lock);
no_helper_lock:
  gli_lock_destroy(&device->lock);
no_lock:
  free(device);
no_memory:
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory or locks for a device");
}

void gli_device_close(gloo_device *device) {
  gli_device_lock(device); /* a forked child must part first */
  gli_device_unlock(device);
  gli_fork_watch_end(&device->fork.watch);
  if (device->fork.torn) return;
  gli_device_stop_helper(device);
  gli_event_close(&device->event);
  device->ops->close(device->transport);
  gli_pinned_trim();
  gli_transfer_free_pool(device);
  gli_early_free_pools(device);
  uv_cond_destroy(&device->helper.wake);
  uv_mutex_destroy(&device->helper.lock);
  gli_lock_destroy(&device->lock);
  free(device);
}

void gli_device_address(const gloo_device *device, gli_address *address) {
  device->ops->address(device->transport, address);
}

const char *gli_device_transport(const gloo_device *device) {
  return device->ops->name;
}

bool gli_device_beats(const gloo_device *device) {
  return device->helper.exists && device->ops->heard != NULL;
}

void gli_device_note_tls(gloo_device *device, unsigned kind) {
  device->tls = kind;
}

unsigned gli_device_tls(const gloo_device *device) {
  return device->tls;
}

bool gli_device_set_oversubscribed(gloo_device *device, bool oversubscribed) {
  bool was = atomic_exchange(&device->oversubscribed, oversubscribed);
  if (device->ops->set_oversubscribed != NULL)
    device->ops->set_oversubscribed(device->transport, oversubscribed);
  return was;
}

/* ---- progress ------------------------------------------------------------ */

static void finish_teardowns(gloo_device *device) {
  device->teardowns_pending = 0;
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    gli_context_finish_teardown(c);
  }
  gli_device_wake_sleepers(device);
}

void gli_device_settle_rest(gloo_device *device) {
  if (device->teardowns_pending) finish_teardowns(device);
  if (device->notices_pending && device->helper.exists)
    gli_device_wake_sleepers(device);
  gli_device_kick_locked(device);
}

static uint64_t check_suspect(gloo_context *context, uint64_t now_ns) {
  if (context->suspect.status == GLOO_OK) return UINT64_MAX;
  if (gli_context_poisoned(context)) return UINT64_MAX;
  uint64_t next_ns = context->suspect_ns;
  if (context->disputes) next_ns = gli_dispute_turn(context, now_ns);
  if (context->misses) next_ns = gli_missed_turn(context, now_ns);
  if (now_ns < next_ns) return next_ns;
  gli_context_poison(context->suspected != NULL ? context->suspected : context,
                     &context->suspect);
  return UINT64_MAX;
}

/* Checks suspects in every poll, so that a rank that is busy with other peers
 * handles them as well. */
static void check_suspects(gloo_device *device) {
  uint64_t now_ns = device->ops->now_ns(device->transport);
  device->suspects = false;
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    if (check_suspect(c, now_ns) != UINT64_MAX) device->suspects = true;
  }
}

/* Delivers the messages of ranks to themselves: the smallest transport there
 * is. */
static int device_poll_self(gloo_device *device) {
  int events = 0;
  while (device->self_queue.first != NULL) {
    gli_transfer *t = device->self_queue.first;
    gli_transfer_list_remove(&device->self_queue, t);
    gli_link *link = t->link;
    gli_transfer_list_add(&link->in_flight, t);
    gli_sink sink;
    gloo_status status =
        gli_engine_upcalls.header(link, &t->request.header, &sink);
    if (status != GLOO_OK) return events + 1; /* poisoned: all is dropped */
    size_t bytes = (size_t)t->request.header.length;
    if (bytes > 0 && sink.fn == NULL) /* may be in place */
      gli_move_bytes(sink.dst, t->request.payload, bytes);
    else if (bytes > 0)
      gli_sink_place(&sink, 0, t->request.payload, bytes);
    gli_engine_upcalls.received(link, sink.token);
    gli_engine_upcalls.sent(link, &t->request);
    events++;
  }
  return events;
}

/* Ends copies of memory that the host does not touch, and begins those that may
 * begin. */
static int device_poll_copies(gloo_device *device) {
  int events = 0;
  for (gli_operation *op = device->staged; op != NULL;
       op = gli_staged_after(op)) {
    uint32_t step;
    while (!gli_context_poisoned(op->context) &&
           gli_staged_next_done(op, &step)) {
      gli_operation_step_done(op, step);
      events++;
    }
  }
  return events;
}

/* Does the work that was deferred to polls. */
GLI_COLD static int poll_leftovers(gloo_device *device) {
  int events = 0;
  if (device->self_queue.first != NULL) events += device_poll_self(device);
  if (device->pending_links != NULL) events += gli_wire_retry(device);
  if (device->flushes > 0) gli_rma_look_around(device);
  if (device->staged != NULL) events += device_poll_copies(device);
  if (device->deferred != NULL) {
    gli_device_start_deferred(device);
    events++;
  }
  if (device->suspects) check_suspects(device);
  if (device->asked) gli_blame_answer_late(device);
  device->leftovers = device->suspects || device->asked ||
                      device->self_queue.first != NULL ||
                      device->pending_links != NULL ||
                      device->deferred != NULL || device->staged != NULL;
  return events;
}

static inline int poll_once(gloo_device *device) {
  gli_device_list(device);
  int events = device->ops->poll(device->transport);
  if (device->leftovers) {
    events += poll_leftovers(device);
  }
  gli_device_settle(device);
  return events;
}

GLI_COLD static int poll_beside_sleepers(gloo_device *device) {
  size_t completed = device->completed;
  int events = poll_once(device);
  if (device->completed != completed) {
    gli_device_wake_sleepers(device);
  } else if (device->wait.to_wake > 0) {
    device->ops->wake(device->transport);
  }
  return events;
}

int gli_device_poll(gloo_device *device) {
  device->unpolled = 0;
  return device->wait.sleepers == 0 ? poll_once(device)
                                    : poll_beside_sleepers(device);
}

int gli_device_progress_for(gloo_device *device, gli_operation *op) {
  if (!gli_in_order_look(op)) return gli_device_poll(device);
  gli_device_settle(device);
  return 1;
}

/* Runs the timers that are due, and finds the next one. */
static void check_list(const gli_operation_list *list, uint64_t now_ns) {
  for (gli_operation *op = list->first; op != NULL; op = op->active_next) {
    uint64_t timer_ns = op->deadline.timer_ns;
    if (timer_ns <= now_ns)
      gli_blame_timer(op, now_ns);
    else if (timer_ns < op->device->timers_ns)
      op->device->timers_ns = timer_ns;
  }
}

/* Checks the timers of all operations in one pass. */
static void check_timers(gloo_device *device, uint64_t now_ns) {
  if (now_ns < device->timers_ns) return;
  device->timers_ns = UINT64_MAX;
  for (const gloo_context *c = device->contexts; c != NULL; c = c->next) {
    check_list(&c->family->active, now_ns);
    check_list(&c->family->posted, now_ns);
  }
}

static void check_abort(gloo_context *context) {
  const char *reason =
      atomic_load_explicit(&context->gives_up, memory_order_acquire);
  if (reason == NULL || gli_context_poisoned(context)) return;
  gloo_error cause;
  gli_context_describe_abort(context, reason, &cause);
  gli_context_poison(context, &cause);
}

static uint64_t check_heartbeat(gloo_context *context, uint64_t now_ns) {
  const gli_heartbeat *h = &context->heartbeat;
  if (h->due_ns == 0) return UINT64_MAX;
  if (h->due_ns <= now_ns) gli_heartbeat_turn(context, now_ns);
  return h->due_ns;
}

static uint64_t check_shrink(gloo_context *context, uint64_t now_ns) {
  if (gli_shrink_due(context) <= now_ns) gli_shrink_turn(context, now_ns);
  return gli_shrink_due(context);
}

static uint64_t device_earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static uint64_t next_beat(const gloo_device *device) {
  uint64_t next_ns = UINT64_MAX;
  for (const gloo_context *c = device->contexts; c != NULL; c = c->next) {
    next_ns = device_earlier(next_ns, gli_shrink_due(c));
    if (gli_context_poisoned(c)) continue;
    if (c->heartbeat.due_ns > 0)
      next_ns = device_earlier(next_ns, c->heartbeat.due_ns);
    if (c->suspect.status != GLOO_OK)
      next_ns = device_earlier(next_ns, c->suspect_ns);
  }
  return next_ns;
}

/* Polls all links before a turn of the heartbeat, which judges by what has
 * arrived; in shared memory peers take the poll itself as a sign. The thread
 * that runs the turn may have polled only one link, or none for a long time. */
GLI_COLD static void device_look_around(gloo_device *device) {
  if (device->ops->rested != NULL) device->ops->rested(device->transport);
  (void)gli_device_poll(device);
}

int64_t gli_device_check_deadlines(gloo_device *device) {
  gli_device_list(device);
  uint64_t now_ns = device->ops->now_ns(device->transport);
  if (device->beats && next_beat(device) <= now_ns) device_look_around(device);
  uint64_t next_ns = UINT64_MAX;
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    check_abort(c);
    next_ns = device_earlier(next_ns, check_suspect(c, now_ns));
    next_ns = device_earlier(next_ns, check_heartbeat(c, now_ns));
    next_ns = device_earlier(next_ns, check_shrink(c, now_ns));
  }
  check_timers(device, now_ns);
  next_ns = device_earlier(next_ns, device->timers_ns);
  if (device->teardowns_pending) gli_device_settle(device);
  if (next_ns == UINT64_MAX) return INT64_MAX;
  if (next_ns <= now_ns) return 0;
  return next_ns - now_ns > INT64_MAX ? INT64_MAX : (int64_t)(next_ns - now_ns);
}

/* The time to the next look once all contexts have ended or failed. A rank that
 * connects now needs an answer, or it would wait until its deadline. */
#define LATECOMERS_NS UINT64_C(250000000)

uint64_t gli_device_beat(gloo_device *device) {
  uint64_t now_ns = device->ops->now_ns(device->transport);
  uint64_t next_ns = next_beat(device);
  if (next_ns <= now_ns || next_ns == UINT64_MAX) {
    if (next_ns == UINT64_MAX || !device->beats) device_look_around(device);
    (void)gli_device_check_deadlines(device);
    next_ns = next_beat(device);
  }
  if (next_ns == UINT64_MAX) return LATECOMERS_NS;
  return next_ns > now_ns ? next_ns - now_ns : 0;
}

int gli_device_progress(gloo_device *device) {
  gli_device_lock(device);
  int events = gli_device_poll(device);
  gli_device_check_deadlines(device);
  gli_device_unlock(device);
  return events;
}
