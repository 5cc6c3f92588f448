/* Builds a finished plan from the steps of an algorithm. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/depend.h"
#include "plan/params.h"
#include "plan/raw.h"
#include "plan/staged.h"

/* ---- layout -------------------------------------------------------------- */

/* A plan and its arrays are one allocation. */
static size_t plan_take(size_t *total, size_t count, size_t each) {
  size_t at = *total;
  *total = at + (count * each + 15) / 16 * 16;
  return at;
}

static gli_plan *plan_allocate(const gli_plan_params *params, uint32_t n_steps,
                               size_t n_edges, uint32_t n_peers,
                               size_t n_recvs) {
  const gli_counts *given = params->counts;
  size_t total = 0;
  plan_take(&total, 1, sizeof(gli_plan));
  size_t steps = plan_take(&total, n_steps, sizeof(gli_step));
  size_t n_deps = plan_take(&total, n_steps, sizeof(uint32_t));
  size_t next_first = plan_take(&total, (size_t)n_steps + 1, sizeof(uint32_t));
  size_t next = plan_take(&total, n_edges, sizeof(uint32_t));
  size_t peers = plan_take(&total, n_peers, sizeof(gli_plan_peer));
  size_t recv_steps = plan_take(&total, n_recvs, sizeof(uint32_t));
  size_t counts = plan_take(&total, given != NULL, sizeof(gli_counts));
  size_t numbers = plan_take(&total, gli_counts_numbers(given, params->size),
                             sizeof(uint64_t));
  char *memory = malloc(total);
  if (memory == NULL) return NULL;
  gli_plan *plan = (gli_plan *)(void *)memory;
  *plan = (gli_plan){
      .params = *params,
      .n_steps = n_steps,
      .steps = (gli_step *)(void *)(memory + steps),
      .n_deps = (uint32_t *)(void *)(memory + n_deps),
      .next_first = (uint32_t *)(void *)(memory + next_first),
      .next = (uint32_t *)(void *)(memory + next),
      .n_peers = n_peers,
      .peers = (gli_plan_peer *)(void *)(memory + peers),
      .recv_steps = (uint32_t *)(void *)(memory + recv_steps),
      .bytes = total,
  };
  if (given == NULL) return plan;
  gli_counts *own = (gli_counts *)(void *)(memory + counts);
  gli_counts_copy(given, params->size, own,
                  (uint64_t *)(void *)(memory + numbers));
  plan->params.counts = own;
  return plan;
}

void gli_plan_free(gli_plan *plan) {
  free(plan);
}

/* ---- peers --------------------------------------------------------------- */

static int plan_by_rank(const void *a, const void *b) {
  const gli_plan_peer *x = a, *y = b;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

uint32_t gli_plan_find_peer(const gli_plan *plan, uint32_t rank) {
  uint32_t low = 0, high = plan->n_peers;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (plan->peers[middle].rank < rank) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  bool found = low < plan->n_peers && plan->peers[low].rank == rank;
  return found ? low : GLI_NO_PEER;
}

/* Copies the steps and peers of the builder, peers in order of rank. */
static void fill_steps(gli_plan *plan, const gli_builder *b) {
  memcpy(plan->steps, b->steps, b->n_steps * sizeof(gli_step));
  memcpy(plan->peers, b->peers, b->n_peers * sizeof(gli_plan_peer));
  bool sorted = true;
  for (uint32_t i = 1; i < b->n_peers; i++) {
    if (b->peers[i - 1].rank > b->peers[i].rank) sorted = false;
  }
  if (sorted) return;
  qsort(plan->peers, plan->n_peers, sizeof(gli_plan_peer), plan_by_rank);
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    gli_step *s = &plan->steps[i];
    if (s->peer == GLI_NO_PEER) continue;
    s->peer = gli_plan_find_peer(plan, b->peers[s->peer].rank);
  }
}

static void fill_recv_steps(gli_plan *plan) {
  uint32_t first = 0;
  for (uint32_t i = 0; i < plan->n_peers; i++) {
    plan->peers[i].first_recv = first;
    first += plan->peers[i].recvs;
  }
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    if (s->peer == GLI_NO_PEER || s->kind == GLI_STEP_SEND) continue;
    plan->recv_steps[plan->peers[s->peer].first_recv + s->slot] = i;
  }
}

/* ---- edges --------------------------------------------------------------- */

/* Fills next[] by counting sort; next_first[i + 1] moves from the start of list
 * i to its end meanwhile. */
static void fill_edges(gli_plan *plan, const gli_depend *d) {
  uint32_t n = plan->n_steps;
  memset(plan->n_deps, 0, n * sizeof(uint32_t));
  memset(plan->next_first, 0, ((size_t)n + 1) * sizeof(uint32_t));
  for (size_t i = 0; i < d->n_edges; i++) {
    plan->n_deps[d->edges[i].to]++;
    if (d->edges[i].from + 2 <= n) plan->next_first[d->edges[i].from + 2]++;
  }
  for (uint32_t i = 1; i <= n; i++) {
    plan->next_first[i] += plan->next_first[i - 1];
  }
  for (size_t i = 0; i < d->n_edges; i++) {
    plan->next[plan->next_first[d->edges[i].from + 1]++] = d->edges[i].to;
  }
}

/* ---- make ---------------------------------------------------------------- */

static uint32_t most_operands(const gli_builder *b) {
  uint32_t most = 0;
  for (size_t i = 0; i < b->n_steps; i++) {
    const gli_step *s = &b->steps[i];
    uint32_t n = s->n > s->n_puts ? s->n : s->n_puts;
    if (n == 0 && s->kind == GLI_STEP_COPY_GET) n = 1;
    if (n > 0 && n + 1 > most) most = n + 1;
  }
  return most;
}

static gloo_status plan_finish(const gli_builder *b, gli_depend *d,
                               gli_plan **plan, gloo_error *error) {
  uint32_t n = (uint32_t)b->n_steps;
  if (!gli_depend_derive(d, b->steps, n, b->params.staged != 0) ||
      d->n_edges > UINT32_MAX) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the order of %u steps", n);
  }
  size_t n_recvs = 0;
  for (uint32_t i = 0; i < b->n_peers; i++) n_recvs += b->peers[i].recvs;
  gli_plan *made =
      plan_allocate(&b->params, n, d->n_edges, b->n_peers, n_recvs);
  if (made == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a plan of %u steps", n);
  }
  made->in_bytes = b->in_bytes;
  made->out_bytes = b->out_bytes;
  made->scratch_bytes = b->scratch_bytes;
  made->n_windows = b->n_windows;
  made->n_operands = most_operands(b);
  fill_steps(made, b);
  fill_recv_steps(made);
  fill_edges(made, d);
  *plan = made;
  return GLOO_OK;
}

gloo_status gli_plan_make(gli_build_fn build, const gli_plan_params *params,
                          gli_plan **plan, gloo_error *error) {
  gli_builder b;
  gli_raw_init(&b);
  gloo_status status = gli_raw_begin(&b, params, error);
  if (status == GLOO_OK) {
    gli_raw_build(&b, build);
    status = b.error.status;
    if (status != GLOO_OK && error != NULL) *error = b.error;
  }
  if (status == GLOO_OK && params->staged != 0)
    status = gli_staged_add(&b, error);
  if (status == GLOO_OK) {
    gli_depend d = {0};
    status = plan_finish(&b, &d, plan, error);
    gli_depend_free(&d);
  }
  gli_raw_free(&b);
  return status;
}
