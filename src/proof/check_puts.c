/* The rules for memory of other ranks, checked on the rank that owns the
 * memory: no step writes memory that another rank may be reading, or touches
 * memory that it may be writing. Steps with overlapping ranges run in program
 * order, so one walk in that order is enough. */
#include <stdio.h>
#include <stdlib.h>

#include "proof/check_internal.h"

#define NONE UINT32_MAX

/* A range that is exposed. */
typedef struct entrusted {
  check_touch range;
  uint32_t peer; /* index in the builder */
  bool put;
  const check_tie *tie;
  uint32_t next; /* next that this peer has not given back, or NONE */
} entrusted;

/* The exposures of a span of memory. Numbers are indices in `out`, plus 1. */
typedef struct span {
  uint32_t put;
  uint32_t exposed; /* number of gets */
  uint32_t which;   /* xor of the numbers of the exposed gets */
} span;

typedef struct pass {
  gli_checker *c;
  uint32_t rank;
  const gli_step *steps;
  uint32_t n;
  check_spans map;
  span *spans;
  uint32_t *first; /* [peers] head of each peer's list */
  entrusted *out;
  uint32_t n_out, capacity;
} pass;

/* Reports that step i is wrong. */
static gloo_status check_puts_fail(const pass *p, uint32_t i,
                                   const char *what) {
  gli_step s = p->steps[i];
  if (s.peer != GLI_NO_PEER) s.peer = p->c->builder.peers[s.peer].rank;
  return gli_check_fail(p->c, p->rank, i, &s, "%s", what);
}

/* Reports what step i does with memory that other ranks use. */
static gloo_status fail_span(const pass *p, uint32_t i, const char *what,
                             const span *x) {
  char text[80];
  uint32_t number = x->put != 0 ? x->put : x->which;
  if (x->put == 0 && x->exposed > 1) {
    snprintf(text, sizeof text, "%s what is exposed to others", what);
  } else {
    const entrusted *e = &p->out[number - 1];
    snprintf(text, sizeof text, "%s what is %s rank %u", what,
             e->put ? "exposed for a put to" : "exposed for a get to",
             p->c->builder.peers[e->peer].rank);
  }
  return check_puts_fail(p, i, text);
}

/* ---- what is out --------------------------------------------------------- */

static bool same_range(const check_touch *x, const check_touch *y) {
  return x->buffer == y->buffer && x->at == y->at && x->bytes == y->bytes;
}

/* Returns true if a put and a get expose the same range to one rank in a way
 * that is allowed: one step there reads and writes it, element by element, or
 * it is written only as it is given back. */
static bool check_puts_agree(const entrusted *x, const entrusted *y) {
  const entrusted *put = x->put ? x : y, *get = x->put ? y : x;
  if (!put->put || get->put || put->peer != get->peer) return false;
  if (!same_range(&put->range, &get->range)) return false;
  return put->tie->step == NONE ? put->tie->back == get->tie->back
                                : put->tie->step == get->tie->step;
}

/* Returns true if a span may be exposed once more; all ranks may read. */
static bool is_free(const pass *p, const span *x, const entrusted *e) {
  if (x->put != 0) return check_puts_agree(&p->out[x->put - 1], e);
  if (!e->put || x->exposed == 0) return true;
  return x->exposed == 1 && check_puts_agree(&p->out[x->which - 1], e);
}

static bool add_out(pass *p, const entrusted *e) {
  if (p->n_out == p->capacity) {
    uint32_t capacity = p->capacity == 0 ? 64 : p->capacity * 2;
    entrusted *out = realloc(p->out, capacity * sizeof *out);
    if (out == NULL) return false;
    p->out = out;
    p->capacity = capacity;
  }
  p->out[p->n_out] = *e;
  p->first[e->peer] = p->n_out++;
  return true;
}

static gloo_status check_puts_entrust(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  uint32_t peer = p->c->builder.peers[s->peer].rank;
  entrusted e = {.range = {s->a, s->bytes, s->a_buffer, false},
                 .peer = s->peer,
                 .put = s->role == GLI_ROLE_EXPOSE_PUT,
                 .tie = gli_check_find_tie(p->c, peer, p->rank, s->slot),
                 .next = p->first[s->peer]};
  if (e.tie == NULL || e.tie->put != e.put) {
    return check_puts_fail(p, i, "is received as something else");
  }
  if (!add_out(p, &e)) return gli_check_no_memory(p->c);
  size_t from, to;
  gli_check_spans_of(&p->map, &e.range, &from, &to);
  for (; from < to; from++) {
    span *x = &p->spans[from];
    if (!is_free(p, x, &e)) {
      return fail_span(p, i, e.put ? "exposes for a put" : "exposes for a get",
                       x);
    }
    if (e.put) {
      x->put = p->n_out;
    } else {
      x->exposed++;
      x->which ^= p->n_out;
    }
  }
  return GLOO_OK;
}

