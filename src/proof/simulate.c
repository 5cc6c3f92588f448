/* The simulator: one queue of events for the plans of all ranks. */
#include "proof/simulate.h"

#include <stdlib.h>

#include "core/error.h"

#define MAX_STEPS ((uint64_t)32 << 20)

typedef uint64_t picoseconds;

typedef enum event_kind {
  STEP_READY,      /* all steps that it waits for are done */
  MESSAGE_ARRIVES, /* its first byte is at the receiver's link */
  MESSAGE_IS_IN,   /* its last byte has passed the receiver's link */
  STEP_DONE
} event_kind;

/* For messages, the step is the receiving one. */
typedef struct event {
  picoseconds at;
  uint32_t rank, step;
  event_kind kind;
} event;

typedef struct step_state {
  uint64_t bytes; /* length of its message */
  uint32_t waits;
  bool is_ready; /* all steps that it waits for are done */
  bool is_in;    /* its message has arrived completely */
} step_state;

typedef struct rank_state {
  gli_plan *plan;
  step_state *steps;
  uint32_t *exposers; /* [n_windows] rank that exposes the put, + 1; 0: none */
  bool *written;      /* [n_windows] true if some step writes the put */
  picoseconds cpu_free, done;
  picoseconds out_free, in_free; /* links within the host */
} rank_state;

typedef struct host_state {
  picoseconds out_free, in_free; /* the host's link to other hosts */
} host_state;

typedef struct simulation {
  const gli_sim_model *model;
  const gli_hosts *where; /* NULL: all ranks share a host */
  uint32_t size;
  rank_state *ranks;
  host_state *hosts;
  event *heap;
  size_t n_events, capacity;
  gli_sim_report *report;
} simulation;

static picoseconds simulate_ps(double ns) {
  return (picoseconds)(ns * 1000 + 0.5);
}

static picoseconds simulate_of_bytes(double ns_per_byte, uint64_t bytes) {
  return simulate_ps(ns_per_byte * (double)bytes);
}

static picoseconds simulate_later(picoseconds a, picoseconds b) {
  return a > b ? a : b;
}

/* ---- events -------------------------------------------------------------- */

static bool simulate_before(const event *a, const event *b) {
  if (a->at != b->at) return a->at < b->at;
  if (a->rank != b->rank) return a->rank < b->rank;
  if (a->step != b->step) return a->step < b->step;
  return a->kind < b->kind;
}

static bool simulate_push(simulation *s, event e) {
  if (s->n_events == s->capacity) {
    size_t capacity = s->capacity == 0 ? 1024 : s->capacity * 2;
    event *heap = realloc(s->heap, capacity * sizeof *heap);
    if (heap == NULL) return false;
    s->heap = heap;
    s->capacity = capacity;
  }
  size_t at = s->n_events++;
  while (at > 0 && simulate_before(&e, &s->heap[(at - 1) / 2])) {
    s->heap[at] = s->heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  s->heap[at] = e;
  return true;
}

static event simulate_pop(simulation *s) {
  event top = s->heap[0], last = s->heap[--s->n_events];
  size_t at = 0, n = s->n_events;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= n) break;
    if (child + 1 < n && simulate_before(&s->heap[child + 1], &s->heap[child]))
      child++;
    if (simulate_before(&last, &s->heap[child])) break;
    s->heap[at] = s->heap[child];
    at = child;
  }
  s->heap[at] = last;
  return top;
}

/* ---- what happens -------------------------------------------------------- */

/* Occupies the processor from `at` or when it is free; returns the end. */
static picoseconds simulate_work(rank_state *r, picoseconds at,
                                 picoseconds cost) {
  r->cpu_free = simulate_later(at, r->cpu_free) + cost;
  return r->cpu_free;
}

static host_state *simulate_host_of(const simulation *s, uint32_t rank) {
  return &s->hosts[s->where == NULL ? 0 : s->where->of[rank]];
}

static bool is_inside(const simulation *s, uint32_t a, uint32_t b) {
  return simulate_host_of(s, a) == simulate_host_of(s, b);
}

static const gli_sim_link *simulate_link_of(const simulation *s, uint32_t a,
                                            uint32_t b) {
  return is_inside(s, a, b) ? &s->model->inside : &s->model->across;
}

/* Occupies a link for a message; returns when its first byte passes. */
static picoseconds simulate_pass(picoseconds *link_free, picoseconds at,
                                 picoseconds length, const gli_sim_link *link) {
  picoseconds first = simulate_later(at, *link_free);
  *link_free = first + length + simulate_ps(link->gap_ns);
  return first;
}

