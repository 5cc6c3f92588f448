/* Random matching of messages to operations: the results agree with a search
 * through all operations, and no state changes. */
#include <stdio.h>
#include <string.h>

#include "engine/match_world.h"
#include "plan/cmocka_all.h"
#include "plan/random.h"

/* ---- the model: a search ------------------------------------------------- */

static bool pairwise(unsigned collective_of) {
  return collective_of == GLI_GATHERV || collective_of == GLI_SCATTERV ||
         collective_of == GLI_ALLTOALLV;
}

static bool agree(const gli_header *mine, const gli_header *h) {
  return mine->collective == h->collective && mine->dtype == h->dtype &&
         mine->op == h->op && mine->algorithm == h->algorithm &&
         mine->tuning == h->tuning && mine->root == h->root &&
         mine->tag == h->tag &&
         (mine->count == h->count || pairwise(mine->collective));
}

static bool has_key(const made *m, bool a_message, uint32_t from, uint32_t tag,
                    uint64_t number) {
  if (m->op.signature.operation != number) return false;
  if (m->op.signature.tag != tag) return false;
  return a_message ? m->as == RECEIVE && m->with == from : m->as == COLLECTIVE;
}

static uint32_t model_posted(const world *w, uint32_t from, uint32_t tag) {
  for (uint32_t i = 1; i <= w->n_ops; i++) {
    const made *m = &w->ops[i];
    if (m->as == POSTED && m->op.context == &w->rank.context &&
        m->op.signature.tag == tag && (m->takes >> from & 1) != 0) {
      return i;
    }
  }
  return NOBODY;
}

static uint64_t model_found(const world *w, uint32_t from, uint32_t tag) {
  return tag < TAGS ? w->found[from][tag] : 0;
}

static uint32_t model_operation(const world *w, uint32_t from,
                                const gli_header *h) {
  bool a_message = h->collective == GLI_SENDRECV;
  for (uint32_t i = 1; i <= w->n_ops; i++) {
    const made *m = &w->ops[i];
    if (m->there && has_key(m, a_message, from, h->tag, h->operation)) return i;
  }
  if (!a_message || h->slot != 0) return NOBODY;
  if (h->operation != model_found(w, from, h->tag)) return NOBODY;
  return model_posted(w, from, h->tag);
}

static gloo_status model_step(const made *m, uint32_t from, const gli_header *h,
                              uint32_t *step) {
  *step = 0;
  if (!agree(&m->op.signature, h)) return GLOO_ERR_MISMATCH;
  for (uint32_t i = 0; i < m->plan.n_peers; i++) {
    const gli_plan_peer *p = &m->plan_peers[i];
    if (m->as == COLLECTIVE && p->rank != from) continue;
    if (pairwise(h->collective) && h->count != p->recv_bytes / 4) {
      return GLOO_ERR_MISMATCH;
    }
    if (h->slot >= p->recvs) return GLOO_ERR_PROTOCOL;
    *step = 10 * (i + 1) + h->slot;
    return GLOO_OK;
  }
  return GLOO_ERR_PROTOCOL;
}

static bool model_over(const world *w, uint32_t from, const gli_header *h) {
  if (h->collective == GLI_SENDRECV)
    return h->operation < model_found(w, from, h->tag);
  return h->tag < TAGS && h->operation < w->started[h->tag];
}

static gloo_status model_late(const world *w, const gli_header *h) {
  uint32_t first = w->n_pushed > FORGETS ? w->n_pushed - FORGETS : 0;
  for (uint32_t i = w->n_pushed; i-- > first;) {
    const gli_header *mine = &w->pushed[i];
    if (mine->tag == h->tag && mine->operation == h->operation) {
      return agree(mine, h) ? GLOO_OK : GLOO_ERR_MISMATCH;
    }
  }
  return GLOO_OK;
}

