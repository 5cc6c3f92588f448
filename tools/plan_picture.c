#include "tools/plan_picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "proof/print.h"

static bool picture_fail(const char *text) {
  fprintf(stderr, "gloo plan: %s\n", text);
  return false;
}

/* ---- plans --------------------------------------------------------------- */

static bool make_plans(gli_picture *p, const gli_plan_question *q,
                       uint32_t most_steps) {
  gloo_error error;
  gli_plan_params params = gli_plan_params_for(q, q->algorithm);
  for (uint32_t rank = 0; rank < p->size; rank++) {
    params.rank = rank;
    if (gli_plan_make(q->algorithm->build, &params, &p->plans[rank], &error) !=
        GLOO_OK)
      return picture_fail(error.message);
    uint32_t n = p->plans[rank]->n_steps;
    if (n > most_steps - p->first[rank]) {
      fprintf(stderr,
              "gloo plan: the plans of %u ranks have more than %u steps in "
              "all, too many for this; use fewer ranks, a smaller --count or "
              "--segment 0\n",
              p->size, most_steps);
      return false;
    }
    p->first[rank + 1] = p->first[rank] + n;
  }
  return true;
}

static uint32_t find_other(const gli_picture *p, uint32_t rank,
                           const gli_step *s) {
  if (s->peer == GLI_NO_PEER || s->kind != GLI_STEP_SEND)
    return GLI_PICTURE_NONE;
  uint32_t to = p->plans[rank]->peers[s->peer].rank;
  const gli_plan *plan = p->plans[to];
  uint32_t back = gli_plan_find_peer(plan, rank);
  if (back == GLI_NO_PEER || s->slot >= plan->peers[back].recvs)
    return GLI_PICTURE_NONE;
  uint32_t slot = plan->peers[back].first_recv + s->slot;
  return p->first[to] + plan->recv_steps[slot];
}

static bool fill_steps(gli_picture *p) {
  uint32_t n = p->first[p->size];
  p->steps = calloc((size_t)n + 1, sizeof *p->steps);
  if (p->steps == NULL) return picture_fail("out of memory");
  for (uint32_t rank = 0; rank < p->size; rank++)
    for (uint32_t i = 0; i < p->plans[rank]->n_steps; i++)
      p->steps[p->first[rank] + i] =
          (gli_picture_step){.step = &p->plans[rank]->steps[i],
                             .rank = rank,
                             .number = i,
                             .other = GLI_PICTURE_NONE};
  for (uint32_t i = 0; i < n; i++) {
    uint32_t other = find_other(p, p->steps[i].rank, p->steps[i].step);
    if (other == GLI_PICTURE_NONE) continue;
    p->steps[i].other = other;
    p->steps[other].other = i;
  }
  return true;
}

/* ---- rows ---------------------------------------------------------------- */

static bool raise_row(gli_picture_step *s, uint32_t row) {
  if (s->row >= row) return false;
  s->row = row;
  return true;
}

/* Moves down what waits for a step, and the other end of its message. */
static bool push_down(gli_picture *p, uint32_t i) {
  const gli_picture_step *s = &p->steps[i];
  const gli_plan *plan = p->plans[s->rank];
  bool moved = false;
  for (uint32_t e = plan->next_first[s->number];
       e < plan->next_first[s->number + 1]; e++)
    moved =
        raise_row(&p->steps[p->first[s->rank] + plan->next[e]], s->row + 1) ||
        moved;
  if (s->other != GLI_PICTURE_NONE)
    moved = raise_row(&p->steps[s->other], s->row) || moved;
  return moved;
}

/* Each round moves at least one step to its final row. */
static bool find_rows(gli_picture *p) {
  uint32_t n = p->first[p->size], rounds = 0;
  bool moved = true;
  while (moved && rounds++ <= n) {
    moved = false;
    for (uint32_t i = 0; i < n; i++) moved = push_down(p, i) || moved;
  }
  if (moved) return picture_fail("the steps wait for each other in a circle");
  p->n_rows = 0;
  for (uint32_t i = 0; i < n; i++)
    if (p->steps[i].row >= p->n_rows) p->n_rows = p->steps[i].row + 1;
  return true;
}

/* ---- the whole ----------------------------------------------------------- */

bool gli_picture_make(gli_picture *p, const gli_plan_question *q,
                      uint32_t most_steps) {
  *p = (gli_picture){.size = q->params.size};
  p->plans = calloc(p->size, sizeof *p->plans);
  p->first = calloc((size_t)p->size + 1, sizeof *p->first);
  bool good = p->plans != NULL && p->first != NULL;
  if (!good) picture_fail("out of memory");
  good = good && make_plans(p, q, most_steps) && fill_steps(p) && find_rows(p);
  if (!good) gli_picture_free(p);
  return good;
}

void gli_picture_free(gli_picture *p) {
  for (uint32_t i = 0; p->plans != NULL && i < p->size; i++)
    if (p->plans[i] != NULL) gli_plan_free(p->plans[i]);
  free(p->plans);
  free(p->first);
  free(p->steps);
  *p = (gli_picture){.size = 0};
}

void gli_picture_describe(const gli_picture *p, const gli_picture_step *s,
                          gli_picture_words *words) {
  const gli_plan *plan = p->plans[s->rank];
  uint32_t peer = s->step->peer;
  gli_print_step(&plan->params, s->step,
                 peer != GLI_NO_PEER ? plan->peers[peer].rank : 0, words->text,
                 sizeof words->text);
  char *ranges = strstr(words->text, ": ");
  words->ranges = ranges != NULL ? ranges + 2 : "";
  words->name = words->text;
  words->text[strcspn(words->text, " :")] = 0;
}

void gli_picture_title(const gli_plan_question *q, char *text, size_t bytes) {
  const gli_plan_params *p = &q->params;
  char root[32] = "";
  if (gli_collective_rooted(p->collective))
    snprintf(root, sizeof root, ", root %u", p->root);
  snprintf(text, bytes, "%s %s: %s%s, count %" PRIu64,
           gli_collective_name(p->collective), q->algorithm->name,
           gli_count(p->size, "rank").text, root, p->count);
}
