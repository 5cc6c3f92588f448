/* The end point of combined transports: opening, polling, sleeping. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/error.h"
#include "core/log.h"
#include "transport/auto.h"

static const char *const child_names[GLI_AUTO_CHILDREN] = {"shm", "tcp"};

/* The intervals of polling TCP, which costs a system call. Without TCP pairs it
 * is polled once in look_every_ns, for strangers and newcomers. With TCP pairs,
 * and others in shared memory, it is polled at every poll for HOT_POLLS after
 * something arrived, and otherwise at every few polls. */
enum { POLLS_PER_CLOCK = 32, POLLS_PER_LOOK = 4, HOT_POLLS = 64 };
static const uint64_t look_every_ns = 50000;
static const int64_t close_nap_ns = 5000000;

/* ---- opening and closing ------------------------------------------------- */

/* Opens the network child: TCP, or RDMA on top of TCP, which uses the same
 * address, if GLOO_RDMA asks for it. RDMA is not the default, because it has
 * not run on hardware, and a network that TCP shares may lose packets. */
static gloo_status open_network(gli_auto *t, const gli_transport_config *own,
                                gli_transport **child, gloo_error *error) {
  bool wanted;
  gloo_status status = gli_switch_read(0, "GLOO_RDMA", false, &wanted, error);
  if (status != GLOO_OK) return status;
  if (!wanted) return gli_transport_find("tcp")->open(own, child, error);
  status = gli_transport_find("ibv")->open(own, child, error);
  t->verbs = status == GLOO_OK;
  if (status == GLOO_OK || status == GLOO_ERR_INVALID) return status;
  gli_log(GLOO_LOG_DEBUG, "%s", error->message);
  /* Removes words that the message around it has already. */
  static const char known[] = "RDMA cannot be used here: ";
  const char *why = error->message;
  if (strncmp(why, known, sizeof known - 1) == 0) why += sizeof known - 1;
  (void)snprintf(t->no_verbs, sizeof t->no_verbs, "%.*s", GLI_WHY_BYTES - 1,
                 why);
  return gli_transport_find("tcp")->open(own, child, error);
}

static gloo_status open_children(gli_auto *t,
                                 const gli_transport_config *config,
                                 gloo_error *error) {
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    gli_auto_child *child = &t->child[i];
    gli_transport_config own = *config;
    child->parent = t;
    own.upcalls = &gli_auto_upcalls;
    own.device_user = child;
    gloo_error wrong;
    gloo_status status =
        i == GLI_AUTO_TCP
            ? open_network(t, &own, &child->t, &wrong)
            : gli_transport_find(child_names[i])->open(&own, &child->t, &wrong);
    if (status == GLOO_OK) continue;
    child->t = NULL;
    /* An invalid setting is an error, not a reason to choose another transport.
     */
    if (i == GLI_AUTO_TCP || status == GLOO_ERR_INVALID) {
      if (error != NULL) *error = wrong;
      return status;
    }
    t->absent = wrong;
    gli_log(GLOO_LOG_INFO, "%s", wrong.message);
  }
  return GLOO_OK;
}

static void close_children(gli_auto *t) {
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    gli_transport *child = t->child[i].t;
    if (child != NULL) child->ops->close(child);
  }
}

static gloo_status auto_open(const gli_transport_config *config,
                             gli_transport **transport, gloo_error *error) {
  gli_auto *t = calloc(1, sizeof *t);
  if (t == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for transports");
  t->base.ops = &gli_transport_auto;
  t->base.owed = config->owed; /* the children count there, too */
  t->upcalls = config->upcalls;
  t->device_user = config->device_user;
  t->opening_via = GLI_AUTO_ANY;
  gloo_status status = open_children(t, config, error);
  if (status != GLOO_OK) {
    close_children(t);
    free(t);
    return status;
  }
  *transport = &t->base;
  return GLOO_OK;
}

static gli_transport *tcp_of(gli_auto *t) {
  return t->child[GLI_AUTO_TCP].t;
}

static uint64_t auto_now_ns(gli_transport *base) {
  gli_transport *tcp = tcp_of((gli_auto *)base);
  return tcp->ops->now_ns(tcp);
}

/* ---- polling ------------------------------------------------------------- */

static bool tcp_due(gli_auto *t) {
  if (t->count[GLI_AUTO_SHM] == 0) return true;
  if (atomic_load_explicit(&t->look, memory_order_relaxed)) {
    atomic_store(&t->look, false);
    return true;
  }
  t->polls++;
  if (t->hot > 0) {
    t->hot--;
    return true;
  }
  if (t->count[GLI_AUTO_TCP] > 0 && t->verbs) return true;
  if (t->count[GLI_AUTO_TCP] > 0) return t->polls % POLLS_PER_LOOK == 0;
  if (t->polls % POLLS_PER_CLOCK != 0) return false;
  gli_transport *tcp = tcp_of(t);
  uint64_t now_ns = tcp->ops->now_ns(tcp);
  if (now_ns < t->next_look_ns) return false;
  t->next_look_ns = now_ns + look_every_ns;
  return true;
}

static int auto_poll(gli_transport *base) {
  gli_auto *t = (gli_auto *)base;
  gli_transport *shm = t->child[GLI_AUTO_SHM].t, *tcp = tcp_of(t);
  int events = 0;
  t->in_poll = true;
  if (shm != NULL) events += shm->ops->poll(shm);
  if (t->trying != NULL) events += gli_auto_decide(t);
  if (tcp_due(t)) {
    int arrived = tcp->ops->poll(tcp);
    if (arrived > 0 && t->count[GLI_AUTO_TCP] > 0) t->hot = HOT_POLLS;
    events += arrived;
  }
  gli_auto_free_garbage(t);
  t->in_poll = false;
  return events;
}

/* ---- sleeping ------------------------------------------------------------ */

static bool auto_sleep_begin(gli_transport *base, gli_sleep *sleep) {
  gli_auto *t = (gli_auto *)base;
  bool quiet = true;
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    gli_transport *child = t->child[i].t;
    if (child != NULL && !child->ops->sleep_begin(child, sleep)) quiet = false;
  }
  return quiet;
}