static answer model(const world *w, uint32_t from, const gli_header *h) {
  answer a = {.op = model_operation(w, from, h)};
  const made *m = &w->ops[a.op];
  if (a.op != NOBODY && m->as != POSTED) {
    a.status = model_step(m, from, h, &a.step);
  }
  a.over = a.op == NOBODY && model_over(w, from, h);
  a.late = model_late(w, h);
  a.posted = model_posted(w, from, h->tag);
  return a;
}

/* ---- worlds and queries -------------------------------------------------- */

/* Returns a header with one of a few keys, some of which share a bucket, and
 * one of a few signatures. */
static gli_header random_header(uint64_t *seed) {
  static const gli_collective collectives[] = {GLI_ALLREDUCE, GLI_ALLTOALLV,
                                               GLI_SENDRECV, GLI_SENDRECV};
  return (gli_header){
      .type = GLI_MESSAGE_DATA,
      .collective = (uint8_t)collectives[random_below(seed, 4)],
      .dtype = (uint8_t)random_below(seed, 2),
      .tag = random_below(seed, 3),
      .slot = random_below(seed, RECVS + 1),
      .operation = random_below(seed, 4) + GLI_BUCKETS * random_below(seed, 3),
      .count = random_below(seed, 3)};
}

static bool is_new(const world *w, made_as as, uint32_t with,
                   const gli_header *h) {
  for (uint32_t i = 1; i <= w->n_ops; i++) {
    const made *m = &w->ops[i];
    if (m->as != as || m->op.signature.operation != h->operation) continue;
    if (m->op.signature.tag != h->tag) continue;
    if (as == COLLECTIVE || m->with == with) return false;
  }
  return true;
}

static void random_operation(world *w, uint64_t *seed) {
  gli_header h = random_header(seed);
  uint32_t with = random_below(seed, BARE_SIZE);
  if (random_below(seed, 4) == 0) {
    uint32_t takes = 1u << with | 1u << random_below(seed, BARE_SIZE);
    if (random_below(seed, 3) == 0) takes = 15;
    post(w, h.tag, takes, random_below(seed, 4) == 0);
    return;
  }
  made_as as = COLLECTIVE;
  if (h.collective == GLI_SENDRECV) {
    as = random_below(seed, 3) == 0 ? SEND : RECEIVE;
  }
  if (!is_new(w, as, with, &h)) return;
  if (as != COLLECTIVE) {
    message(w, as, with, &h);
    return;
  }
  made *m = make(w, COLLECTIVE, &h);
  uint32_t lower = random_below(seed, BARE_SIZE - 1);
  add_peer(m, &w->rank.links[lower], lower, random_below(seed, RECVS + 1),
           random_below(seed, 3));
  if (random_below(seed, 4) != 0) {
    uint32_t upper = lower + 1 + random_below(seed, BARE_SIZE - 1 - lower);
    add_peer(m, &w->rank.links[upper], upper, random_below(seed, RECVS + 1),
             random_below(seed, 3));
  }
  let_find(m);
}

static world *random_world(uint64_t *seed) {
  world *w = world_new();
  for (uint32_t n = random_below(seed, OPS); n > 0; n--) {
    random_operation(w, seed);
  }
  for (uint32_t n = random_below(seed, PARKED); n > 0; n--) {
    gli_header h = random_header(seed);
    bool envelope = h.collective == GLI_SENDRECV && random_below(seed, 3) > 0;
    park(w, random_below(seed, BARE_SIZE), &h, envelope);
  }
  for (uint32_t tag = 0; tag < 3; tag++) {
    if (random_below(seed, 3) == 0) continue;
    start_so_many(w, tag, random_below(seed, 2 * GLI_BUCKETS));
    find_so_many(w, random_below(seed, BARE_SIZE), tag,
                 random_header(seed).operation);
  }
  for (uint32_t n = random_below(seed, PUSHED), i = 0; i < n; i++) {
    gli_header h = random_header(seed);
    h.operation = i / 8 + GLI_BUCKETS * (i % 3); /* each once */
    h.tag = i / 3 % 3;
    if (h.collective != GLI_SENDRECV) push_finished(w, &h);
  }
  return w;
}