/* ---- memory of other ranks ----------------------------------------------- */

static bool simulate_reaches(const simulation *s, uint32_t a, uint32_t b) {
  return s->model->reach && is_inside(s, a, b);
}

/* Returns the bytes of a message that travel. */
static uint64_t bytes_sent(const simulation *s, uint32_t from, uint32_t to,
                           const gli_step *step) {
  if (!simulate_reaches(s, from, to)) return gli_step_wire_bytes(step);
  if (step->role == GLI_ROLE_EXPOSE_GET) return GLI_PLAN_RKEY_BYTES;
  bool written =
      step->role == GLI_ROLE_PUT && s->ranks[from].written[step->window];
  return written ? 0 : gli_step_wire_bytes(step);
}

static bool is_copy(const gli_step *step) {
  return step->kind == GLI_STEP_COPY || step->kind == GLI_STEP_COPY_GET ||
         step->kind == GLI_STEP_LOCAL_BCAST ||
         (step->kind == GLI_STEP_LOCAL_REDUCE && step->n == 1);
}

static picoseconds result_cost(const simulation *s, const gli_step *step) {
  if (step->kind == GLI_STEP_COPY && step->a_buffer == step->dst_buffer &&
      step->a == step->dst)
    return 0;
  if (is_copy(step)) return simulate_of_bytes(s->model->copy_ns, step->bytes);
  uint64_t n = gli_step_has_blocks(step)             ? step->n
               : step->kind == GLI_STEP_LOCAL_REDUCE ? step->n - 1
                                                     : 1;
  return n * simulate_of_bytes(s->model->reduce_ns, step->bytes);
}

/* Returns the time to copy or reduce, and to write the result. */
static picoseconds local_cost(const simulation *s, uint32_t rank,
                              const gli_step *step) {
  const rank_state *r = &s->ranks[rank];
  picoseconds cost = result_cost(s, step);
  for (uint32_t i = step->put; i < step->put + step->n_puts; i++) {
    if (r->exposers[i] == 0 || !simulate_reaches(s, rank, r->exposers[i] - 1))
      continue;
    cost += simulate_of_bytes(s->model->copy_ns, step->bytes);
  }
  return cost;
}

/* ---- steps --------------------------------------------------------------- */

static bool start_send(simulation *s, event e, const gli_step *step) {
  rank_state *r = &s->ranks[e.rank];
  uint32_t to = r->plan->peers[step->peer].rank;
  const gli_plan *other = s->ranks[to].plan;
  const gli_sim_link *link = simulate_link_of(s, e.rank, to);
  bool inside = is_inside(s, e.rank, to);
  uint64_t bytes = bytes_sent(s, e.rank, to, step);
  picoseconds length = simulate_of_bytes(link->per_byte_ns, bytes);
  picoseconds *out = &simulate_host_of(s, e.rank)->out_free;
  picoseconds posted = simulate_work(r, e.at, simulate_ps(link->overhead_ns));
  picoseconds first =
      simulate_pass(inside ? &r->out_free : out, posted, length, link);
  const gli_plan_peer *peer = &other->peers[gli_plan_find_peer(other, e.rank)];
  uint32_t recv = other->recv_steps[peer->first_recv + step->slot];
  s->ranks[to].steps[recv].bytes = bytes;
  s->report->messages++;
  *(inside ? &s->report->bytes_inside : &s->report->bytes_across) += bytes;
  return simulate_push(s, (event){first + length, e.rank, e.step, STEP_DONE}) &&
         simulate_push(s, (event){first + simulate_ps(link->latency_ns), to,
                                  recv, MESSAGE_ARRIVES});
}

static bool finish_recv(simulation *s, event e, const gli_step *step) {
  rank_state *r = &s->ranks[e.rank];
  uint32_t from = r->plan->peers[step->peer].rank;
  picoseconds cost =
      simulate_ps(simulate_link_of(s, e.rank, from)->overhead_ns);
  if (step->kind == GLI_STEP_RECV_REDUCE) {
    cost += local_cost(s, e.rank, step);
  }
  return simulate_push(
      s, (event){simulate_work(r, e.at, cost), e.rank, e.step, STEP_DONE});
}

