/* Opening and closing of the end point, polling, sleeping, and the table of
 * operations. */
#include <stdlib.h>

#include "core/log.h"
#include "transport_ibv/ibv.h"

static const int64_t close_nap_ns = 5000000;
/* Interval of TCP polls while all pairs use RDMA: TCP reports departures. */
enum { POLLS_PER_CLOCK = 32 };
static const uint64_t look_every_ns = 50000;

/* ---- opening and closing ------------------------------------------------- */

static void ibv_transport_release(gli_ibv *t) {
  (void)gli_ibv_jobs_take(t);
  gli_ibv_free_pairs(&t->garbage);
  gli_ibv_free_pairs(&t->old_garbage);
  gli_ibv_free_pairs(&t->qp_leaked);
  gli_ibv_rails_close(&t->rails);
  gli_ibv_port_close(&t->port);
  uv_mutex_destroy(&t->cq_lock);
  free(t->stash);
  free(t);
}

static gloo_status ibv_open(const gli_transport_config *config,
                            gli_transport **transport, gloo_error *error) {
  if (config->tls != NULL)
    return gli_fail(
        error, GLOO_ERR_UNSUPPORTED, -1,
        "RDMA cannot be used with TLS: RDMA traffic is not encrypted");
  gli_ibv *t = calloc(1, sizeof *t);
  if (t == NULL || !gli_ibv_lock_init() || uv_mutex_init(&t->cq_lock) != 0) {
    free(t);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the RDMA transport");
  }
  t->base.ops = &gli_transport_ibv;
  t->base.owed = config->owed;
  t->upcalls = config->upcalls;
  t->device_user = config->device_user;
  t->checksum = config->checksum;
  gli_endpoints own = {.n = 0};
  gli_transport_config below = *config;
  below.upcalls = &gli_ibv_upcalls;
  below.device_user = t;
  below.verbs = true;
  below.own = &own;
  /* TCP comes first, because its addresses choose the port. */
  gloo_status status = gli_transport_find("tcp")->open(&below, &t->tcp, error);
  if (status == GLOO_OK)
    status = gli_ibv_port_open(&t->port, &t->rails.more, &own, error);
  if (status != GLOO_OK) {
    if (t->tcp != NULL) t->tcp->ops->close(t->tcp);
    ibv_transport_release(t);
    return status;
  }
  gli_ibv_rails_open(&t->rails, &t->port);
  gli_ibv_regions_begin(t);
  gli_log(GLOO_LOG_INFO, "RDMA device %s: %s, GID index %d", t->port.name,
          t->port.infiniband ? "InfiniBand" : "RoCE", t->port.gid_index);
  *transport = &t->base;
  return GLOO_OK;
}

static void ibv_address(const gli_transport *base, gli_address *address) {
  const gli_ibv *t = (const gli_ibv *)base;
  t->tcp->ops->address(t->tcp, address);
}

static int ibv_poll(gli_transport *base);
static void ibv_wake(gli_transport *base);

static void ibv_close_nap(gli_transport *base) {
  gli_transport_sleep(base, close_nap_ns);
  (void)ibv_poll(base);
}

/* Closes the end point. Threads may still be in calls of the device: if they are
 * not back within the linger time, the last one frees the transport. */
static void ibv_close(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  (void)ibv_poll(base);
  while (t->pairs != NULL) ibv_close_nap(base);
  gli_ibv_regions_end(t);
  gli_ibv_jobs_stop(t);
  uint64_t until_ns = gli_ibv_now(t) + (uint64_t)GLI_LINGER_NS;
  while (gli_ibv_jobs_run(t) && gli_ibv_now(t) < until_ns) ibv_close_nap(base);
  t->tcp->ops->close(t->tcp);
  if (!gli_ibv_jobs_leave(t, ibv_transport_release)) ibv_transport_release(t);
}

/* ---- polling ------------------------------------------------------------- */

uint64_t gli_ibv_now(gli_ibv *t) {
  return t->tcp->ops->now_ns(t->tcp);
}

static uint64_t ibv_now_ns(gli_transport *base) {
  return gli_ibv_now((gli_ibv *)base);
}

static bool ibv_looks_at_tcp(gli_ibv *t) {
  if (++t->polls % POLLS_PER_CLOCK != 0) return t->n_others > 0;
  uint64_t now_ns = gli_ibv_now(t);
  if (now_ns >= t->next_ask_ns) gli_ibv_heard(t);
  if (now_ns < t->next_look_ns) return t->n_others > 0;
  t->next_look_ns = now_ns + look_every_ns;
  return true;
}

static void ibv_flush_busy(gli_ibv *t) {
  gli_ibv_pair *pair = t->busy;
  t->busy = NULL;
  while (pair != NULL) {
    gli_ibv_pair *next = pair->next_busy;
    pair->busy = false;
    gli_ibv_flush(pair);
    gli_ibv_report_sent(pair);
    if (pair->closed) gli_ibv_linger_check(pair);
    pair = next;
  }
}

/* Ages garbage, which may be freed once the completion queue is empty. */
static void ibv_age_garbage(gli_ibv *t) {
  while (t->garbage != NULL) gli_ibv_pair_move(t->garbage, &t->old_garbage);
}

