/* The rules for memory of other ranks, checked on the rank that reads or writes
 * it. check_content.c checks the content; this file checks that the steps form
 * a consistent sequence. */
#include <stdlib.h>

#include "proof/check_internal.h"

#define NONE UINT32_MAX

/* Steps are stored as number + 1; 0: none yet. */
typedef struct window {
  uint32_t made; /* RECV of the get or the put */
  uint32_t used; /* step that reads the get or writes the put */
  uint32_t tie;
  bool given; /* true once the put is given back */
} window;

/* Content of a span of memory. */
typedef struct span {
  uint32_t get;    /* number + 1 of the get that was received into it */
  uint32_t result; /* number + 1 of the step that reads gets and wrote it */
} span;

typedef struct pass {
  gli_checker *c;
  uint32_t rank;
  const gli_step *steps;
  uint32_t n;
  window *windows;
  uint32_t n_windows;
  uint32_t *pending; /* [n] number of puts with its result not given back */
  uint32_t *ties;    /* [n] tie of a RECV_REDUCE that takes a get */
  check_spans map;
  span *spans;
} pass;

/* Reports that step i is wrong. */
static gloo_status check_gets_fail(const pass *p, uint32_t i, const char *what,
                                   uint32_t number) {
  gli_step s = p->steps[i];
  if (s.peer != GLI_NO_PEER) s.peer = p->c->builder.peers[s.peer].rank;
  return gli_check_fail(p->c, p->rank, i, &s, what, number);
}

static bool is_put(const pass *p, const window *x) {
  return p->steps[x->made - 1].role == GLI_ROLE_EXPOSE_PUT;
}

/* ---- what steps touch ---------------------------------------------------- */

int gli_check_touches(const gli_step *s, check_touch out[CHECK_TOUCHES]) {
  if (s->role == GLI_ROLE_EXPOSE_PUT || s->role == GLI_ROLE_SIGNAL) return 0;
  int n = 0;
  if (s->kind != GLI_STEP_RECV && s->kind != GLI_STEP_COPY_GET) {
    out[n++] = (check_touch){s->a, s->bytes, s->a_buffer, false};
  }
  if (s->kind == GLI_STEP_REDUCE_MANY) {
    uint64_t bytes = (s->n - 1) * s->stride + s->bytes;
    out[n++] = (check_touch){s->b, bytes, s->b_buffer, false};
  }
  if (s->kind == GLI_STEP_REDUCE) {
    out[n++] = (check_touch){s->b, s->bytes, s->b_buffer, false};
  }
  if (s->kind != GLI_STEP_SEND) {
    out[n++] = (check_touch){s->dst, s->bytes, s->dst_buffer, true};
  }
  return n;
}

/* ---- ties ---------------------------------------------------------------- */

static bool add_tie(pass *p, const gli_step *s, bool put, uint32_t step) {
  check_rank *r = &p->c->ranks[p->rank];
  if (r->n_ties == r->tie_capacity) {
    size_t capacity = r->tie_capacity == 0 ? 16 : r->tie_capacity * 2;
    check_tie *ties = realloc(r->ties, capacity * sizeof *ties);
    if (ties == NULL) return false;
    r->ties = ties;
    r->tie_capacity = capacity;
  }
  r->ties[r->n_ties++] = (check_tie){s->peer, s->slot, step, NONE, put};
  return true;
}

/* Message `slot` tells the peer that step w has finished with its gets. */
static void give_back_gets_of(pass *p, uint32_t w, uint32_t peer,
                              uint32_t slot) {
  check_tie *ties = p->c->ranks[p->rank].ties;
  const gli_step *s = &p->steps[w];
  bool taken = s->kind == GLI_STEP_RECV_REDUCE; /* reduced as it arrives */
  uint32_t n = taken ? 1 : gli_step_gets(s);
  for (uint32_t k = 0; k < n; k++) {
    check_tie *t =
        taken ? &ties[p->ties[w]] : &ties[p->windows[s->window + k].tie];
    if (t->peer == peer && t->back == NONE) t->back = slot;
  }
}

/* A message follows the steps that wrote its range, and so their reads. */
static void give_back_gets(pass *p, const gli_step *s) {
  check_touch range = {s->a, s->bytes, s->a_buffer, false};
  size_t from, to;
  gli_check_spans_of(&p->map, &range, &from, &to);
  for (uint32_t last = 0; from < to; from++) {
    uint32_t result = p->spans[from].result;
    if (result == 0 || result == last) continue;
    give_back_gets_of(p, result - 1, s->peer, s->slot);
    last = result;
  }
}