static bool on_ready(simulation *s, event e) {
  rank_state *r = &s->ranks[e.rank];
  const gli_step *step = &r->plan->steps[e.step];
  if (step->kind == GLI_STEP_SEND) return start_send(s, e, step);
  if (step->peer != GLI_NO_PEER) {
    r->steps[e.step].is_ready = true;
    return !r->steps[e.step].is_in || finish_recv(s, e, step);
  }
  picoseconds cost = local_cost(s, e.rank, step);
  if (step->kind == GLI_STEP_LOCAL_BCAST) cost *= step->n;
  picoseconds end = simulate_work(r, e.at, cost);
  return simulate_push(s, (event){end, e.rank, e.step, STEP_DONE});
}

static bool on_arrives(simulation *s, event e) {
  rank_state *r = &s->ranks[e.rank];
  const gli_step *step = &r->plan->steps[e.step];
  uint32_t from = r->plan->peers[step->peer].rank;
  const gli_sim_link *link = simulate_link_of(s, e.rank, from);
  picoseconds *in = is_inside(s, e.rank, from)
                        ? &r->in_free
                        : &simulate_host_of(s, e.rank)->in_free;
  picoseconds length =
      simulate_of_bytes(link->per_byte_ns, r->steps[e.step].bytes);
  picoseconds first = simulate_pass(in, e.at, length, link);
  return simulate_push(s,
                       (event){first + length, e.rank, e.step, MESSAGE_IS_IN});
}

static bool on_is_in(simulation *s, event e) {
  rank_state *r = &s->ranks[e.rank];
  r->steps[e.step].is_in = true;
  if (!r->steps[e.step].is_ready) return true;
  return finish_recv(s, e, &r->plan->steps[e.step]);
}

static bool on_done(simulation *s, event e) {
  rank_state *r = &s->ranks[e.rank];
  const gli_plan *plan = r->plan;
  r->done = e.at;
  for (uint32_t i = plan->next_first[e.step]; i < plan->next_first[e.step + 1];
       i++) {
    uint32_t next = plan->next[i];
    if (--r->steps[next].waits > 0) continue;
    if (!simulate_push(s, (event){e.at, e.rank, next, STEP_READY}))
      return false;
  }
  return true;
}

static bool simulate_run(simulation *s, uint64_t *n_done) {
  static bool (*const on[])(simulation *, event) = {
      [STEP_READY] = on_ready,
      [MESSAGE_ARRIVES] = on_arrives,
      [MESSAGE_IS_IN] = on_is_in,
      [STEP_DONE] = on_done,
  };
  while (s->n_events > 0) {
    event e = simulate_pop(s);
    if (e.kind == STEP_DONE) (*n_done)++;
    if (!on[e.kind](s, e)) return false;
  }
  return true;
}

/* ---- setting up ---------------------------------------------------------- */

static bool link_ok(const gli_sim_link *l) {
  return l->latency_ns >= 0 && l->overhead_ns >= 0 && l->gap_ns >= 0 &&
         l->per_byte_ns >= 0;
}

static gloo_status check_model(const gli_sim_model *m, gloo_error *error) {
  if (!link_ok(&m->inside) || !link_ok(&m->across) || !(m->copy_ns >= 0) ||
      !(m->reduce_ns >= 0)) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the model has a negative time");
  }
  return GLOO_OK;
}

/* Allocates the notes of a rank's puts: the exposing rank of each, and whether
 * this rank writes it. Returns false if out of memory. */
static bool note_windows(rank_state *r) {
  const gli_plan *plan = r->plan;
  r->exposers = calloc((size_t)plan->n_windows + 1, sizeof *r->exposers);
  r->written = calloc((size_t)plan->n_windows + 1, sizeof *r->written);
  if (r->exposers == NULL || r->written == NULL) return false;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    if (s->kind == GLI_STEP_RECV && s->role == GLI_ROLE_EXPOSE_PUT) {
      r->exposers[s->window] = plan->peers[s->peer].rank + 1;
    }
    for (uint32_t k = 0; k < s->n_puts; k++) r->written[s->put + k] = true;
  }
  return true;
}

static gloo_status add_rank(simulation *s, gli_build_fn build,
                            const gli_plan_params *params, uint32_t rank,
                            gloo_error *error) {
  rank_state *r = &s->ranks[rank];
  gli_plan_params p = *params;
  p.rank = rank;
  if (p.counts != NULL) p.counts += rank;
  gloo_status status = gli_plan_make(build, &p, &r->plan, error);
  if (status != GLOO_OK) return status;
  uint32_t n = r->plan->n_steps;
  r->steps = calloc((size_t)n + 1, sizeof *r->steps);
  bool ok = r->steps != NULL && note_windows(r);
  for (uint32_t i = 0; i < n && ok; i++) {
    r->steps[i].waits = r->plan->n_deps[i];
    if (r->plan->n_deps[i] == 0) {
      ok = simulate_push(s, (event){0, rank, i, STEP_READY});
    }
  }
  if (ok) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for simulating %u ranks", s->size);
}