static int ibv_poll(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  bool looks = atomic_exchange(&t->look, false);
  bool due = atomic_exchange(&t->needs_poll, false);
  t->happened = 0;
  t->in_poll = true;
  t->changed = false;
  if (t->garbage != NULL) ibv_age_garbage(t);
  if (looks) gli_ibv_heard(t);
  gli_ibv_drain(t, false);
  if (ibv_looks_at_tcp(t) || looks || due)
    t->happened += t->tcp->ops->poll(t->tcp);
  if (t->shared.waiting != NULL) gli_ibv_slots_wake(t);
  if (t->busy != NULL) ibv_flush_busy(t);
  uint64_t due_ns = atomic_load(&t->next_due_ns);
  if (atomic_load(&t->needs_poll) || due ||
      (due_ns != 0 && gli_ibv_now(t) >= due_ns)) {
    atomic_store(&t->needs_poll, false);
    atomic_store(&t->next_due_ns, 0);
    t->happened += gli_ibv_jobs_take(t);
    gli_ibv_pairs_due(t);
  }
  t->in_poll = false;
  if (t->changed && atomic_load(&t->sleepers) > 0) ibv_wake(base);
  return t->happened;
}

/* ---- sleeping ------------------------------------------------------------ */

static void ibv_wake(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  t->tcp->ops->wake(t->tcp);
}

/* Makes sure that sleepers learn of a change. */
static void ibv_note_change(gli_ibv *t) {
  if (t->in_poll)
    t->changed = true;
  else if (atomic_load(&t->sleepers) > 0)
    ibv_wake(&t->base);
}

void gli_ibv_touch(gli_ibv *t) {
  atomic_store(&t->needs_poll, true);
  ibv_note_change(t);
}

void gli_ibv_schedule(gli_ibv *t, uint64_t due_ns) {
  uint64_t known = atomic_load(&t->next_due_ns);
  if (known != 0 && known <= due_ns) return;
  atomic_store(&t->next_due_ns, due_ns);
  ibv_note_change(t);
}

static bool ibv_sleep_begin(gli_transport *base, gli_sleep *sleep) {
  gli_ibv *t = (gli_ibv *)base;
  atomic_fetch_add(&t->sleepers, 1);
  bool quiet = t->tcp->ops->sleep_begin(t->tcp, sleep);
  bool gone = gli_ibv_is_gone(t);
  gli_sleep_add(sleep, gone ? -1 : t->port.channel->fd,
                atomic_load(&t->next_due_ns));
  gli_sleep_add(sleep, gone ? -1 : t->port.context->async_fd, 0);
  if (t->rails.set != NULL)
    gli_sleep_add(sleep, gli_events_fd(t->rails.set), 0);
  return quiet && !atomic_load(&t->needs_poll) && gli_ibv_arm(t);
}

static void ibv_sleep_end(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  t->tcp->ops->sleep_end(t->tcp);
  atomic_fetch_sub(&t->sleepers, 1);
  atomic_store(&t->look, true);
}

static void ibv_rested(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  t->tcp->ops->rested(t->tcp);
  atomic_store(&t->look, true);
}

static void ibv_set_oversubscribed(gli_transport *base, bool oversubscribed) {
  gli_ibv *t = (gli_ibv *)base;
  t->tcp->ops->set_oversubscribed(t->tcp, oversubscribed);
}

/* ---- forked child -------------------------------------------------------- */

/* A child closes its copies of descriptors, and frees memory. Registered memory
 * and the queue pairs belong to the parent. On kernels that cannot copy such
 * pages, a child does not have them, so it does not touch them. */

static void ibv_forked(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  t->tcp->ops->forked(t->tcp);
  gli_ibv_rails_forked(&t->rails);
  gli_ibv_port_forked(&t->port);
}

static void ibv_abandon_pairs(gli_ibv_pair *list) {
  while (list != NULL) {
    gli_ibv_pair *pair = list;
    list = pair->next;
    gli_request_copies_free(&pair->copies);
    free(pair->own);
    free(pair);
  }
}

static void ibv_abandon(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  t->tcp->ops->abandon(t->tcp);
  gli_ibv_regions_abandon(t);
  ibv_abandon_pairs(t->pairs);
  ibv_abandon_pairs(t->garbage);
  ibv_abandon_pairs(t->old_garbage);
  ibv_abandon_pairs(t->qp_leaked);
  ibv_abandon_pairs(t->retired);
  gli_ibv_shared_abandon(t);
  gli_ibv_rails_abandon(&t->rails);
  free(t->stash);
  free(t);
}

const gli_transport_ops gli_transport_ibv = {
    .name = "ibv",
    .open = ibv_open,
    .address = ibv_address,
    .now_ns = ibv_now_ns,
    .pair_open = gli_ibv_pair_open,
    .send = gli_ibv_send,
    .send_now = gli_ibv_send_now,
    .take_now = gli_ibv_take_now,
    .pair_close = gli_ibv_pair_close,
    .route = gli_ibv_route,
    .heard = gli_ibv_pair_heard,
    .rested = ibv_rested,
    .rma_expose = gli_ibv_rma_expose,
    .rma = gli_ibv_rma,
    .poll = ibv_poll,
    .sleep = gli_transport_sleep,
    .wake = ibv_wake,
    .close = ibv_close,
    .forked = ibv_forked,
    .abandon = ibv_abandon,
    .set_oversubscribed = ibv_set_oversubscribed,
    .sleep_begin = ibv_sleep_begin,
    .sleep_end = ibv_sleep_end,
};