/* Returns a header that often belongs to an existing operation, sometimes with
 * one byte changed. */
static gli_header random_question(const world *w, uint64_t *seed) {
  gli_header h = random_header(seed);
  uint32_t known = random_below(seed, w->n_ops + 1);
  if (known > 0 && random_below(seed, 4) != 0) {
    uint32_t slot = h.slot;
    uint64_t count = h.count;
    h = w->ops[known].op.signature;
    h.slot = slot;
    if (pairwise(h.collective)) h.count = count;
  } else if (w->n_pushed > 0 && random_below(seed, 2) == 0) {
    h = w->pushed[random_below(seed, w->n_pushed)];
  }
  if (random_below(seed, 4) == 0) {
    uint8_t bytes[sizeof h];
    memcpy(bytes, &h, sizeof h);
    bytes[random_below(seed, sizeof h)] = (uint8_t)random_next(seed);
    memcpy(&h, bytes, sizeof h);
  }
  h.collective %= GLI_COLLECTIVES; /* other values are refused earlier */
  return h;
}

static void ask_about_envelopes(const char *name, const world *w) {
  for (uint32_t i = 1; i <= w->n_ops; i++) {
    const made *m = &w->ops[i];
    if (m->as != POSTED) continue;
    const gli_early *expected = NULL;
    for (uint32_t p = 0; p < w->n_early && !expected; p++) {
      const gli_early *early = w->early[p];
      const gli_header *h = &early->header;
      uint32_t from = early->link->local;
      if (early->envelope && h->operation == model_found(w, from, h->tag) &&
          h->tag == m->op.signature.tag && (m->takes >> from & 1) != 0 &&
          m->op.context == &w->rank.context) {
        expected = early;
      }
    }
    if (gli_match_envelope(&m->op) != expected) {
      fail_msg("%s: operation %u takes another envelope", name, i);
    }
  }
}

static void remove_one(world *w, uint64_t *seed) {
  if (w->n_ops == 0) return;
  made *m = &w->ops[1 + random_below(seed, w->n_ops)];
  if (!m->there) return;
  gli_match_remove(&m->op);
  m->there = false;
}

static void it_agrees_with_a_search_through_everything(void **state) {
  (void)state;
  enum { WORLDS = 400, QUESTIONS = 60 };
  uint64_t seed = 33;
  size_t found = 0, steps = 0, mismatches = 0, claims = 0, lates = 0;
  for (uint32_t i = 0; i < WORLDS; i++) {
    world *w = random_world(&seed);
    for (uint32_t k = 0; k < QUESTIONS; k++) {
      char name[48];
      snprintf(name, sizeof name, "world %u, question %u", i, k);
      uint32_t from = random_below(&seed, BARE_SIZE);
      w->rank.links[from].hint = random_below(&seed, 4);
      gli_header h = random_question(w, &seed);
      answer expected = model(w, from, &h), got = ask(name, w, from, &h);
      assert_answer(name, &got, &expected);
      found += got.op != NOBODY;
      claims += got.op != NOBODY && got.op == got.posted;
      steps += got.step != 0;
      mismatches += got.status == GLOO_ERR_MISMATCH;
      lates += got.late != GLOO_OK;
      ask_about_envelopes(name, w);
      if (random_below(&seed, 8) == 0) remove_one(w, &seed);
    }
    world_free(w);
  }
  /* No result is rare. */
  assert_true(found > 2000 && steps > 500 && mismatches > 500);
  assert_true(claims > 500 && lates > 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_agrees_with_a_search_through_everything),
  };
  return cmocka_run_group_tests_name("engine match, random", tests, NULL, NULL);
}