/* Every send must have its receive, because events look it up. */
static gloo_status check_fit(const simulation *s, gloo_error *error) {
  for (uint32_t rank = 0; rank < s->size; rank++) {
    const gli_plan *plan = s->ranks[rank].plan;
    for (uint32_t i = 0; i < plan->n_peers; i++) {
      const gli_plan_peer *peer = &plan->peers[i];
      const gli_plan *other = s->ranks[peer->rank].plan;
      uint32_t at = gli_plan_find_peer(other, rank);
      uint32_t recvs = at == GLI_NO_PEER ? 0 : other->peers[at].recvs;
      if (peer->sends <= recvs) continue;
      return gli_fail(error, GLOO_ERR_INTERNAL, (int)rank,
                      "rank %u sends %u messages to rank %u, which receives "
                      "%u: check the algorithm before it is simulated",
                      rank, peer->sends, peer->rank, recvs);
    }
  }
  return GLOO_OK;
}

static gloo_status set_up(simulation *s, gli_build_fn build,
                          const gli_plan_params *params, uint64_t *n_steps,
                          gloo_error *error) {
  uint32_t hosts = s->where == NULL ? 1 : s->where->n;
  s->ranks = calloc(s->size, sizeof *s->ranks);
  s->hosts = calloc(hosts, sizeof *s->hosts);
  if (s->ranks == NULL || s->hosts == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for simulating %u ranks", s->size);
  }
  for (uint32_t i = 0; i < s->size; i++) {
    gloo_status status = add_rank(s, build, params, i, error);
    if (status != GLOO_OK) return status;
    *n_steps += s->ranks[i].plan->n_steps;
    if (*n_steps > MAX_STEPS) {
      return gli_fail(
          error, GLOO_ERR_INVALID, -1,
          "the plans of %u ranks have more than %llu steps in all, too many to "
          "simulate; use fewer ranks or longer segments",
          s->size, (unsigned long long)MAX_STEPS);
    }
  }
  return check_fit(s, error);
}

static void tear_down(simulation *s) {
  for (uint32_t i = 0; s->ranks != NULL && i < s->size; i++) {
    gli_plan_free(s->ranks[i].plan);
    free(s->ranks[i].steps);
    free(s->ranks[i].exposers);
    free(s->ranks[i].written);
  }
  free(s->ranks);
  free(s->hosts);
  free(s->heap);
}

/* ---- interface ----------------------------------------------------------- */

static void simulate_summarise(const simulation *s, double *done_ns) {
  picoseconds first = UINT64_MAX, last = 0;
  for (uint32_t i = 0; i < s->size; i++) {
    picoseconds done = s->ranks[i].done;
    if (done < first) first = done;
    if (done > last) last = done;
    if (done_ns != NULL) done_ns[i] = (double)done / 1000;
  }
  s->report->first_done_ns = (double)first / 1000;
  s->report->total_ns = (double)last / 1000;
}

gloo_status gli_simulate(gli_build_fn build, const gli_plan_params *params,
                         const gli_sim_model *model, gli_sim_report *report,
                         double *done_ns, gloo_error *error) {
  gloo_status status = check_model(model, error);
  if (status != GLOO_OK) return status;
  if (params->size == 0) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "no ranks to simulate");
  }
  *report = (gli_sim_report){0};
  if (params->hosts != NULL && params->hosts->size != params->size) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the hosts describe %u ranks, not %u", params->hosts->size,
                    params->size);
  }
  simulation s = {.model = model,
                  .where = params->hosts,
                  .size = params->size,
                  .report = report};
  uint64_t n_steps = 0, n_done = 0;
  status = set_up(&s, build, params, &n_steps, error);
  if (status == GLOO_OK && !simulate_run(&s, &n_done)) {
    status = gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "out of memory for simulating %u ranks", s.size);
  }
  if (status == GLOO_OK && n_done != n_steps) {
    status = gli_fail(error, GLOO_ERR_INTERNAL, -1,
                      "%llu of %llu steps can never run: check the algorithm "
                      "before it is simulated",
                      (unsigned long long)(n_steps - n_done),
                      (unsigned long long)n_steps);
  }
  if (status == GLOO_OK) simulate_summarise(&s, done_ns);
  tear_down(&s);
  return status;
}
