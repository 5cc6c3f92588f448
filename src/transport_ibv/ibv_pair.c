/* Opening, failure and end of pairs. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "transport_ibv/ibv.h"

/* Time for TCP to provide a better reason for the failure of a queue pair. */
static const uint64_t report_after_ns = 200000000;

void gli_ibv_pair_move(gli_ibv_pair *pair, gli_ibv_pair **list) {
  if (pair->link != NULL) {
    *pair->link = pair->next;
    if (pair->next != NULL) pair->next->link = pair->link;
  }
  pair->next = *list;
  pair->link = list;
  if (pair->next != NULL) pair->next->link = &pair->next;
  *list = pair;
}

void gli_ibv_pair_busy(gli_ibv_pair *pair) {
  if (pair->busy) return;
  pair->busy = true;
  pair->next_busy = pair->t->busy;
  pair->t->busy = pair;
  if (!pair->t->in_poll) gli_ibv_touch(pair->t);
}

/* ---- opening ------------------------------------------------------------- */

static gloo_status ibv_open_tcp(gli_ibv_pair *pair, gloo_error *error) {
  gli_transport *tcp = pair->t->tcp;
  gli_pair_config below = pair->config;
  below.user = pair;
  return tcp->ops->pair_open(tcp, &below, &pair->tcp, error);
}

static void ibv_begin(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  if (!t->tcp->ops->speaks_verbs(&pair->config.address))
    gli_ibv_stay(pair, "the other rank does not use RDMA");
  else if (gli_ibv_is_gone(t))
    gli_ibv_decline(pair, "the RDMA device is lost");
  else
    gli_ibv_offer(pair);
}

gloo_status gli_ibv_pair_open(gli_transport *base,
                              const gli_pair_config *config, gli_pair **out,
                              gloo_error *error) {
  gli_ibv *t = (gli_ibv *)base;
  gli_ibv_pair *pair = calloc(1, sizeof *pair);
  if (pair == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to rank %" PRIu32,
                    config->peer_rank);
  pair->base.ops = &gli_transport_ibv;
  pair->t = t;
  pair->config = *config;
  if (config->job_key != NULL) {
    memcpy(pair->job_key, config->job_key, sizeof pair->job_key);
    pair->config.job_key = pair->job_key;
  }
  pair->credits = pair->allowed = GLI_IBV_SLOTS;
  pair->live = true;
  gloo_status status = ibv_open_tcp(pair, error);
  if (status != GLOO_OK) {
    gli_wipe(pair->job_key, sizeof pair->job_key);
    free(pair);
    return status;
  }
  t->n_others++;
  gli_ibv_pair_move(pair, &t->pairs);
  ibv_begin(pair);
  *out = &pair->base;
  return GLOO_OK;
}

const char *gli_ibv_route(const gli_pair *base, char why[GLI_WHY_BYTES]) {
  const gli_ibv_pair *pair = (const gli_ibv_pair *)base;
  why[0] = '\0';
  if (pair->way == GLI_IBV_BY_VERBS)
    return pair->lanes != NULL ? gli_ibv_lanes_route(pair->lanes) : "RDMA";
  if (!gli_ibv_is_decided(pair)) return NULL;
  memcpy(why, pair->why, GLI_WHY_BYTES);
  return "TCP";
}

uint64_t gli_ibv_pair_heard(const gli_pair *base) {
  const gli_ibv_pair *pair = (const gli_ibv_pair *)base;
  uint64_t by_tcp = pair->tcp != NULL ? pair->tcp->ops->heard(pair->tcp) : 0;
  return by_tcp + pair->taken;
}

/* ---- failing ------------------------------------------------------------- */

void gli_ibv_pair_break(gli_ibv_pair *pair, gloo_status status,
                        const char *format, ...) {
  gli_ibv *t = pair->t;
  gloo_error cause;
  va_list arguments;
  if (pair->broken) return;
  va_start(arguments, format);
  (void)gli_vfail(&cause, status, (int)pair->config.peer_rank, format,
                  arguments);
  va_end(arguments);
  if (gli_ibv_may_decline(pair)) {
    gli_ibv_decline(pair, cause.message);
    return;
  }
  /* Only this rank knows about its own device. */
  if (status == GLOO_ERR_IO)
    cause.rank = cause.root_rank = (int)pair->config.self_rank;
  pair->broken = true;
  if (pair->live && !pair->departed) {
    pair->cause = cause;
    pair->to_tell = true;
  }
  bool waits = status == GLOO_ERR_PEER;
  pair->report_ns = waits ? gli_ibv_now(t) + report_after_ns : 0;
  if (waits)
    gli_ibv_schedule(t, pair->report_ns);
  else
    gli_ibv_touch(t);
}