/* ---- what comes back ----------------------------------------------------- */

static void check_puts_take_back(pass *p, uint32_t *link) {
  const entrusted *e = &p->out[*link];
  size_t from, to;
  gli_check_spans_of(&p->map, &e->range, &from, &to);
  for (; from < to; from++) {
    if (e->put) {
      p->spans[from].put = 0;
    } else {
      p->spans[from].exposed--;
      p->spans[from].which ^= *link + 1;
    }
  }
  *link = e->next;
}

/* Ends the exposures that this message gives back. A put must come back as a
 * whole. A get is back if the step orders all later steps on its range. */
static gloo_status take_all_back(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  check_touch dst = {s->dst, s->bytes, s->dst_buffer, false};
  bool put = s->role != GLI_ROLE_PUT;
  for (uint32_t *link = &p->first[s->peer]; *link != NONE;) {
    const entrusted *e = &p->out[*link];
    const check_touch *r = &e->range;
    bool whole = r->buffer == dst.buffer && dst.at <= r->at &&
                 dst.at + dst.bytes >= r->at + r->bytes;
    if (e->tie->back != s->slot || (e->put && !same_range(r, &dst)) ||
        (!e->put && !whole)) {
      link = &p->out[*link].next;
      continue;
    }
    put = put || e->put;
    check_puts_take_back(p, link);
  }
  return put ? GLOO_OK : check_puts_fail(p, i, "is not what was exposed");
}

/* ---- the pass ------------------------------------------------------------ */

static gloo_status check_puts_touch(pass *p, uint32_t i) {
  check_touch at[CHECK_TOUCHES];
  int n = gli_check_touches(&p->steps[i], at);
  for (int k = 0; k < n; k++) {
    size_t from, to;
    gli_check_spans_of(&p->map, &at[k], &from, &to);
    for (; from < to; from++) {
      const span *x = &p->spans[from];
      if (x->put == 0 && (x->exposed == 0 || !at[k].writes)) continue;
      return fail_span(p, i, at[k].writes ? "writes" : "reads", x);
    }
  }
  return GLOO_OK;
}

static gloo_status take_step(pass *p, uint32_t i) {
  const gli_step *s = &p->steps[i];
  bool out = s->role == GLI_ROLE_EXPOSE_GET || s->role == GLI_ROLE_EXPOSE_PUT;
  bool back = s->role == GLI_ROLE_PUT || s->role == GLI_ROLE_SIGNAL;
  if (s->kind == GLI_STEP_SEND && out) return check_puts_entrust(p, i);
  if (s->kind == GLI_STEP_RECV && back) {
    gloo_status status = take_all_back(p, i);
    if (status != GLOO_OK) return status;
  }
  return check_puts_touch(p, i);
}

static gloo_status check_puts_walk(pass *p) {
  for (uint32_t k = 0; k < p->c->builder.n_peers; k++) p->first[k] = NONE;
  for (uint32_t i = 0; i < p->n; i++) {
    gloo_status status = take_step(p, i);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

gloo_status gli_check_puts(gli_checker *c, uint32_t rank) {
  gloo_status status = gli_check_collect(c, rank);
  if (status != GLOO_OK) return status;
  pass p = {.c = c,
            .rank = rank,
            .steps = c->builder.steps,
            .n = (uint32_t)c->builder.n_steps};
  bool ok = gli_check_spans_make(&p.map, p.steps, p.n);
  p.spans = calloc(p.map.n[0] + p.map.n[1] + 1, sizeof *p.spans);
  p.first = calloc((size_t)c->builder.n_peers + 1, sizeof *p.first);
  ok = ok && p.spans != NULL && p.first != NULL;
  status = ok ? check_puts_walk(&p) : gli_check_no_memory(c);
  gli_check_spans_free(&p.map);
  free(p.spans);
  free(p.first);
  free(p.out);
  return status;
}
