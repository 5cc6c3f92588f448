/* Builds plans for the checker, whole or window by window. */
#include <stdlib.h>
#include <string.h>

#include "proof/check_internal.h"

uint32_t gli_check_window(const gli_checker *c) {
  uint64_t window = c->max_steps / c->params.size;
  if (window < 64) window = 64;
  return window > UINT32_MAX / 8 ? UINT32_MAX / 8 : (uint32_t)window;
}

/* ---- collecting ---------------------------------------------------------- */

gli_plan_params gli_check_params(const gli_checker *c, uint32_t rank) {
  gli_plan_params p = c->params;
  p.rank = rank;
  if (p.counts != NULL) p.counts += rank;
  return p;
}

gloo_status gli_check_collect(gli_checker *c, uint32_t rank) {
  gli_plan_params p = gli_check_params(c, rank);
  gloo_status status = gli_raw_begin(&c->builder, &p, c->error);
  if (status != GLOO_OK) return status;
  gli_raw_build(&c->builder, c->build);
  if (c->builder.error.status == GLOO_OK) return GLOO_OK;
  c->report->failed_step = c->builder.n_seen;
  if (c->error != NULL) *c->error = c->builder.error;
  return c->builder.error.status;
}

static int check_load_by_rank(const void *a, const void *b) {
  const gli_plan_peer *x = a, *y = b;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Records the totals of the whole plan. */
static bool keep_totals(gli_checker *c, check_rank *r) {
  const gli_builder *b = &c->builder;
  if (b->n_peers > r->peer_capacity) {
    gli_plan_peer *peers = realloc(r->peers, b->n_peers * sizeof *peers);
    if (peers == NULL) return false;
    r->peers = peers;
    r->peer_capacity = b->n_peers;
  }
  if (b->n_peers > 0) {
    memcpy(r->peers, b->peers, b->n_peers * sizeof *r->peers);
    qsort(r->peers, b->n_peers, sizeof *r->peers, check_load_by_rank);
  }
  r->n_peers = b->n_peers;
  r->total = b->n_seen;
  r->scratch_bytes = b->scratch_bytes;
  uint64_t sent = 0;
  for (uint32_t i = 0; i < r->n_peers; i++) {
    sent += r->peers[i].send_bytes;
    c->report->messages += r->peers[i].sends;
  }
  c->report->steps += r->total;
  if (sent > c->report->max_sent_bytes) c->report->max_sent_bytes = sent;
  if (r->scratch_bytes > c->report->max_scratch_bytes) {
    c->report->max_scratch_bytes = r->scratch_bytes;
  }
  return true;
}

/* ---- holding ------------------------------------------------------------- */

static bool reserve_steps(check_rank *r, uint32_t n) {
  if (n <= r->capacity) return true;
  check_step *steps = realloc(r->steps, n * sizeof *steps);
  if (steps == NULL) return false;
  r->steps = steps;
  uint32_t *first = realloc(r->next_first, ((size_t)n + 1) * sizeof *first);
  if (first == NULL) return false;
  r->next_first = first;
  r->capacity = n;
  return true;
}

/* Drops completed steps and moves the others together. */
static void check_load_compact(gli_checker *c, uint32_t rank) {
  check_rank *r = &c->ranks[rank];
  if (r->done == 0) return;
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->n; i++) {
    if (r->steps[i].state == CHECK_DONE) continue;
    r->steps[n] = r->steps[i];
    const check_step *s = &r->steps[n];
    if (s->state == CHECK_POSTED) {
      bool is_send = s->step.kind == GLI_STEP_SEND;
      check_post moved = {.from = is_send ? rank : s->step.peer,
                          .to = is_send ? s->step.peer : rank,
                          .slot = s->step.slot,
                          .index = n,
                          .is_send = is_send};
      gli_check_move_post(c, &moved);
    }
    n++;
  }
  r->n = n;
  r->done = 0;
}

/* Appends steps to the steps that are held. */
static bool check_load_hold(check_rank *r, const gli_step *steps, size_t n) {
  if (!reserve_steps(r, r->n + (uint32_t)n)) return false;
  for (size_t i = 0; i < n; i++) {
    r->steps[r->n++] = (check_step){.step = steps[i],
                                    .number = (uint32_t)(r->loaded + i),
                                    .state = CHECK_WAITING};
  }
  r->loaded += n;
  return true;
}

/* ---- order --------------------------------------------------------------- */

/* Copies the held steps into one array. */
static const gli_step *check_load_gather(gli_checker *c, const check_rank *r) {
  if (r->n > c->gather_capacity) {
    gli_step *steps = realloc(c->gather, r->n * sizeof *steps);
    if (steps == NULL) return NULL;
    c->gather = steps;
    c->gather_capacity = r->n;
  }
  for (uint32_t i = 0; i < r->n; i++) c->gather[i] = r->steps[i].step;
  return c->gather;
}

