/* gloo plan --json: the steps as data, one object per rank (docs/formats.md).
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/json.h"
#include "proof/check_internal.h"
#include "proof/print.h"
#include "tools/plan_picture.h"
#include "tools/tools.h"

static const char *const buffers[GLI_BUFFERS] = {
    "in", "ins", "out", "scratch", "token", "window", "outs"};

/* Prints the ranges of memory that a step reads, or writes. */
static void json_ranges(gli_json *out, const char *key, const gli_step *step,
                        bool writes) {
  check_touch touches[CHECK_TOUCHES];
  int n = gli_check_touches(step, touches);
  gli_json_begin(out, key, '[');
  for (int i = 0; i < n; i++) {
    if (touches[i].writes != writes) continue;
    gli_json_begin(out, NULL, '{');
    gli_json_text(out, "buffer", buffers[touches[i].buffer]);
    gli_json_integer(out, "offset", touches[i].at);
    gli_json_integer(out, "bytes", touches[i].bytes);
    gli_json_end(out, '}');
  }
  gli_json_end(out, ']');
}

/* The steps that each step of a plan waits for: plan->next reversed. */
typedef struct json_waits {
  uint32_t *first; /* [n_steps + 2] */
  uint32_t *steps;
} json_waits;

static bool json_waits_find(json_waits *w, const gli_plan *plan) {
  uint32_t n = plan->n_steps, edges = plan->next_first[n];
  w->first = calloc((size_t)n + 2, sizeof *w->first);
  w->steps = calloc((size_t)edges + 1, sizeof *w->steps);
  if (w->first == NULL || w->steps == NULL) return false;
  for (uint32_t e = 0; e < edges; e++) w->first[plan->next[e] + 2]++;
  for (uint32_t i = 1; i <= n + 1; i++) w->first[i] += w->first[i - 1];
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t e = plan->next_first[i]; e < plan->next_first[i + 1]; e++)
      w->steps[w->first[plan->next[e] + 1]++] = i;
  return true;
}

static void json_step(gli_json *out, const gli_picture *p,
                      const gli_picture_step *s, const json_waits *w) {
  const gli_plan *plan = p->plans[s->rank];
  gli_picture_words words;
  gli_picture_describe(p, s, &words);
  gli_json_begin(out, NULL, '{');
  gli_json_text(out, "kind", words.name);
  gli_json_integer(out, "row", s->row);
  if (s->step->peer != GLI_NO_PEER) {
    gli_json_integer(out, "peer", plan->peers[s->step->peer].rank);
    gli_json_integer(out, "slot", s->step->slot);
    gli_json_integer(out, "message_bytes", gli_step_wire_bytes(s->step));
  }
  json_ranges(out, "reads", s->step, false);
  json_ranges(out, "writes", s->step, true);
  gli_json_begin(out, "waits_for", '[');
  for (uint32_t e = w->first[s->number]; e < w->first[s->number + 1]; e++)
    gli_json_integer(out, NULL, w->steps[e]);
  gli_json_end(out, ']');
  gli_json_end(out, '}');
}

static void json_plan(const gli_picture *p, const gli_plan_question *q,
                      uint32_t rank, const json_waits *w) {
  const gli_plan *plan = p->plans[rank];
  gli_json out;
  gli_json_open(&out, stdout);
  gli_json_integer(&out, "gloo_plan", 1);
  gli_json_text(&out, "collective", gli_collective_name(q->params.collective));
  gli_json_text(&out, "algorithm", q->algorithm->name);
  gli_json_integer(&out, "rank", rank);
  gli_json_integer(&out, "size", p->size);
  if (gli_collective_rooted(q->params.collective))
    gli_json_integer(&out, "root", q->params.root);
  gli_json_integer(&out, "count", plan->params.count);
  gli_json_integer(&out, "element_bytes", plan->params.elem_bytes);
  gli_json_bool(&out, "in_place", plan->params.in_place);
  gli_json_integer(&out, "segment_bytes", plan->params.segment_bytes);
  gli_json_integer(&out, "in_bytes", plan->in_bytes);
  gli_json_integer(&out, "out_bytes", plan->out_bytes);
  gli_json_integer(&out, "scratch_bytes", plan->scratch_bytes);
  gli_json_begin(&out, "steps", '[');
  for (uint32_t i = p->first[rank]; i < p->first[rank + 1]; i++)
    json_step(&out, p, &p->steps[i], w);
  gli_json_end(&out, ']');
  gli_json_close(&out);
}

int gli_plan_json(const gli_plan_question *q, uint32_t rank) {
  enum { MOST_STEPS = 4000000 };
  gli_picture p;
  if (!gli_picture_make(&p, q, MOST_STEPS)) return GLI_EXIT_FAILED;
  bool good = true;
  for (uint32_t r = 0; good && r < p.size; r++) {
    json_waits w = {NULL, NULL};
    if (rank != GLI_PICTURE_NONE && rank != r) continue;
    good = json_waits_find(&w, p.plans[r]);
    if (good) json_plan(&p, q, r, &w);
    if (!good) fprintf(stderr, "gloo plan: out of memory\n");
    free(w.first);
    free(w.steps);
  }
  gli_picture_free(&p);
  return good && ferror(stdout) == 0 ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