static void auto_sleep_end(gli_transport *base) {
  gli_auto *t = (gli_auto *)base;
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    gli_transport *child = t->child[i].t;
    if (child != NULL) child->ops->sleep_end(child);
  }
  atomic_store(&t->look, true);
}

/* Wakes all sleepers: a sleeping thread waits on all children, so waking one of
 * them is enough. */
static void auto_wake(gli_transport *base) {
  gli_transport *tcp = tcp_of((gli_auto *)base);
  tcp->ops->wake(tcp);
}

static void auto_rested(gli_transport *base) {
  gli_auto *t = (gli_auto *)base;
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    gli_transport *child = t->child[i].t;
    if (child != NULL && child->ops->rested != NULL) child->ops->rested(child);
  }
  atomic_store(&t->look, true);
}

static void auto_set_oversubscribed(gli_transport *base, bool oversubscribed) {
  gli_auto *t = (gli_auto *)base;
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    gli_transport *child = t->child[i].t;
    if (child != NULL && child->ops->set_oversubscribed != NULL)
      child->ops->set_oversubscribed(child, oversubscribed);
  }
}

static void auto_close(gli_transport *base) {
  gli_auto *t = (gli_auto *)base;
  while (gli_auto_waiting_to_deliver(t)) {
    gli_transport_sleep(base, close_nap_ns);
    auto_poll(base);
  }
  close_children(t);
  gli_auto_free_garbage(t);
  free(t);
}

static void auto_forked(gli_transport *base) {
  gli_auto *t = (gli_auto *)base;
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    gli_transport *child = t->child[i].t;
    if (child != NULL) child->ops->forked(child);
  }
}

static void auto_abandon(gli_transport *base) {
  gli_auto *t = (gli_auto *)base;
  gli_auto_free_pairs(t);
  for (int i = 0; i < GLI_AUTO_CHILDREN; i++) {
    gli_transport *child = t->child[i].t;
    if (child != NULL) child->ops->abandon(child);
  }
  free(t);
}

static bool auto_maps(const gli_address *a, const gli_address *b) {
  gli_address of_a[GLI_AUTO_CHILDREN], of_b[GLI_AUTO_CHILDREN];
  if (!gli_auto_address_decode(a, of_a) || !gli_auto_address_decode(b, of_b))
    return false;
  const gli_address *x = &of_a[GLI_AUTO_SHM], *y = &of_b[GLI_AUTO_SHM];
  const gli_transport_ops *shm = gli_transport_find(child_names[GLI_AUTO_SHM]);
  return x->bytes > 0 && y->bytes > 0 && shm->maps != NULL && shm->maps(x, y);
}

const gli_transport_ops gli_transport_auto = {
    .name = "auto",
    .open = auto_open,
    .address = gli_auto_address,
    .maps = auto_maps,
    .now_ns = auto_now_ns,
    .pair_open = gli_auto_pair_open,
    .send = gli_auto_send,
    .send_now = gli_auto_send_now,
    .take_now = gli_auto_take_now,
    .pair_close = gli_auto_pair_close,
    .route = gli_auto_route,
    .heard = gli_auto_heard,
    .heard_at = gli_auto_heard_at,
    .shows_polls = gli_auto_shows_polls,
    .obstacle = gli_auto_obstacle,
    .rested = auto_rested,
    .poll = auto_poll,
    .sleep = gli_transport_sleep,
    .sleep_begin = auto_sleep_begin,
    .sleep_end = auto_sleep_end,
    .wake = auto_wake,
    .close = auto_close,
    .forked = auto_forked,
    .abandon = auto_abandon,
    .rkey_pack = gli_auto_rkey_pack,
    .rkey_map = gli_auto_rkey_map,
    .get = gli_auto_rkey_get,
    .revoked = gli_auto_revoked,
    .rma_expose = gli_auto_rma_expose,
    .rma = gli_auto_rma,
    .shared_copy = gli_auto_shared_copy,
    .set_oversubscribed = auto_set_oversubscribed,
};
