/* The rules for memory of other ranks, on the side of who looks at it or writes
 * to it. What steps find there is the business of check_content.c: here they
 * only have to say the same about it, in order. */
#include <stdlib.h>

#include "plan/check_internal.h"

#define NONE UINT32_MAX

/* Steps are numbers + 1; 0: none yet. */
typedef struct place {
  uint32_t made; /* the RECV of the view or the loan */
  uint32_t used; /* what reads the view or writes the loan */
  uint32_t tie;
  bool given; /* the loan is given back */
} place;

/* What a span of memory holds: */
typedef struct span {
  uint32_t view;   /* number + 1: what stands for a view */
  uint32_t result; /* step + 1: of one that reads views */
} span;

typedef struct pass {
  gli_checker *c;
  uint32_t rank;
  const gli_step *steps;
  uint32_t n;
  place *places;
  uint32_t n_places;
  uint32_t *pending; /* [n] how many loans with its result are not given back */
  uint32_t *ties;    /* [n] of a RECV_REDUCE that takes a view */
  check_spans map;
  span *spans;
} pass;

/* Report that step i is wrong. */
static gloo_status fail(const pass *p, uint32_t i, const char *what,
                        uint32_t number) {
  gli_step s = p->steps[i];
  if (s.peer != GLI_NO_PEER) s.peer = p->c->builder.peers[s.peer].rank;
  return gli_check_fail(p->c, p->rank, i, &s, what, number);
}

static bool is_loan(const pass *p, const place *x) {
  return p->steps[x->made - 1].role == GLI_ROLE_LEND;
}

/* ---- what steps touch --------------------------------------------------- */

