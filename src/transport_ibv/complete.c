/* Completion queue, and events of the device. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "transport_ibv/ibv.h"

enum { ROUNDS_PER_POLL = 8 };
/* Interval of queries to the device, for programs whose threads never sleep. */
static const uint64_t ask_every_ns = 20000000;
static const uint64_t settle_ns = 50000000;

/* Time for the cause of a flushed queue pair to appear: in another completion,
 * an event, or by TCP. */
static const uint64_t doubt_ns = 1000000000;

/* Returns the receive buffer, or NULL if a send has completed. */
static gli_ibv_slot *completed_slot(const struct ibv_wc *wc) {
  return (wc->wr_id & 1) != 0 ? (gli_ibv_slot *)(uintptr_t)(wc->wr_id - 1)
                              : NULL;
}

static gli_ibv_pair *completed_pair(const struct ibv_wc *wc) {
  const gli_ibv_slot *slot = completed_slot(wc);
  return slot != NULL ? slot->pair : (gli_ibv_pair *)(uintptr_t)wc->wr_id;
}

/* Begins to wait for the cause of a flush. */
static void completed_doubt(gli_ibv_pair *pair) {
  if (pair->doubtful_ns != 0) return;
  pair->doubtful_ns = gli_ibv_now(pair->t) + doubt_ns;
  gli_ibv_schedule(pair->t, pair->doubtful_ns);
}

static void completed_in_error(gli_ibv_pair *pair, enum ibv_wc_status status) {
  gli_ibv_port *port = &pair->t->port;
  const char *text = port->v->wc_status_str(status);
  /* A device that disappears also flushes its queue pairs. */
  if (status == IBV_WC_WR_FLUSH_ERR) gli_ibv_heard(pair->t);
  if (gli_ibv_is_gone(pair->t)) return;
  if (gli_ibv_may_decline(pair)) {
    char why[GLI_WHY_BYTES];
    (void)snprintf(why, sizeof why, "a send through %.40s failed: %.60s",
                   port->name, text);
    gli_ibv_decline(pair, why);
  } else if (status == IBV_WC_WR_FLUSH_ERR) { /* another has the cause */
    completed_doubt(pair);
  } else {
    gli_ibv_pair_break(
        pair, GLOO_ERR_PEER,
        "rank %" PRIu32
        " no longer answers through %s: %s; is its host or the network down?",
        pair->config.peer_rank, port->name, text);
  }
}

static void serve_completion(gli_ibv *t, const struct ibv_wc *wc) {
  gli_ibv_slot *slot = completed_slot(wc);
  gli_ibv_pair *pair = completed_pair(wc);
  bool dead = pair == NULL || !gli_ibv_has_queue(pair) || pair->broken;
  if (!dead) t->happened++;
  if (!dead && wc->status == IBV_WC_SUCCESS) {
    if (slot != NULL)
      gli_ibv_receive(pair, slot, wc->byte_len);
    else
      gli_ibv_send_done(pair);
    return;
  }
  if (slot != NULL) (void)gli_ibv_reuse(t, pair, slot);
  if (!dead) completed_in_error(pair, wc->status);
}

/* Handles a lost device, which reports this, or whose queue or events are
 * unreadable. Sleeping threads wait for it no longer. */
static void device_is_gone(gli_ibv *t, const char *how) {
  if (atomic_exchange(&t->device, GLI_IBV_GONE) == GLI_IBV_GONE) return;
  for (gli_ibv_pair *pair = t->pairs; pair != NULL; pair = pair->next) {
    if (pair->way == GLI_IBV_BY_VERBS || pair->way == GLI_IBV_WAY_PROBED)
      gli_ibv_pair_break(pair, GLOO_ERR_IO,
                         "the RDMA device %s %s; it connected rank %" PRIu32
                         " to rank %" PRIu32,
                         t->port.name, how, pair->config.self_rank,
                         pair->config.peer_rank);
    else if (gli_ibv_has_queue(pair))
      gli_ibv_decline(pair, "the RDMA device is lost");
  }
}

static void stash_drop(gli_ibv *t, size_t n) {
  t->n_stash -= n;
  if (t->n_stash > 0)
    memmove(t->stash, t->stash + n, t->n_stash * sizeof *t->stash);
}