static bool keep_edges(check_rank *r, const gli_depend *d) {
  if (d->n_edges > r->next_capacity) {
    uint32_t *next = realloc(r->next, d->n_edges * sizeof *next);
    if (next == NULL) return false;
    r->next = next;
    r->next_capacity = d->n_edges;
  }
  memset(r->next_first, 0, ((size_t)r->n + 1) * sizeof *r->next_first);
  for (uint32_t i = 0; i < r->n; i++) r->steps[i].waits = 0;
  for (size_t i = 0; i < d->n_edges; i++) {
    gli_edge e = d->edges[i];
    r->steps[e.to].waits++;
    if (e.from + 2 <= r->n) r->next_first[e.from + 2]++;
  }
  for (uint32_t i = 1; i <= r->n; i++) {
    r->next_first[i] += r->next_first[i - 1];
  }
  for (size_t i = 0; i < d->n_edges; i++) {
    r->next[r->next_first[d->edges[i].from + 1]++] = d->edges[i].to;
  }
  return true;
}

/* Derives the order of the held steps; steps from first_new on may be ready. */
static bool check_load_order(gli_checker *c, uint32_t rank,
                             const gli_step *steps, uint32_t first_new) {
  check_rank *r = &c->ranks[rank];
  if (r->n == 0) return true;
  if (steps == NULL || !gli_depend_derive(&c->depend, steps, r->n, false)) {
    return false;
  }
  if (!keep_edges(r, &c->depend)) return false;
  for (uint32_t i = first_new; i < r->n; i++) {
    if (r->steps[i].waits != 0) continue;
    if (!gli_check_push_ready(c, rank, i)) return false;
  }
  return true;
}

/* ---- loading ------------------------------------------------------------- */

gloo_status gli_check_build(gli_checker *c, uint32_t rank, uint32_t window) {
  check_rank *r = &c->ranks[rank];
  gloo_status status = gli_check_collect(c, rank);
  if (status != GLOO_OK) return status;
  gli_builder *b = &c->builder;
  for (size_t i = 0; i < b->n_steps; i++) {
    gli_step *s = &b->steps[i];
    if (s->peer != GLI_NO_PEER) s->peer = b->peers[s->peer].rank;
  }
  size_t n = b->n_steps < window ? b->n_steps : window;
  if (b->one_sided) c->one_sided = true;
  if (!keep_totals(c, r) || !check_load_hold(r, b->steps, n) ||
      !check_load_order(c, rank, b->steps, 0)) {
    return gli_check_no_memory(c);
  }
  if (n == b->n_steps) return GLOO_OK;
  c->report->streamed = true;
  if (!gli_pack_fill(&r->rest, b->steps + n, b->n_steps - n)) {
    return gli_check_no_memory(c);
  }
  return GLOO_OK;
}

static bool reserve_fresh(gli_checker *c, uint32_t window) {
  if (window <= c->fresh_capacity) return true;
  gli_step *fresh = realloc(c->fresh, window * sizeof *fresh);
  if (fresh == NULL) return false;
  c->fresh = fresh;
  c->fresh_capacity = window;
  return true;
}

gloo_status gli_check_load_more(gli_checker *c, uint32_t rank,
                                uint32_t window) {
  check_rank *r = &c->ranks[rank];
  check_load_compact(c, rank);
  uint32_t first_new = r->n;
  if (!reserve_fresh(c, window)) return gli_check_no_memory(c);
  size_t n = gli_pack_take(&r->rest, c->fresh, window);
  if (!check_load_hold(r, c->fresh, n) ||
      !check_load_order(c, rank, check_load_gather(c, r), first_new)) {
    return gli_check_no_memory(c);
  }
  return GLOO_OK;
}

/* ---- totals -------------------------------------------------------------- */

static const gli_plan_peer *peer_of(const check_rank *r, uint32_t rank) {
  gli_plan_peer key = {.rank = rank};
  if (r->n_peers == 0) return NULL;
  return bsearch(&key, r->peers, r->n_peers, sizeof key, check_load_by_rank);
}

/* Reports the step of a message that has one end only. */
static gloo_status fail_lonely(gli_checker *c, uint32_t rank, uint32_t peer,
                               bool is_send, uint32_t slot) {
  gloo_status status = gli_check_collect(c, rank);
  if (status != GLOO_OK) return status;
  const gli_builder *b = &c->builder;
  for (size_t i = 0; i < b->n_steps; i++) {
    gli_step s = b->steps[i];
    if (s.peer == GLI_NO_PEER || b->peers[s.peer].rank != peer) continue;
    if ((s.kind == GLI_STEP_SEND) != is_send || s.slot != slot) continue;
    s.peer = peer;
    return gli_check_fail(c, rank, i, &s,
                          is_send
                              ? "rank %u receives only %u messages from rank %u"
                              : "rank %u sends only %u messages to rank %u",
                          peer, slot, rank);
  }
  return gli_check_no_memory(c); /* only if the algorithm is not pure */
}

gloo_status gli_check_totals(gli_checker *c) {
  for (uint32_t rank = 0; rank < c->params.size; rank++) {
    const check_rank *r = &c->ranks[rank];
    for (uint32_t i = 0; i < r->n_peers; i++) {
      const gli_plan_peer *mine = &r->peers[i];
      const gli_plan_peer *other = peer_of(&c->ranks[mine->rank], rank);
      uint32_t sends = other == NULL ? 0 : other->sends;
      uint32_t recvs = other == NULL ? 0 : other->recvs;
      if (mine->sends > recvs) {
        return fail_lonely(c, rank, mine->rank, true, recvs);
      }
      if (mine->recvs > sends) {
        return fail_lonely(c, rank, mine->rank, false, sends);
      }
    }
  }
  return GLOO_OK;
}
