#include "engine/match_world.h"

#include <stdlib.h>
#include <string.h>

#include "plan/cmocka_all.h"

world *world_new(void) {
  world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  bare_begin(&w->rank);
  w->other.device = &w->rank.device;
  w->other.family = &w->rank.family;
  return w;
}

void world_free(world *w) {
  for (uint32_t i = 0; i < w->n_early; i++) gli_early_free(w->early[i]);
  bare_end(&w->rank);
  free(w);
}

made *make(world *w, made_as as, const gli_header *signature) {
  assert_true(w->n_ops < OPS);
  made *m = &w->ops[++w->n_ops];
  m->as = as;
  m->op.context = &w->rank.context;
  m->op.device = &w->rank.device;
  m->op.state = GLI_OPERATION_RUNNING;
  m->op.signature = *signature;
  m->op.plan = &m->plan;
  m->op.peers = m->peers;
  m->op.p2p.peer = -1;
  m->op.side = as == COLLECTIVE ? GLI_COLLECTIVE
               : as == SEND     ? GLI_SEND_SIDE
                                : GLI_RECV_SIDE;
  m->plan.params.collective = (gli_collective)signature->collective;
  m->plan.params.elem_bytes = 4;
  m->plan.peers = m->plan_peers;
  m->plan.recv_steps = m->recv_steps;
  return m;
}

void add_peer(made *m, gli_link *link, uint32_t plan_rank, uint32_t recvs,
              uint64_t elements) {
  uint32_t n = m->plan.n_peers++, first = 0;
  if (n > 0)
    first = m->plan_peers[n - 1].first_recv + m->plan_peers[n - 1].recvs;
  m->peers[n].link = link;
  m->plan_peers[n] = (gli_plan_peer){.rank = plan_rank,
                                     .recvs = recvs,
                                     .first_recv = first,
                                     .recv_bytes = 4 * elements};
  for (uint32_t i = 0; i < recvs; i++) {
    m->recv_steps[first + i] = 10 * (n + 1) + i;
  }
}

void let_find(made *m) {
  gli_match_insert(&m->op);
  m->there = true;
}

void collective(world *w, const gli_header *signature) {
  made *m = make(w, COLLECTIVE, signature);
  add_peer(m, &w->rank.links[1], 1, 2, 10);
  add_peer(m, &w->rank.links[2], 2, 1, 0);
  let_find(m);
}

void message(world *w, made_as as, uint32_t with, const gli_header *signature) {
  made *m = make(w, as, signature);
  m->with = with;
  m->plan.params.rank = as == RECEIVE ? 1 : 0;
  m->plan.params.size = 2;
  add_peer(m, &w->rank.links[with], 1 - m->plan.params.rank,
           as == RECEIVE ? RECVS : 0, 5);
  let_find(m);
}

void post(world *w, uint32_t tag, uint32_t takes, bool elsewhere) {
  gli_header signature = {.collective = GLI_SENDRECV, .tag = tag};
  made *m = make(w, POSTED, &signature);
  m->takes = takes;
  m->op.state = GLI_OPERATION_POSTED;
  m->plan.params.rank = 1;
  add_peer(m, NULL, 0, 1, 5);
  if (elsewhere) m->op.context = &w->other;
  bool any = takes == (1u << BARE_SIZE) - 1;
  for (int rank = 0; rank < BARE_SIZE && !any; rank++) {
    if ((takes >> rank & 1) == 0) continue;
    if (takes == 1u << rank) m->op.p2p.peer = rank;
    m->candidates[m->op.p2p.n_candidates++] = rank;
  }
  if (!any && m->op.p2p.peer < 0) m->op.p2p.candidates = m->candidates;
  gli_operation_list_add(&w->rank.family.posted, &m->op);
}

void park(world *w, uint32_t from, const gli_header *h, bool envelope) {
  gli_link *link = &w->rank.links[from];
  gli_early *early = gli_early_new(link, h, 0);
  assert_non_null(early);
  gli_early_keep(early, gli_key_incoming(link, h));
  if (envelope) gli_early_add_envelope(early);
  w->early[w->n_early++] = early;
}

void start_so_many(world *w, uint32_t tag, uint64_t n) {
  uint64_t *counter = gli_counter(&w->rank.context.counters, tag);
  assert_true(counter && tag < TAGS);
  *counter = w->started[tag] = n;
}

void find_so_many(world *w, uint32_t from, uint32_t tag, uint64_t n) {
  uint64_t *counter = gli_counter(&w->rank.links[from].found, tag);
  assert_true(counter && tag < TAGS);
  *counter = w->found[from][tag] = n;
}

void push_finished(world *w, const gli_header *signature) {
  const gloo_context *context = &w->rank.context;
  w->pushed[w->n_pushed++] = *signature;
  gli_trace_record *record = gli_trace_next(context->trace);
  record->operation = signature->operation;
  record->about = (gli_trace_about){
      .status = GLOO_OK,
      .tuning = signature->tuning,
      .collective = signature->collective,
      .dtype = signature->dtype,
      .op = signature->op,
      .algorithm = signature->algorithm,
      .first = context->group_first,
      .group = context->group_number,
      .tag = signature->tag,
      .root = signature->root,
      .count = signature->count,
  };
}

