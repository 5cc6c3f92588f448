/* Runs the plans of all ranks to the end, message by message. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proof/check_internal.h"

#define NONE UINT32_MAX
#define FEW_STEPS ((uint64_t)4 << 20) /* steps that windows may always hold */

static bool finish_step(gli_checker *c, uint32_t rank, uint32_t index) {
  check_rank *r = &c->ranks[rank];
  check_step *s = &r->steps[index];
  s->state = CHECK_DONE;
  r->done++;
  for (uint32_t e = r->next_first[index]; e < r->next_first[index + 1]; e++) {
    check_step *next = &r->steps[r->next[e]];
    if (s->depth > next->depth) next->depth = s->depth;
    if (--next->waits == 0 && !gli_check_push_ready(c, rank, r->next[e])) {
      return false;
    }
  }
  return true;
}

/* The chain grows by one message from the send to the receive. */
static void count_round(gli_checker *c, const check_step *send,
                        check_step *recv) {
  if (send->depth + 1 > recv->depth) recv->depth = send->depth + 1;
  if (recv->depth > c->report->rounds) c->report->rounds = recv->depth;
}

static gloo_status run_message(gli_checker *c, uint32_t rank, uint32_t index) {
  check_step *s = &c->ranks[rank].steps[index];
  bool is_send = s->step.kind == GLI_STEP_SEND;
  check_post other = {.from = is_send ? rank : s->step.peer,
                      .to = is_send ? s->step.peer : rank,
                      .slot = s->step.slot,
                      .is_send = !is_send};
  uint32_t other_index;
  if (!gli_check_take_post(c, &other, &other_index)) {
    s->state = CHECK_POSTED;
    other.is_send = is_send;
    other.index = index;
    return gli_check_add_post(c, other) ? GLOO_OK : gli_check_no_memory(c);
  }
  check_step *o = &c->ranks[s->step.peer].steps[other_index];
  check_step *send = is_send ? s : o, *recv = is_send ? o : s;
  gloo_status status = gli_check_message(c, other.from, send, other.to, recv);
  if (status != GLOO_OK) return status;
  count_round(c, send, recv);
  if (!finish_step(c, rank, index) ||
      !finish_step(c, s->step.peer, other_index)) {
    return gli_check_no_memory(c);
  }
  return GLOO_OK;
}