int gli_check_touches(const gli_step *s, check_touch out[CHECK_TOUCHES]) {
  if (s->role == GLI_ROLE_LEND || s->role == GLI_ROLE_SIGNAL) return 0;
  int n = 0;
  if (s->kind != GLI_STEP_RECV && s->kind != GLI_STEP_COPY_VIEW) {
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

/* ---- ties --------------------------------------------------------------- */

static bool add_tie(pass *p, const gli_step *s, bool loan, uint32_t step) {
  check_rank *r = &p->c->ranks[p->rank];
  if (r->n_ties == r->tie_capacity) {
    size_t capacity = r->tie_capacity == 0 ? 16 : r->tie_capacity * 2;
    check_tie *ties = realloc(r->ties, capacity * sizeof(*ties));
    if (ties == NULL) return false;
    r->ties = ties;
    r->tie_capacity = capacity;
  }
  r->ties[r->n_ties++] = (check_tie){s->peer, s->slot, step, NONE, loan};
  return true;
}

/* The peer hears with message `slot` that step w is done with its views. */
static void give_back_views_of(pass *p, uint32_t w, uint32_t peer,
                               uint32_t slot) {
  check_tie *ties = p->c->ranks[p->rank].ties;
  const gli_step *s = &p->steps[w];
  bool taken = s->kind == GLI_STEP_RECV_REDUCE; /* as it came */
  uint32_t n = taken ? 1 : gli_step_views(s);
  for (uint32_t k = 0; k < n; k++) {
    check_tie *t =
        taken ? &ties[p->ties[w]] : &ties[p->places[s->place + k].tie];
    if (t->peer == peer && t->back == NONE) t->back = slot;
  }
}

/* A message comes after whatever wrote its range, and so after that was done
 * with what it looked at. */
static void give_back_views(pass *p, const gli_step *s) {
  check_touch range = {s->a, s->bytes, s->a_buffer, false};
  size_t from, to;
  gli_check_spans_of(&p->map, &range, &from, &to);
  for (uint32_t last = 0; from < to; from++) {
    uint32_t result = p->spans[from].result;
    if (result == 0 || result == last) continue;
    give_back_views_of(p, result - 1, s->peer, s->slot);
    last = result;
  }
}

static int by_message(const void *a, const void *b) {
  const check_tie *x = a, *y = b;
  if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
  return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* Ready to be looked up by other ranks. */
static void sort_ties(pass *p) {
  check_rank *r = &p->c->ranks[p->rank];
  for (size_t k = 0; k < r->n_ties; k++) {
    r->ties[k].peer = p->c->builder.peers[r->ties[k].peer].rank;
  }
  if (r->n_ties > 0) qsort(r->ties, r->n_ties, sizeof(*r->ties), by_message);
}

const check_tie *gli_check_find_tie(const gli_checker *c, uint32_t rank,
                                    uint32_t peer, uint32_t slot) {
  const check_rank *r = &c->ranks[rank];
  check_tie key = {.peer = peer, .slot = slot};
  if (r->n_ties == 0) return NULL;
  return bsearch(&key, r->ties, r->n_ties, sizeof(key), by_message);
}

/* ---- memory of this rank ------------------------------------------------ */

/* Is this the result of step w in memory where it only is until loans with it
 * are given back, and where it is not if all of these are within reach? */
static bool is_spare(const pass *p, uint32_t w) {
  const gli_step *s = &p->steps[w];
  return s->dst_buffer == GLI_SCRATCH && s->n_loans > 0;
}

/* A view's scratch memory holds it only where memory is out of reach. What is
 * in a loan must stay what is in the result. */
static gloo_status touch_span(pass *p, uint32_t i, bool writes, span *x) {
  if (x->view != 0 && !writes) {
    return fail(p, i, "reads what was received as view %u", x->view - 1);
  }
  if (!writes && x->result != 0 && is_spare(p, x->result - 1) &&
      p->steps[i].role != GLI_ROLE_FILL) {
    return fail(p, i, "reads the result of step %u, which is for loans alone",
                x->result - 1);
  }
  if (!writes) return GLOO_OK;
  if (x->view != 0 && p->places[x->view - 1].used == 0) {
    return fail(p, i, "overwrites view %u, which was not read yet",
                x->view - 1);
  }
  if (x->result != 0 && p->pending[x->result - 1] > 0) {
    return fail(p, i,
                "overwrites the result of step %u before a loan with it is "
                "given back",
                x->result - 1);
  }
  *x = (span){0};
  return GLOO_OK;
}

static gloo_status touch(pass *p, uint32_t i) {
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

/* The range that step i has written holds a view or a result now. */
static void hold(pass *p, uint32_t i, span what) {
  const gli_step *s = &p->steps[i];
  check_touch dst = {s->dst, s->bytes, s->dst_buffer, true};
  size_t from, to;
  gli_check_spans_of(&p->map, &dst, &from, &to);
  for (; from < to; from++) p->spans[from] = what;
}

/* ---- places ------------------------------------------------------------- */

static gloo_status make_place(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  place *x = &p->places[s->place];
  if (x->made != 0) return fail(p, i, "place %u is in use already", s->place);
  x->made = i + 1;
  if (s->role == GLI_ROLE_VIEW) hold(p, i, (span){.view = s->place + 1});
  x->tie = (uint32_t)p->c->ranks[p->rank].n_ties;
  if (add_tie(p, s, s->role == GLI_ROLE_LEND, NONE)) return GLOO_OK;
  return gli_check_no_memory(p->c);
}

static gloo_status read_view(pass *p, uint32_t i, uint32_t k) {
  const gli_step *s = &p->steps[i];
  uint32_t number = s->place + k;
  place *x = &p->places[number];
  if (x->made == 0 || is_loan(p, x)) {
    return fail(p, i, "reads view %u, which it has not received", number);
  }
  const gli_step *made = &p->steps[x->made - 1];
  if (x->used != 0) return fail(p, i, "view %u is read twice", number);
  uint64_t at = s->kind == GLI_STEP_COPY_VIEW ? s->a : s->b + k * s->stride;
  if (made->dst != at || made->bytes != s->bytes) {
    return fail(p, i, "view %u was received elsewhere", number);
  }
  x->used = i + 1;
  p->c->ranks[p->rank].ties[x->tie].step = i;
  return GLOO_OK;
}

static gloo_status write_loan(pass *p, uint32_t i, uint32_t number) {
  place *x = &p->places[number];
  if (x->made == 0 || !is_loan(p, x)) {
    return fail(p, i, "writes loan %u, which it has not borrowed", number);
  }
  if (x->given) return fail(p, i, "loan %u was given back before", number);
  if (x->used != 0) return fail(p, i, "loan %u is written twice", number);
  if (p->steps[x->made - 1].bytes != p->steps[i].bytes) {
    return fail(p, i, "loan %u has another length", number);
  }
  x->used = i + 1;
  p->pending[i]++;
  p->c->ranks[p->rank].ties[x->tie].step = i;
  return GLOO_OK;
}

static gloo_status give_back_loan(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  place *x = &p->places[s->place];
  if (x->made == 0 || !is_loan(p, x)) {
    return fail(p, i, "gives back loan %u, which it has not borrowed",
                s->place);
  }
  if (x->given) return fail(p, i, "gives back loan %u twice", s->place);
  const gli_step *made = &p->steps[x->made - 1];
  if (made->peer != s->peer) {
    return fail(p, i, "gives loan %u back to another rank", s->place);
  }
  const gli_step *writer = x->used == 0 ? NULL : &p->steps[x->used - 1];
  bool other = made->bytes != s->bytes;
  if (writer != NULL) {
    other = other || writer->dst_buffer != s->a_buffer || writer->dst != s->a;
  }
  if (other) {
    return fail(p, i, "gives loan %u back with other bytes than were written",
                s->place);
  }
  x->given = true;
  if (x->used != 0) p->pending[x->used - 1]--;
  p->c->ranks[p->rank].ties[x->tie].back = s->slot;
  return GLOO_OK;
}

/* ---- the pass ----------------------------------------------------------- */

static gloo_status use_places(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  gloo_status status = GLOO_OK;
  if (s->kind == GLI_STEP_RECV &&
      (s->role == GLI_ROLE_VIEW || s->role == GLI_ROLE_LEND)) {
    return make_place(p, i);
  }
  if (s->kind == GLI_STEP_SEND) {
    if (s->role == GLI_ROLE_FILL) status = give_back_loan(p, i);
    if (s->role == GLI_ROLE_FILL || s->role == GLI_ROLE_SIGNAL) {
      give_back_views(p, s);
    }
    return status;
  }
  bool takes_view = s->kind == GLI_STEP_RECV_REDUCE && s->role == GLI_ROLE_VIEW;
  if (takes_view || gli_step_views(s) > 0 || s->n_loans > 0) {
    hold(p, i, (span){.result = i + 1});
  }
  if (takes_view) {
    p->ties[i] = (uint32_t)p->c->ranks[p->rank].n_ties;
    if (!add_tie(p, s, false, i)) return gli_check_no_memory(p->c);
  }
  for (uint32_t k = 0; k < gli_step_views(s) && status == GLOO_OK; k++) {
    status = read_view(p, i, k);
  }
  for (uint32_t k = 0; k < s->n_loans && status == GLOO_OK; k++) {
    status = write_loan(p, i, s->loan + k);
  }
  return status;
}

static gloo_status walk(pass *p) {
  for (uint32_t i = 0; i < p->n; i++) {
    gloo_status status = touch(p, i);
    if (status == GLOO_OK) status = use_places(p, i);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

static gloo_status check_ends(pass *p) {
  const check_rank *r = &p->c->ranks[p->rank];
  for (uint32_t k = 0; k < p->n_places; k++) {
    const place *x = &p->places[k];
    if (x->made == 0) continue;
    if (is_loan(p, x) && !x->given) {
      return fail(p, x->made - 1, "loan %u is never given back", k);
    }
    if (!is_loan(p, x) && x->used == 0) {
      return fail(p, x->made - 1, "view %u is never read", k);
    }
  }
  for (size_t k = 0; k < r->n_ties; k++) {
    const check_tie *t = &r->ties[k];
    if (t->loan || t->back != NONE) continue;
    uint32_t peer = p->c->builder.peers[t->peer].rank;
    return fail(p, t->step, "rank %u never hears that its view was read", peer);
  }
  return GLOO_OK;
}

gloo_status gli_check_views(gli_checker *c, uint32_t rank) {
  c->ranks[rank].n_ties = 0;
  gloo_status status = gli_check_collect(c, rank);
  if (status != GLOO_OK) return status;
  pass p = {.c = c,
            .rank = rank,
            .steps = c->builder.steps,
            .n = (uint32_t)c->builder.n_steps,
            .n_places = c->builder.n_places};
  bool ok = gli_check_spans_make(&p.map, p.steps, p.n);
  p.places = calloc((size_t)p.n_places + 1, sizeof(*p.places));
  p.pending = calloc((size_t)p.n + 1, sizeof(*p.pending));
  p.ties = calloc((size_t)p.n + 1, sizeof(*p.ties));
  p.spans = calloc(p.map.n[0] + p.map.n[1] + 1, sizeof(*p.spans));
  ok = ok && p.places != NULL && p.pending != NULL && p.ties != NULL &&
       p.spans != NULL;
  status = ok ? walk(&p) : gli_check_no_memory(c);
  if (status == GLOO_OK) status = check_ends(&p);
  if (status == GLOO_OK) sort_ties(&p);
  gli_check_spans_free(&p.map);
  free(p.places);
  free(p.pending);
  free(p.ties);
  free(p.spans);
  return status;
}