/* Takes completions, first those that sleepers have found. */
static int take_completions(gli_ibv *t, struct ibv_wc *wc) {
  uv_mutex_lock(&t->cq_lock);
  int n = t->n_stash < GLI_IBV_BATCH ? (int)t->n_stash : GLI_IBV_BATCH;
  if (n > 0) {
    memcpy(wc, t->stash, (size_t)n * sizeof *wc);
    stash_drop(t, (size_t)n);
  } else {
    n = ibv_poll_cq(t->port.cq, GLI_IBV_BATCH, wc);
  }
  uv_mutex_unlock(&t->cq_lock);
  return n;
}

/* Finds the senders of frames before any frame is handled: an upcall may open a
 * pair whose queue pair has the number of a destroyed one. */
static void find_senders(gli_ibv *t, const struct ibv_wc *wc, int n) {
  for (int i = 0; i < n; i++) {
    gli_ibv_slot *slot = completed_slot(&wc[i]);
    if (slot != NULL) slot->pair = gli_ibv_find(t, wc[i].qp_num);
  }
}

void gli_ibv_drain(gli_ibv *t, bool all) {
  struct ibv_wc wc[GLI_IBV_BATCH];
  for (int round = 0; all || round < ROUNDS_PER_POLL; round++) {
    int n = take_completions(t, wc);
    find_senders(t, wc, n);
    for (int i = 0; i < n; i++) serve_completion(t, &wc[i]);
    if (n > 0) continue;
    if (n < 0) device_is_gone(t, "was removed");
    if (n < 0) return;
    /* No completion refers to these pairs any more. */
    gli_ibv_free_pairs(&t->old_garbage);
    gli_ibv_unshare_unused(t);
    return;
  }
}

/* Moves completions from the queue to the stash. Returns their number, or a
 * negative value on failure, also if out of memory. */
static int stash_completions(gli_ibv *t) {
  if (t->stash_capacity - t->n_stash < GLI_IBV_BATCH) {
    size_t capacity = 2 * t->stash_capacity + GLI_IBV_BATCH;
    struct ibv_wc *more = realloc(t->stash, capacity * sizeof *more);
    if (more == NULL) return -1;
    t->stash = more;
    t->stash_capacity = capacity;
  }
  int n = ibv_poll_cq(t->port.cq, GLI_IBV_BATCH, t->stash + t->n_stash);
  if (n <= 0) return n;
  t->n_stash += (size_t)n;
  return n;
}

void gli_ibv_stash_all(gli_ibv *t, uint32_t ended) {
  uv_mutex_lock(&t->cq_lock);
  while (stash_completions(t) > 0) {
  }
  for (size_t i = 0; i < t->n_stash && ended != 0; i++)
    if (t->stash[i].qp_num == ended) t->stash[i].qp_num = 0;
  uv_mutex_unlock(&t->cq_lock);
}

/* Handles completed sends in front of the frame, which are frequent. */
gli_ibv_slot *gli_ibv_comes_next(gli_ibv_pair *pair, uint32_t *bytes) {
  gli_ibv *t = pair->t;
  gli_ibv_slot *slot = NULL;
  uv_mutex_lock(&t->cq_lock);
  while (slot == NULL && (t->n_stash > 0 || stash_completions(t) > 0)) {
    const struct ibv_wc *wc = &t->stash[0];
    gli_ibv_slot *in = completed_slot(wc);
    bool own =
        in != NULL ? wc->qp_num == pair->number : wc->wr_id == (uintptr_t)pair;
    if (!own || wc->status != IBV_WC_SUCCESS) break;
    *bytes = wc->byte_len;
    slot = in;
    if (in != NULL) continue;
    stash_drop(t, 1);
    gli_ibv_send_done(pair);
  }
  uv_mutex_unlock(&t->cq_lock);
  return slot;
}

void gli_ibv_drop_next(gli_ibv *t) {
  uv_mutex_lock(&t->cq_lock);
  stash_drop(t, 1);
  uv_mutex_unlock(&t->cq_lock);
}

/* Polls again after ibv_req_notify_cq: completions that arrived before arming
 * raise no event. If arming fails, no thread could ever sleep, so the next poll
 * gives up the device. */
bool gli_ibv_arm(gli_ibv *t) {
  int device = atomic_load(&t->device);
  if (device != GLI_IBV_WORKS) return device == GLI_IBV_GONE;
  uv_mutex_lock(&t->cq_lock);
  bool quiet = t->n_stash == 0;
  if (quiet && ibv_req_notify_cq(t->port.cq, 0) != 0) {
    (void)atomic_compare_exchange_strong(&t->device, &device, GLI_IBV_FAILING);
    quiet = false;
  }
  quiet = quiet && stash_completions(t) == 0;
  uv_mutex_unlock(&t->cq_lock);
  return quiet;
}