static int by_message(const void *a, const void *b) {
  const check_tie *x = a, *y = b;
  if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
  return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* Sorts the ties for look-up by other ranks. */
static void sort_ties(pass *p) {
  check_rank *r = &p->c->ranks[p->rank];
  for (size_t k = 0; k < r->n_ties; k++) {
    r->ties[k].peer = p->c->builder.peers[r->ties[k].peer].rank;
  }
  if (r->n_ties > 0) qsort(r->ties, r->n_ties, sizeof *r->ties, by_message);
}

const check_tie *gli_check_find_tie(const gli_checker *c, uint32_t rank,
                                    uint32_t peer, uint32_t slot) {
  const check_rank *r = &c->ranks[rank];
  check_tie key = {.peer = peer, .slot = slot};
  if (r->n_ties == 0) return NULL;
  return bsearch(&key, r->ties, r->n_ties, sizeof key, by_message);
}

/* ---- memory of this rank ------------------------------------------------- */

/* Returns true if the result of step w is in scratch memory that holds it only
 * until the puts of w are given back, and not at all if every put is mapped. */
static bool check_gets_is_spare(const pass *p, uint32_t w) {
  const gli_step *s = &p->steps[w];
  return s->dst_buffer == GLI_SCRATCH && s->n_puts > 0;
}

/* The scratch memory of a get holds its bytes only if memory is not mapped. A
 * put and the result it came from must stay equal. */
static gloo_status touch_span(pass *p, uint32_t i, bool writes, span *x) {
  if (x->get != 0 && !writes) {
    return check_gets_fail(p, i, "reads what was received as get %u",
                           x->get - 1);
  }
  if (!writes && x->result != 0 && check_gets_is_spare(p, x->result - 1) &&
      p->steps[i].role != GLI_ROLE_PUT) {
    return check_gets_fail(
        p, i, "reads the result of step %u, which only puts may use",
        x->result - 1);
  }
  if (!writes) return GLOO_OK;
  if (x->get != 0 && p->windows[x->get - 1].used == 0) {
    return check_gets_fail(p, i, "overwrites get %u before it was read",
                           x->get - 1);
  }
  if (x->result != 0 && p->pending[x->result - 1] > 0) {
    return check_gets_fail(p, i,
                           "overwrites the result of step %u before the put "
                           "that uses it is returned",
                           x->result - 1);
  }
  *x = (span){0};
  return GLOO_OK;
}

static gloo_status check_gets_touch(pass *p, uint32_t i) {
  check_touch at[CHECK_TOUCHES];
  int n = gli_check_touches(&p->steps[i], at);
  for (int k = 0; k < n; k++) {
    size_t from, to;
    gli_check_spans_of(&p->map, &at[k], &from, &to);
    for (; from < to; from++) {
      gloo_status status = touch_span(p, i, at[k].writes, &p->spans[from]);
      if (status != GLOO_OK) return status;
    }
  }
  return GLOO_OK;
}

/* Notes that the range written by step i now holds a get or a result. */
static void check_gets_hold(pass *p, uint32_t i, span what) {
  const gli_step *s = &p->steps[i];
  check_touch dst = {s->dst, s->bytes, s->dst_buffer, true};
  size_t from, to;
  gli_check_spans_of(&p->map, &dst, &from, &to);
  for (; from < to; from++) p->spans[from] = what;
}

/* ---- places -------------------------------------------------------------- */

static gloo_status make_window(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  window *x = &p->windows[s->window];
  if (x->made != 0)
    return check_gets_fail(p, i, "window %u is already in use", s->window);
  x->made = i + 1;
  if (s->role == GLI_ROLE_EXPOSE_GET)
    check_gets_hold(p, i, (span){.get = s->window + 1});
  x->tie = (uint32_t)p->c->ranks[p->rank].n_ties;
  if (add_tie(p, s, s->role == GLI_ROLE_EXPOSE_PUT, NONE)) return GLOO_OK;
  return gli_check_no_memory(p->c);
}

static gloo_status read_get(pass *p, uint32_t i, uint32_t k) {
  const gli_step *s = &p->steps[i];
  uint32_t number = s->window + k;
  window *x = &p->windows[number];
  if (x->made == 0 || is_put(p, x)) {
    return check_gets_fail(p, i, "reads get %u, which it has not received",
                           number);
  }
  const gli_step *made = &p->steps[x->made - 1];
  if (x->used != 0)
    return check_gets_fail(p, i, "get %u is read twice", number);
  uint64_t at = s->kind == GLI_STEP_COPY_GET ? s->a : s->b + k * s->stride;
  if (made->dst != at || made->bytes != s->bytes) {
    return check_gets_fail(p, i, "get %u was received elsewhere", number);
  }
  x->used = i + 1;
  p->c->ranks[p->rank].ties[x->tie].step = i;
  return GLOO_OK;
}

static gloo_status write_put(pass *p, uint32_t i, uint32_t number) {
  window *x = &p->windows[number];
  if (x->made == 0 || !is_put(p, x)) {
    return check_gets_fail(p, i, "writes put %u, which was not exposed to it",
                           number);
  }
  if (x->given)
    return check_gets_fail(p, i, "put %u was already returned", number);
  if (x->used != 0)
    return check_gets_fail(p, i, "put %u is written twice", number);
  if (p->steps[x->made - 1].bytes != p->steps[i].bytes) {
    return check_gets_fail(p, i, "put %u has a different length", number);
  }
  x->used = i + 1;
  p->pending[i]++;
  p->c->ranks[p->rank].ties[x->tie].step = i;
  return GLOO_OK;
}

static gloo_status give_back_put(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  window *x = &p->windows[s->window];
  if (x->made == 0 || !is_put(p, x)) {
    return check_gets_fail(p, i, "returns put %u, which was not exposed to it",
                           s->window);
  }
  if (x->given) return check_gets_fail(p, i, "returns put %u twice", s->window);
  const gli_step *made = &p->steps[x->made - 1];
  if (made->peer != s->peer) {
    return check_gets_fail(p, i, "returns put %u to the wrong rank", s->window);
  }
  const gli_step *writer = x->used == 0 ? NULL : &p->steps[x->used - 1];
  bool other = made->bytes != s->bytes;
  if (writer != NULL) {
    other = other || writer->dst_buffer != s->a_buffer || writer->dst != s->a;
  }
  if (other) {
    return check_gets_fail(
        p, i, "returns put %u with different bytes than were written",
        s->window);
  }
  x->given = true;
  if (x->used != 0) p->pending[x->used - 1]--;
  p->c->ranks[p->rank].ties[x->tie].back = s->slot;
  return GLOO_OK;
}

/* ---- the pass ------------------------------------------------------------ */

static gloo_status use_windows(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  gloo_status status = GLOO_OK;
  if (s->kind == GLI_STEP_RECV &&
      (s->role == GLI_ROLE_EXPOSE_GET || s->role == GLI_ROLE_EXPOSE_PUT)) {
    return make_window(p, i);
  }
  if (s->kind == GLI_STEP_SEND) {
    if (s->role == GLI_ROLE_PUT) status = give_back_put(p, i);
    if (s->role == GLI_ROLE_PUT || s->role == GLI_ROLE_SIGNAL) {
      give_back_gets(p, s);
    }
    return status;
  }
  bool takes_get =
      s->kind == GLI_STEP_RECV_REDUCE && s->role == GLI_ROLE_EXPOSE_GET;
  if (takes_get || gli_step_gets(s) > 0 || s->n_puts > 0) {
    check_gets_hold(p, i, (span){.result = i + 1});
  }
  if (takes_get) {
    p->ties[i] = (uint32_t)p->c->ranks[p->rank].n_ties;
    if (!add_tie(p, s, false, i)) return gli_check_no_memory(p->c);
  }
  for (uint32_t k = 0; k < gli_step_gets(s) && status == GLOO_OK; k++) {
    status = read_get(p, i, k);
  }
  for (uint32_t k = 0; k < s->n_puts && status == GLOO_OK; k++) {
    status = write_put(p, i, s->put + k);
  }
  return status;
}

static gloo_status check_gets_walk(pass *p) {
  for (uint32_t i = 0; i < p->n; i++) {
    gloo_status status = check_gets_touch(p, i);
    if (status == GLOO_OK) status = use_windows(p, i);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

static gloo_status check_ends(pass *p) {
  const check_rank *r = &p->c->ranks[p->rank];
  for (uint32_t k = 0; k < p->n_windows; k++) {
    const window *x = &p->windows[k];
    if (x->made == 0) continue;
    if (is_put(p, x) && !x->given) {
      return check_gets_fail(p, x->made - 1, "put %u is never returned", k);
    }
    if (!is_put(p, x) && x->used == 0) {
      return check_gets_fail(p, x->made - 1, "get %u is never read", k);
    }
  }
  for (size_t k = 0; k < r->n_ties; k++) {
    const check_tie *t = &r->ties[k];
    if (t->put || t->back != NONE) continue;
    uint32_t peer = p->c->builder.peers[t->peer].rank;
    return check_gets_fail(p, t->step,
                           "rank %u never learns that its get was read", peer);
  }
  return GLOO_OK;
}

gloo_status gli_check_gets(gli_checker *c, uint32_t rank) {
  c->ranks[rank].n_ties = 0;
  gloo_status status = gli_check_collect(c, rank);
  if (status != GLOO_OK) return status;
  pass p = {.c = c,
            .rank = rank,
            .steps = c->builder.steps,
            .n = (uint32_t)c->builder.n_steps,
            .n_windows = c->builder.n_windows};
  bool ok = gli_check_spans_make(&p.map, p.steps, p.n);
  p.windows = calloc((size_t)p.n_windows + 1, sizeof *p.windows);
  p.pending = calloc((size_t)p.n + 1, sizeof *p.pending);
  p.ties = calloc((size_t)p.n + 1, sizeof *p.ties);
  p.spans = calloc(p.map.n[0] + p.map.n[1] + 1, sizeof *p.spans);
  ok = ok && p.windows != NULL && p.pending != NULL && p.ties != NULL &&
       p.spans != NULL;
  status = ok ? check_gets_walk(&p) : gli_check_no_memory(c);
  if (status == GLOO_OK) status = check_ends(&p);
  if (status == GLOO_OK) sort_ties(&p);
  gli_check_spans_free(&p.map);
  free(p.windows);
  free(p.pending);
  free(p.ties);
  free(p.spans);
  return status;
}
