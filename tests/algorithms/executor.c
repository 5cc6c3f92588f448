#include "executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

uint64_t world_random(uint64_t *state) { /* splitmix64, Steele et al. 2014 */
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* ---- life ---------------------------------------------------------------- */

static void *allocate(uint64_t bytes) {
  void *memory = malloc(bytes == 0 ? 1 : (size_t)bytes);
  if (memory == NULL) abort();
  return memory;
}

static uint8_t *random_bytes(uint64_t bytes, uint64_t *seed) {
  uint8_t *memory = allocate(bytes);
  for (uint64_t i = 0; i < bytes; i += 8) {
    uint64_t value = world_random(seed);
    memcpy(memory + i, &value, bytes - i < 8 ? (size_t)(bytes - i) : 8);
  }
  return memory;
}

/* Returns true if the rank's input can be in its output: for a gather only at
 * the root. */
static bool has_place(const gli_plan_params *p) {
  bool gathers = p->collective == GLI_GATHER || p->collective == GLI_GATHERV;
  return !gathers || p->rank == p->root;
}

bool world_open(world *w, gli_build_fn build, gli_plan_params params,
                world_layout layout, uint64_t seed) {
  const gli_counts *counts = params.counts; /* of all ranks */
  *w = (world){.size = params.size};
  w->ranks = calloc(params.size, sizeof(*w->ranks));
  if (w->ranks == NULL) abort();
  for (params.rank = 0; params.rank < params.size; params.rank++) {
    world_rank *r = &w->ranks[params.rank];
    gloo_error error;
    params.in_place =
        layout == WORLD_MIXED ? params.rank % 2 != 0 : layout == WORLD_IN_PLACE;
    if (counts != NULL) params.counts = &counts[params.rank];
    if (!has_place(&params)) params.in_place = false;
    if (gli_plan_make(build, &params, &r->plan, &error) != GLOO_OK) {
      printf("# no plan: %s\n", error.message);
      world_close(w);
      return false;
    }
    uint64_t words = (uint64_t)r->plan->n_steps * sizeof(uint32_t);
    r->in = random_bytes(r->plan->in_bytes, &seed);
    r->out = random_bytes(r->plan->out_bytes, &seed);
    r->scratch = random_bytes(r->plan->scratch_bytes, &seed);
    r->send_of = allocate(words);
    r->waits_for = allocate(words);
    r->depth = allocate(words);
    r->windows = allocate(r->plan->n_windows * sizeof(*r->windows));
    r->written = allocate(r->plan->n_windows * sizeof(*r->written));
  }
  return true;
}

void world_close(world *w) {
  for (uint32_t i = 0; i < w->size; i++) {
    world_rank *r = &w->ranks[i];
    gli_plan_free(r->plan);
    free(r->in);
    free(r->out);
    free(r->scratch);
    free(r->send_of);
    free(r->waits_for);
    free(r->depth);
    free(r->windows);
    free(r->written);
  }
  free(w->ranks);
}

/* ---- running ------------------------------------------------------------- */

#define POSTED \
  UINT32_MAX /* in waits_for: a receive that waits for its send \
              */

/* An event that is possible now: a local step, or the message of a receive. */
typedef struct event {
  uint32_t rank, step;
} event;

typedef struct run {
  world *w;
  gli_reduce_fn reduce;
  uint32_t held_back;
  event *events;
  size_t n_events;
  uint64_t seed;
  bool broken;
} run;

static uint8_t *at(const world_rank *r, uint8_t buffer, uint64_t offset,
                   uint64_t bytes) {
  uint8_t *const memory[GLI_TOKEN] = {
      [GLI_IN] = r->in, [GLI_OUT] = r->out, [GLI_SCRATCH] = r->scratch};
  const uint64_t limits[GLI_TOKEN] = {[GLI_IN] = r->plan->in_bytes,
                                      [GLI_OUT] = r->plan->out_bytes,
                                      [GLI_SCRATCH] = r->plan->scratch_bytes};
  bool fine = buffer < GLI_TOKEN && buffer != GLI_INS &&
              gli_in_bounds(offset, bytes, limits[buffer]);
  if (fine && !(buffer == GLI_IN && r->plan->params.in_place))
    return memory[buffer] + offset;
  printf("# rank %u leaves buffer %u\n", r->plan->params.rank, buffer);
  abort();
}

static void offer(run *x, uint32_t rank, uint32_t step) {
  x->events[x->n_events++] = (event){rank, step};
}

/* Finds the receive that matches a send. Returns false if none fits. */
static bool match(const world *w, uint32_t rank, uint32_t send, event *recv) {
  const gli_plan *from = w->ranks[rank].plan;
  const gli_step *s = &from->steps[send];
  recv->rank = from->peers[s->peer].rank;
  const gli_plan *to = w->ranks[recv->rank].plan;
  uint32_t peer = gli_plan_find_peer(to, rank);
  if (peer == GLI_NO_PEER || s->slot >= to->peers[peer].recvs) return false;
  recv->step = to->recv_steps[to->peers[peer].first_recv + s->slot];
  const gli_step *r = &to->steps[recv->step];
  return gli_step_wire_bytes(r) == gli_step_wire_bytes(s) && r->role == s->role;
}

static void become_ready(run *x, uint32_t rank, uint32_t step) {
  world_rank *r = &x->w->ranks[rank];
  if (rank == x->held_back) return;
  event recv;
  switch (r->plan->steps[step].kind) {
    case GLI_STEP_SEND:
      if (!match(x->w, rank, step, &recv)) {
        printf("# step %u of rank %u sends what rank %u does not receive\n",
               step, rank, recv.rank);
        x->broken = true;
        return;
      }
      x->w->ranks[recv.rank].send_of[recv.step] = step + 1;
      if (x->w->ranks[recv.rank].waits_for[recv.step] == POSTED)
        offer(x, recv.rank, recv.step);
      return;
    case GLI_STEP_RECV:
    case GLI_STEP_RECV_REDUCE:
      r->waits_for[step] = POSTED;
      if (r->send_of[step] != 0) offer(x, rank, step);
      return;
    default:
      offer(x, rank, step);
  }
}

static void finish(run *x, uint32_t rank, uint32_t step) {
  world_rank *r = &x->w->ranks[rank];
  const gli_plan *plan = r->plan;
  r->n_done++;
  if (r->depth[step] > x->w->depth) x->w->depth = r->depth[step];
  for (uint32_t i = plan->next_first[step]; i < plan->next_first[step + 1];
       i++) {
    uint32_t next = plan->next[i];
    if (r->depth[next] < r->depth[step]) r->depth[next] = r->depth[step];
    if (--r->waits_for[next] == 0) become_ready(x, rank, next);
  }
}

static size_t elements(const world_rank *r, const gli_step *s) {
  return (size_t)(s->bytes / r->plan->params.elem_bytes);
}

/* Copies the result to the puts that are mapped; if all are, it is not in
 * SCRATCH. */
static void write_puts(world_rank *r, const gli_step *s) {
  uint32_t n = 0;
  for (uint32_t i = s->put; i < s->put + s->n_puts; i++) {
    if (r->windows[i] == NULL) continue;
    memcpy(r->windows[i], at(r, s->dst_buffer, s->dst, s->bytes),
           (size_t)s->bytes);
    r->written[i] = true;
    n++;
  }
  if (n > 0 && n == s->n_puts && s->dst_buffer == GLI_SCRATCH) {
    memset(at(r, s->dst_buffer, s->dst, s->bytes), 0xee, (size_t)s->bytes);
  }
}

/* Returns operand i of a step with several. */
static const uint8_t *operand(const world_rank *r, const gli_step *s,
                              uint32_t i) {
  uint32_t k = i < s->own ? i : i - 1;
  if (i == s->own) return at(r, s->a_buffer, s->a, s->bytes);
  if (s->kind == GLI_STEP_REDUCE_ALL) return r->windows[s->window + k];
  return at(r, s->b_buffer, s->b + k * s->stride, s->bytes);
}

/* Reduces into a temporary buffer, because a get and the result may share
 * memory. */
static void take_reduce_all(run *x, world_rank *r, const gli_step *s) {
  uint8_t *sum = allocate(s->bytes);
  const void **from = allocate((s->n + (uint64_t)1) * sizeof(*from));
  for (uint32_t i = 0; i <= s->n; i++) from[i] = operand(r, s, i);
  if (x->w->combine != NULL) {
    void *dst = sum;
    x->w->combine(&dst, 1, from, s->n + (size_t)1, elements(r, s), false);
  } else {
    memcpy(sum, from[0], (size_t)s->bytes);
    for (uint32_t i = 1; i <= s->n; i++)
      x->reduce(sum, sum, from[i], elements(r, s));
  }
  memcpy(at(r, s->dst_buffer, s->dst, s->bytes), sum, (size_t)s->bytes);
  free(from);
  free(sum);
  write_puts(r, s);
}

static void take_local(run *x, uint32_t rank, uint32_t step) {
  world_rank *r = &x->w->ranks[rank];
  const gli_step *s = &r->plan->steps[step];
  if (gli_step_has_blocks(s)) {
    take_reduce_all(x, r, s);
    return;
  }
  uint8_t *dst = at(r, s->dst_buffer, s->dst, s->bytes);
  const uint8_t *a = at(r, s->a_buffer, s->a, s->bytes);
  if (s->kind == GLI_STEP_COPY || s->kind == GLI_STEP_COPY_GET) {
    if (s->kind == GLI_STEP_COPY_GET) a = r->windows[s->window];
    memmove(dst, a, (size_t)s->bytes);
    write_puts(r, s);
  } else {
    x->reduce(dst, a, at(r, s->b_buffer, s->b, s->bytes), elements(r, s));
  }
}

static bool reaches(run *x) {
  if (x->w->reach != WORLD_MIXES) return x->w->reach == WORLD_MAPS;
  return world_random(&x->seed) % 2 != 0;
}

static void take_bytes(run *x, world_rank *r, const gli_step *s,
                       const uint8_t *src) {
  uint8_t *dst = at(r, s->dst_buffer, s->dst, s->bytes);
  if (s->kind == GLI_STEP_RECV) {
    memcpy(dst, src, (size_t)s->bytes);
    return;
  }
  const uint8_t *local = at(r, s->a_buffer, s->a, s->bytes);
  x->reduce(dst, s->incoming_first ? src : local,
            s->incoming_first ? local : src, elements(r, s));
  write_puts(r, s);
}

/* Takes the payload of a message; m is the sending step. */
static void take_payload(run *x, world_rank *r, const gli_step *s,
                         const world_rank *sender, const gli_step *m) {
  if (s->role == GLI_ROLE_SIGNAL || m->a_buffer == GLI_TOKEN) return;
  uint8_t *src = at(sender, m->a_buffer, m->a, m->bytes);
  if (s->role == GLI_ROLE_EXPOSE_PUT) {
    r->windows[s->window] = reaches(x) ? src : NULL;
    r->written[s->window] = false;
    return;
  }
  if (s->role == GLI_ROLE_PUT && sender->written[m->window]) return;
  bool get = s->role == GLI_ROLE_EXPOSE_GET && s->kind == GLI_STEP_RECV;
  bool looks = get && reaches(x);
  if (!looks) take_bytes(x, r, s, src);
  if (!get) return;
  r->windows[s->window] = looks ? src : at(r, s->dst_buffer, s->dst, s->bytes);
}

static void take_message(run *x, uint32_t rank, uint32_t step) {
  world_rank *r = &x->w->ranks[rank];
  const gli_step *s = &r->plan->steps[step];
  uint32_t from = r->plan->peers[s->peer].rank, send = r->send_of[step] - 1;
  world_rank *sender = &x->w->ranks[from];
  const gli_step *m = &sender->plan->steps[send];
  if (sender->depth[send] + 1 > r->depth[step])
    r->depth[step] = sender->depth[send] + 1;
  take_payload(x, r, s, sender, m);
  finish(x, from, send);
}

static void report_stuck(const world *w) {
  for (uint32_t i = 0; i < w->size; i++) {
    const world_rank *r = &w->ranks[i];
    if (r->n_done == r->plan->n_steps) continue;
    printf("# rank %u took %u of %u steps\n", i, r->n_done, r->plan->n_steps);
    return;
  }
}

bool world_run(world *w, gli_reduce_fn reduce, uint32_t held_back,
               uint64_t seed) {
  size_t n_steps = 0, n_done = 0;
  w->depth = 0;
  w->moved_bytes_max = 0;
  for (uint32_t i = 0; i < w->size; i++) {
    world_rank *r = &w->ranks[i];
    size_t words = r->plan->n_steps * sizeof(uint32_t);
    n_steps += r->plan->n_steps;
    memcpy(r->waits_for, r->plan->n_deps, words);
    memset(r->send_of, 0, words);
    memset(r->depth, 0, words);
    r->n_done = 0;
    uint64_t sent = 0;
    for (uint32_t k = 0; k < r->plan->n_peers; k++)
      sent += r->plan->peers[k].send_bytes;
    if (sent > w->moved_bytes_max) w->moved_bytes_max = sent;
  }
  run x = {.w = w, .reduce = reduce, .held_back = held_back, .seed = seed};
  x.events = allocate(n_steps * sizeof(*x.events));
  for (uint32_t i = 0; i < w->size; i++) {
    for (uint32_t k = 0; k < w->ranks[i].plan->n_steps; k++)
      if (w->ranks[i].plan->n_deps[k] == 0) become_ready(&x, i, k);
  }
  while (x.n_events != 0 && !x.broken) {
    event *drawn = &x.events[world_random(&seed) % x.n_events], e = *drawn;
    *drawn = x.events[--x.n_events];
    bool local = w->ranks[e.rank].plan->steps[e.step].peer == GLI_NO_PEER;
    (local ? take_local : take_message)(&x, e.rank, e.step);
    finish(&x, e.rank, e.step);
  }
  free(x.events);
  for (uint32_t i = 0; i < w->size; i++) n_done += w->ranks[i].n_done;
  if (n_done == n_steps) return true;
  if (held_back == WORLD_ALL) report_stuck(w);
  return false;
}