void gli_ibv_pair_spoil(gli_ibv_pair *pair, const char *what) {
  gli_ibv_pair_break(pair, GLOO_ERR_PROTOCOL,
                     "a message from rank %" PRIu32 " to rank %" PRIu32
                     " over RDMA %s; do all ranks run the same version of the "
                     "library?",
                     pair->config.peer_rank, pair->config.self_rank, what);
}

/* Breaks flushed queue pairs whose cause has not appeared. */
static void ibv_end_doubts(gli_ibv *t, uint64_t now_ns) {
  for (gli_ibv_pair *pair = t->pairs; pair != NULL; pair = pair->next) {
    if (pair->doubtful_ns == 0 || !gli_ibv_has_queue(pair) || pair->broken)
      continue;
    if (now_ns >= pair->doubtful_ns)
      gli_ibv_pair_break(pair, GLOO_ERR_IO,
                         "the connection of rank %" PRIu32 " with rank %" PRIu32
                         " through %s broke, and the device gives no cause",
                         pair->config.self_rank, pair->config.peer_rank,
                         t->port.name);
    else
      gli_ibv_schedule(t, pair->doubtful_ns);
  }
}

static gli_ibv_pair *ibv_find_due(gli_ibv *t, uint64_t now_ns) {
  for (gli_ibv_pair *pair = t->pairs; pair != NULL; pair = pair->next) {
    if (!pair->to_tell || !pair->live) continue;
    if (pair->report_ns <= now_ns) return pair;
    gli_ibv_schedule(t, pair->report_ns);
  }
  return NULL;
}

void gli_ibv_pairs_due(gli_ibv *t) {
  uint64_t now_ns = gli_ibv_now(t);
  gli_ibv_pair *pair, *next;
  gli_ibv_setups_due(t, now_ns);
  ibv_end_doubts(t, now_ns);
  while ((pair = ibv_find_due(t, now_ns)) != NULL) {
    pair->to_tell = false;
    pair->live = false;
    t->happened++;
    gli_ibv_queue_drop(pair);
    t->upcalls->failed(pair->config.user, &pair->cause);
  }
  for (pair = t->pairs; pair != NULL; pair = next) {
    next = pair->next;
    gli_ibv_show_life(pair, now_ns);
    if (pair->leaving && pair->broken) gli_ibv_check_bye(pair);
    if (pair->closed)
      gli_ibv_linger_check(pair);
    else
      gli_ibv_update_undelivered(pair);
  }
}

/* ---- end of a pair ------------------------------------------------------- */

/* Recomputes whether the pair owes anything. A peer that has made its offer
 * waits for an answer, which the pair owes for a while, even without polls. */
void gli_ibv_update_undelivered(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  bool waits =
      (pair->setup == GLI_IBV_WORKING || pair->way >= GLI_IBV_WAY_CONNECTED) &&
      !gli_ibv_is_decided(pair) && !pair->broken &&
      gli_ibv_now(t) < pair->decide_until_ns;
  bool answers = waits && pair->peer.mtu != 0;
  if (waits) gli_ibv_schedule(t, pair->decide_until_ns);
  gli_mark_undelivered(&t->base, &pair->base,
                       pair->tcp != NULL && (pair->closed || answers));
}

void gli_ibv_pair_dispose(gli_ibv_pair *pair) {
  gli_ibv *t = pair->t;
  gli_ibv_queue_drop(pair);
  if (pair->way == GLI_IBV_BY_VERBS)
    t->n_by_verbs--;
  else
    t->n_others--;
  pair->live = pair->to_tell = false;
  pair->tcp = NULL;
  gli_ibv_update_undelivered(pair);
  gli_wipe(pair->job_key, sizeof pair->job_key);
  gli_ibv_pair **list = pair->qp_leaked ? &t->qp_leaked : &t->garbage;
  if (pair->setup != GLI_IBV_SETTLED) {
    pair->setup = GLI_IBV_RETIRED;
    list = &t->retired;
  }
  gli_ibv_pair_move(pair, list);
}

static void ibv_free_pair(gli_ibv_pair *pair) {
  if (pair->busy) {
    gli_ibv_pair **at = &pair->t->busy;
    while (*at != pair) at = &(*at)->next_busy;
    *at = pair->next_busy;
  }
  gli_ibv_unshare(pair);
  free(pair);
}

void gli_ibv_free_pairs(gli_ibv_pair **list) {
  while (*list != NULL) {
    gli_ibv_pair *pair = *list;
    *list = pair->next;
    ibv_free_pair(pair);
  }
}