static gloo_status run_ready(gli_checker *c) {
  while (c->n_ready > 0) {
    check_ready at = c->ready[--c->n_ready];
    const check_step *s = &c->ranks[at.rank].steps[at.index];
    gloo_status status;
    if (s->step.peer != GLI_NO_PEER) {
      status = run_message(c, at.rank, at.index);
    } else {
      status = gli_check_local(c, at.rank, s);
      if (status == GLOO_OK && !finish_step(c, at.rank, at.index)) {
        status = gli_check_no_memory(c);
      }
    }
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

/* ---- deadlock ------------------------------------------------------------ */

/* Finds one cause for which a step cannot run: an earlier step, or the other
 * end of its message. */
static bool waits_for(const gli_checker *c, check_ready at, check_ready *on) {
  const check_rank *r = &c->ranks[at.rank];
  const check_step *s = &r->steps[at.index];
  if (s->state == CHECK_WAITING) {
    for (uint32_t i = 0; i < at.index; i++) {
      if (r->steps[i].state == CHECK_DONE) continue;
      for (uint32_t e = r->next_first[i]; e < r->next_first[i + 1]; e++) {
        if (r->next[e] != at.index) continue;
        *on = (check_ready){at.rank, i};
        return true;
      }
    }
    return false;
  }
  const check_rank *peer = &c->ranks[s->step.peer];
  bool is_send = s->step.kind == GLI_STEP_SEND;
  for (uint32_t i = 0; i < peer->n; i++) {
    const gli_step *o = &peer->steps[i].step;
    if (o->peer != at.rank || o->slot != s->step.slot) continue;
    if ((o->kind == GLI_STEP_SEND) == is_send) continue;
    *on = (check_ready){s->step.peer, i};
    return true;
  }
  return false;
}

static bool all_loaded(const gli_checker *c) {
  for (uint32_t i = 0; i < c->params.size; i++) {
    if (c->ranks[i].loaded < c->ranks[i].total) return false;
  }
  return true;
}

/* Follows the causes; after one move per step, `at` is on the cycle. */
static gloo_status fail_deadlock(gli_checker *c) {
  check_ready at = {0, 0};
  uint64_t left = 0;
  for (uint32_t rank = c->params.size; rank-- > 0;) {
    const check_rank *r = &c->ranks[rank];
    left += r->total - r->loaded + r->n - r->done;
    for (uint32_t i = r->n; i-- > 0;) {
      if (r->steps[i].state != CHECK_DONE) at = (check_ready){rank, i};
    }
  }
  check_ready on;
  for (uint64_t i = 0; i < left && i < 100000; i++) {
    if (!waits_for(c, at, &on)) break;
    at = on;
  }
  char chain[400];
  int used = 0;
  check_ready next = at;
  for (int i = 0; i < 4 && used >= 0 && used < 300; i++) {
    if (!waits_for(c, next, &on)) break;
    used += snprintf(chain + used, sizeof chain - (size_t)used,
                     "%srank %u step %u", i == 0 ? "" : ", which waits for ",
                     on.rank, c->ranks[on.rank].steps[on.index].number);
    next = on;
  }
  const check_step *s = &c->ranks[at.rank].steps[at.index];
  return gli_check_fail(
      c, at.rank, s->number, &s->step,
      "deadlock%s, with %" PRIu64 " steps of all ranks left: it waits for %s",
      all_loaded(c) ? "" : " as far as memory allowed to search", left,
      used > 0 ? chain : "an unknown step");
}

/* ---- windows ------------------------------------------------------------- */

static bool all_done(const gli_checker *c) {
  for (uint32_t i = 0; i < c->params.size; i++) {
    const check_rank *r = &c->ranks[i];
    if (r->done < r->n || r->loaded < r->total) return false;
  }
  return true;
}

/* Moves windows on where there is room. */
static gloo_status load_more(gli_checker *c, uint32_t window, bool *any) {
  *any = false;
  for (uint32_t i = 0; i < c->params.size; i++) {
    check_rank *r = &c->ranks[i];
    if (r->loaded == r->total || r->n - r->done > window) continue;
    gloo_status status = gli_check_load_more(c, i, window);
    if (status != GLOO_OK) return status;
    *any = true;
  }
  return GLOO_OK;
}

/* At most two windows are held: the rest of one, and the next. */
static bool may_grow(const gli_checker *c, uint32_t window) {
  uint64_t held = 4 * (uint64_t)window * c->params.size;
  return held <= 4 * c->max_steps || held <= FEW_STEPS;
}

static gloo_status run_all(gli_checker *c) {
  uint32_t window = gli_check_window(c);
  for (uint32_t i = 0; i < c->params.size; i++) {
    if (!gli_check_fill_inputs(c, i)) return gli_check_no_memory(c);
    gloo_status status = gli_check_build(c, i, window);
    if (status != GLOO_OK) return status;
  }
  gloo_status status = gli_check_totals(c);
  while (status == GLOO_OK) {
    status = run_ready(c);
    if (status != GLOO_OK || all_done(c)) break;
    bool any;
    status = load_more(c, window, &any);
    if (status != GLOO_OK || any) continue;
    if (!c->report->streamed || all_loaded(c) || !may_grow(c, window)) {
      return fail_deadlock(c);
    }
    window *= 2;
  }
  return status;
}

/* ---- memory of other ranks ----------------------------------------------- */

static gloo_status check_one_sided(gli_checker *c) {
  gloo_status status = GLOO_OK;
  for (uint32_t i = 0; i < c->params.size && status == GLOO_OK; i++) {
    status = gli_check_gets(c, i);
  }
  for (uint32_t i = 0; i < c->params.size && status == GLOO_OK; i++) {
    status = gli_check_puts(c, i);
  }
  return status;
}

/* ---- interface ----------------------------------------------------------- */

static bool check_prepare(gli_checker *c) {
  uint32_t size = c->params.size;
  if (size > c->rank_capacity) {
    check_rank *ranks = realloc(c->ranks, size * sizeof *ranks);
    if (ranks == NULL) return false;
    for (uint32_t i = c->rank_capacity; i < size; i++) {
      ranks[i] = (check_rank){0};
    }
    c->ranks = ranks;
    c->rank_capacity = size;
  }
  for (uint32_t i = 0; i < size; i++) {
    check_rank *r = &c->ranks[i];
    r->n = r->done = 0;
    r->loaded = r->total = 0;
  }
  gli_ranks_pool_reset(c->pool, size);
  c->one_sided = false;
  c->n_ready = 0;
  c->n_posts = c->posted = 0;
  c->free_post = NONE;
  if (c->buckets != NULL) {
    memset(c->buckets, 0xff, ((size_t)c->bucket_mask + 1) * sizeof(uint32_t));
  }
  return true;
}

gloo_status gli_checker_run(gli_checker *c, gli_build_fn build,
                            const gli_plan_params *params,
                            gli_check_report *report, gloo_error *error) {
  *report = (gli_check_report){.order = GLI_ORDER_FOLD};
  c->build = build;
  c->params = *params;
  c->params.rank = 0;
  c->report = report;
  c->error = error;
  if (params->size == 0) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "no ranks to check");
  }
  if (!check_prepare(c)) return gli_check_no_memory(c);
  gloo_status status = run_all(c);
  if (report->streamed) report->rounds = 0;
  for (uint32_t i = 0; i < params->size && status == GLOO_OK; i++) {
    status = gli_check_output(c, i);
  }
  if (status == GLOO_OK && c->one_sided) status = check_one_sided(c);
  return status;
}