/* Handles a completion of the pair. Returns false if it is not to be handled
 * here. A pair that is not live handles only answers and credits. */
static bool settle_one(gli_ibv_pair *pair, const struct ibv_wc *wc) {
  gli_ibv_slot *slot = completed_slot(wc);
  if (wc->status != IBV_WC_SUCCESS) return false;
  if (slot == NULL && wc->wr_id == (uintptr_t)pair)
    gli_ibv_send_done(pair);
  else if (slot != NULL && !pair->live && wc->qp_num == pair->number)
    gli_ibv_receive(pair, slot, wc->byte_len);
  else
    return false;
  return true;
}

void gli_ibv_settle(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  uint64_t until = gli_ibv_now(t) + settle_ns;
  if (pair->done != pair->posted) (void)gli_ibv_post_probe(pair);
  while (pair->done != pair->posted && !pair->broken &&
         gli_ibv_now(t) < until) {
    uv_mutex_lock(&t->cq_lock);
    int n = stash_completions(t);
    size_t kept = 0;
    for (size_t i = 0; i < t->n_stash; i++) {
      const struct ibv_wc wc = t->stash[i];
      if (!settle_one(pair, &wc)) t->stash[kept++] = wc;
    }
    t->n_stash = kept;
    uv_mutex_unlock(&t->cq_lock);
    if (n < 0) break;
  }
}

/* ---- events of the device ------------------------------------------------ */

/* Returns the pair whose queue pair the event is about, or NULL; the queue pair
 * of a lane reports in completions (rails.c). */
static gli_ibv_pair *event_pair(const struct ibv_async_event *event) {
  bool is = event->event_type == IBV_EVENT_QP_FATAL ||
            event->event_type == IBV_EVENT_QP_REQ_ERR ||
            event->event_type == IBV_EVENT_QP_ACCESS_ERR ||
            event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
  return is ? event->element.qp->qp_context : NULL;
}

static void serve_event(gli_ibv *t, const struct ibv_async_event *event,
                        gli_ibv_pair *pair) {
  const char *text = t->port.v->event_type_str(event->event_type);
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: /* no overrun: entries are counted */
    case IBV_EVENT_DEVICE_FATAL:
      device_is_gone(t, "was removed");
      break;
    case IBV_EVENT_SRQ_ERR:
      device_is_gone(t, "has lost its receive queue");
      break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      gli_ibv_buffers_low(t);
      break;
    case IBV_EVENT_QP_LAST_WQE_REACHED: /* in error, and cut off from the SRQ */
      if (gli_ibv_has_queue(pair) && !pair->broken) completed_doubt(pair);
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      if (pair == NULL || !gli_ibv_has_queue(pair)) break;
      gli_ibv_pair_break(pair, GLOO_ERR_IO,
                         "the connection of rank %" PRIu32 " with rank %" PRIu32
                         " through %s broke: %s",
                         pair->config.self_rank, pair->config.peer_rank,
                         t->port.name, text);
      break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
      gli_log(GLOO_LOG_WARN, "RDMA device %s, port %d: %s", t->port.name,
              event->element.port_num, text);
      break;
    default:
      break;
  }
}

void gli_ibv_heard(gli_ibv *t) {
  const gli_verbs *v = t->port.v;
  struct ibv_async_event event;
  struct ibv_cq *cq;
  void *user;
  t->next_ask_ns = gli_ibv_now(t) + ask_every_ns;
  if (gli_ibv_is_gone(t)) return;
  /* Sleeping threads would miss such events, so they are woken to ask again. */
  if (gli_ibv_rails_heard(&t->rails)) t->changed = true;
  while (v->get_cq_event(t->port.channel, &cq, &user) == 0) {
    v->ack_cq_events(cq, 1);
    t->changed = true;
  }
  /* After any other failure the descriptor stays readable, and no thread could
   * sleep. */
  bool works = errno == EAGAIN;
  while (!gli_ibv_is_gone(t)) {
    if (v->get_async_event(t->port.context, &event) != 0) {
      works = works && errno == EAGAIN;
      break;
    }
    /* The object of an event cannot be destroyed before the event is
     * acknowledged. */
    gli_ibv_pair *pair = event_pair(&event);
    v->ack_async_event(&event);
    serve_event(t, &event, pair);
  }
  if (!works || atomic_load(&t->device) == GLI_IBV_FAILING)
    device_is_gone(t, "no longer reports events");
}