/* ---- it changes nothing -------------------------------------------------- */

static bool same(const void *a, const void *b, size_t bytes) {
  return memcmp(a, b, bytes) == 0;
}

/* Returns the counters of link i, or of the context after the last link. */
static const gli_counters *counters_of(const world *w, uint32_t i) {
  return i < BARE_SIZE ? &w->rank.links[i].found : &w->rank.context.counters;
}

void remember(const world *w, snapshot *s) {
  memcpy(&s->w, w, sizeof *w);
  for (uint32_t i = 0; i < w->n_early; i++) {
    memcpy(s->early[i], w->early[i], sizeof(gli_early));
  }
  for (uint32_t i = 0; i <= BARE_SIZE; i++) {
    const gli_counters *c = counters_of(w, i);
    assert_true(c->n_slots <= COUNTERS);
    for (uint32_t k = 0; k < c->n_slots; k++) {
      if (c->slots[k]) s->counters[i][k] = c->slots[k]->next;
    }
  }
}

void assert_unchanged(const char *name, world *w, const snapshot *s) {
  for (uint32_t i = 0; i < BARE_SIZE; i++) {
    w->rank.links[i].hint = s->w.rank.links[i].hint;
  }
  if (!same(w, &s->w, sizeof *w)) fail_msg("%s: a struct has changed", name);
  for (uint32_t i = 0; i < w->n_early; i++) {
    if (!same(w->early[i], s->early[i], sizeof(gli_early))) {
      fail_msg("%s: an early message has changed", name);
    }
  }
  for (uint32_t i = 0; i <= BARE_SIZE; i++) {
    const gli_counters *c = counters_of(w, i);
    for (uint32_t k = 0; k < c->n_slots; k++) {
      if (c->slots[k] && c->slots[k]->next != s->counters[i][k]) {
        fail_msg("%s: a counter has changed", name);
      }
    }
  }
}

/* ---- asking -------------------------------------------------------------- */

static uint32_t number_of(const world *w, const gloo_request *op) {
  for (uint32_t i = 1; op && i <= w->n_ops; i++) {
    if (&w->ops[i].op == op) return i;
  }
  assert_null(op);
  return NOBODY;
}

static void check_error(const char *name, gloo_status status,
                        const gli_link *link, const gloo_error *error) {
  if (status == GLOO_OK) return;
  if (error->status != status || error->rank != (int)link->rank ||
      error->message[0] == '\0') {
    fail_msg("%s: error %d of rank %d: %s", name, error->status, error->rank,
             error->message);
  }
}

gloo_status ask_step(const char *name, const gloo_request *op, gli_link *link,
                     const gli_header *h, uint32_t *step) {
  uint32_t found = UINT32_MAX;
  gloo_error error = {.status = GLOO_OK};
  gloo_status status = gli_match_step(op, link, h, &found, &error);
  check_error(name, status, link, &error);
  if (status != GLOO_OK && found != UINT32_MAX) {
    fail_msg("%s: it failed, and said step %u", name, found);
  }
  *step = status == GLOO_OK ? found : 0;
  return status;
}

answer ask(const char *name, world *w, uint32_t from, const gli_header *h) {
  snapshot *before = calloc(1, sizeof *before);
  assert_non_null(before);
  remember(w, before);
  gli_link *link = &w->rank.links[from];
  answer a = {.status = GLOO_OK};
  gloo_request *op = gli_match_operation(link, h);
  assert_unchanged(name, w, before);
  a.op = number_of(w, op);
  if (op && op->state != GLI_OPERATION_POSTED) {
    a.status = ask_step(name, op, link, h, &a.step);
    assert_unchanged(name, w, before);
  }
  if (!op) a.over = gli_match_is_over(link, h);
  assert_unchanged(name, w, before);
  gloo_error error = {.status = GLOO_OK};
  a.late = gli_match_agree_late(link, h, &error);
  check_error(name, a.late, link, &error);
  assert_unchanged(name, w, before);
  gloo_status too_late = gli_match_too_late(link, h, &error);
  check_error(name, too_late, link, &error);
  assert_unchanged(name, w, before);
  assert_int_equal(too_late, a.late ? a.late : GLOO_ERR_PROTOCOL);
  a.posted = number_of(w, gli_match_posted(&w->rank.context, from, h->tag));
  assert_unchanged(name, w, before);
  free(before);
  return a;
}

void assert_answer(const char *name, const answer *got,
                   const answer *expected) {
  if (got->op == expected->op && got->status == expected->status &&
      got->step == expected->step && got->over == expected->over &&
      got->late == expected->late && got->posted == expected->posted) {
    return;
  }
  const answer *x = expected;
  fail_msg(
      "%s: operation %u (not %u), status %d (not %d), step %u (not %u), over "
      "%d (not %d), late %d (not %d), posted %u (not %u)",
      name, got->op, x->op, got->status, x->status, got->step, x->step,
      got->over, x->over, got->late, x->late, got->posted, x->posted);
}
