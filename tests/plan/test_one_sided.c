/* Memory of other ranks: each rule of the checker is broken on purpose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "plan/cmocka_all.h"
#include "proof/check.h"

static gli_plan_params params(gli_collective collective, uint32_t size,
                              uint64_t count) {
  return (gli_plan_params){
      .collective = collective, .size = size, .count = count, .elem_bytes = 4};
}

/* ---- an allreduce with slips --------------------------------------------- */

/* The mistake of rank 1. */
typedef enum slip {
  NO_SLIP,
  SENDS_BYTES,         /* where a get is expected */
  RECEIVES_BYTES,      /* where a get comes */
  SIGNALS,             /* where bytes are expected */
  EXPOSES_LESS,        /* than is borrowed */
  EXPOSES_ELSEWHERE,   /* another range than is filled */
  EXPOSES_OTHER_BYTES, /* to read, shifted against those for PUT */
  TOUCHES_EXPOSED,     /* reads it before it is filled */
  WRITES_EXPOSED,
  EXPOSES_TWICE,    /* to two ranks */
  READS_GET,        /* with another step than the reduction */
  MIXES_GETS,       /* reduces one as another */
  READS_TWICE,      /* a get */
  READS_SPARE,      /* a result that is in SCRATCH only if puts are not
                       mapped */
  FORGETS_GET,      /* does not read it */
  PUTS_OTHER,       /* bytes than it wrote to the put */
  CHANGES_RESULT,   /* before the put is given back */
  SWAPS_PUTS,       /* gives back that of another rank */
  WRITES_UNEXPOSED, /* to a put that it has not got */
  REUSES_WINDOW,    /* for two puts */
  KEEPS_PUT,        /* sends bytes instead of filling it */
  /* mistakes in the allreduce with two readers: */
  OVERWRITES_GET,  /* before it is read, with the same bytes */
  LEAVES_GET,      /* does not read it */
  LEAVES_PUT,      /* does not give it back */
  WRITES_TWICE,    /* to one put */
  WRITES_LATE,     /* to a put that is given back */
  WRITES_LONGER,   /* than the put is */
  SIGNALS_OTHER,   /* things than what it did with the get */
  SIGNALS_EARLY,   /* before it reads the get */
  EXPOSES_SCRATCH, /* but receives into OUT */
  GIVES_TWICE,     /* back one put instead of two */
  PUTS_UNEXPOSED,  /* back what it has not borrowed */
} slip;

static slip now;

static bool slips(const gli_plan_params *p, slip what) {
  return now == what && p->rank == 1;
}

static gli_range part(const gli_plan_params *p, gli_buffer buffer, uint32_t i) {
  return gli_parts(p, buffer, p->size, i, i + 1);
}

/* Each part has 4 elements, 16 bytes. */
static void offer(gli_builder *b, const gli_plan_params *p, uint32_t rank) {
  gli_range out = part(p, GLI_OUT, rank), in = part(p, GLI_IN, rank);
  bool first = rank == (p->rank + 1) % p->size;
  if (first && slips(p, EXPOSES_LESS)) out.bytes = 12;
  if (first && slips(p, EXPOSES_ELSEWHERE)) out = part(p, GLI_OUT, p->rank);
  if (!first && slips(p, EXPOSES_TWICE)) out.offset = 32, out.bytes = 16;
  gli_expose_put(b, rank, out);
  if (first && slips(p, EXPOSES_OTHER_BYTES)) in.offset += 4, in.bytes -= 4;
  if (first && slips(p, SENDS_BYTES)) {
    gli_send(b, rank, in);
  } else {
    gli_expose_get(b, rank, in);
  }
  if (first && slips(p, TOUCHES_EXPOSED)) {
    gli_copy(b, part(p, GLI_OUT, rank), gli_scratch(b, 16));
  }
  if (first && slips(p, WRITES_EXPOSED)) {
    gli_copy(b, part(p, GLI_IN, rank), part(p, GLI_OUT, rank));
  }
}

static void take(gli_builder *b, const gli_plan_params *p, uint32_t rank,
                 gli_range block, uint32_t get, uint32_t put) {
  bool first = rank == (p->rank + 1) % p->size;
  gli_recv_window(b, rank, block.bytes, put);
  if (first && slips(p, RECEIVES_BYTES)) {
    gli_recv(b, rank, block);
  } else {
    gli_recv_get(b, rank, block, get);
  }
  if (first && slips(p, READS_GET)) {
    gli_copy(b, block, gli_scratch(b, block.bytes));
  }
}

static void reduce(gli_builder *b, const gli_plan_params *p, gli_reduction r) {
  if (slips(p, MIXES_GETS)) r.get++;
  if (slips(p, WRITES_UNEXPOSED)) r.put += 2;
  if (slips(p, FORGETS_GET)) {
    gli_reduce(b, r.blocks, r.local, r.dst);
    r.blocks.offset += r.stride;
    gli_reduce(b, r.dst, r.blocks, r.dst);
    return;
  }
  gli_range result = r.dst;
  if (slips(p, READS_SPARE)) r.dst = gli_scratch(b, r.dst.bytes);
  gli_reduce_all(b, &r);
  if (slips(p, READS_SPARE)) gli_copy(b, r.dst, result);
  if (!slips(p, READS_TWICE)) return;
  r.dst = gli_scratch(b, r.dst.bytes);
  r.n_puts = 0;
  gli_reduce_all(b, &r);
}

static void give_back(gli_builder *b, const gli_plan_params *p, uint32_t rank,
                      uint32_t put) {
  gli_range sum = part(p, GLI_OUT, p->rank);
  bool first = rank == (p->rank + 1) % p->size;
  if (first && slips(p, CHANGES_RESULT)) {
    gli_range copy = gli_scratch(b, sum.bytes);
    gli_copy(b, sum, copy);
    gli_copy(b, copy, sum); /* equal bytes, so only the rule detects it */
  }
  if (first && slips(p, PUTS_OTHER)) {
    gli_range copy = gli_scratch(b, sum.bytes);
    gli_copy(b, sum, copy);
    sum = copy;
  }
  if (first && slips(p, SIGNALS)) {
    gli_signal(b, rank, sum);
  } else if (first && slips(p, KEEPS_PUT)) {
    gli_send(b, rank, sum);
  } else {
    gli_put(b, rank, sum, put);
  }
  gli_recv_put(b, rank, part(p, GLI_OUT, rank));
}

/* Three ranks. */
static void build_fused(gli_builder *b, const gli_plan_params *p) {
  uint32_t next = (p->rank + 1) % 3, last = (p->rank + 2) % 3;
  uint32_t low = next < last ? next : last, high = next < last ? last : next;
  uint32_t gets = gli_windows(b, 3), puts = gli_windows(b, 4);
  gli_range blocks = gli_scratch(b, 128);
  gli_range one = gli_bytes(GLI_SCRATCH, blocks.offset, 16);
  gli_range two = gli_bytes(GLI_SCRATCH, blocks.offset + 64, 16);
  offer(b, p, next);
  offer(b, p, last);
  take(b, p, low, one, gets, puts);
  take(b, p, high, two, gets + 1, slips(p, REUSES_WINDOW) ? puts : puts + 1);
  gli_reduction r = {.local = part(p, GLI_IN, p->rank),
                     .dst = part(p, GLI_OUT, p->rank),
                     .own = p->rank,
                     .n = 2,
                     .blocks = one,
                     .stride = 64,
                     .get = gets,
                     .put = puts,
                     .n_puts = 2};
  reduce(b, p, r);
  bool swap = slips(p, SWAPS_PUTS);
  give_back(b, p, low, swap ? puts + 1 : puts);
  give_back(b, p, high, swap ? puts : puts + 1);
}

/* ---- two readers --------------------------------------------------------- */

/* Adds the steps of rank 0 that a mistake of rank 1 needs. */
static void help(gli_builder *b, const gli_plan_params *p) {
  if (p->rank != 0) return;
  if (now == OVERWRITES_GET) gli_send(b, 1, part(p, GLI_IN, 1));
  if (now == LEAVES_GET) gli_expose_get(b, 1, part(p, GLI_IN, 1));
  if (now == LEAVES_PUT || now == GIVES_TWICE) {
    gli_expose_put(b, 1, gli_bytes(GLI_SCRATCH, 0, 16));
  }
  if (now == WRITES_LONGER) gli_expose_put(b, 1, gli_scratch(b, 12));
}

static void be_shared(gli_builder *b, const gli_plan_params *p, gli_range block,
                      uint32_t spare) {
  if (slips(p, OVERWRITES_GET)) gli_recv(b, 0, block);
  if (slips(p, LEAVES_GET)) gli_recv_get(b, 0, gli_scratch(b, 16), spare);
  if (slips(p, LEAVES_PUT) || slips(p, GIVES_TWICE)) {
    gli_recv_window(b, 0, 16, spare);
  }
  if (slips(p, WRITES_LONGER)) gli_recv_window(b, 0, 12, spare);
}

/* Builds a plan of two ranks. Each reads the other's input twice: once for the
 * result, into memory lent by the other, and once for a second result. */
static void build_twice(gli_builder *b, const gli_plan_params *p) {
  uint32_t other = 1 - p->rank, get = gli_windows(b, 2);
  uint32_t put = gli_windows(b, 1), spare = gli_windows(b, 1);
  gli_range one = gli_scratch(b, 16), two = gli_scratch(b, 16);
  gli_range beside = gli_scratch(b, 16);
  gli_expose_put(
      b, other,
      slips(p, EXPOSES_SCRATCH) ? gli_scratch(b, 16) : part(p, GLI_OUT, other));
  gli_expose_get(b, other, part(p, GLI_IN, other));
  gli_expose_get(b, other, part(p, GLI_IN, other));
  help(b, p);
  gli_recv_window(b, other, 16, put);
  gli_recv_get(b, other, one, get);
  gli_recv_get(b, other, two, get + 1);
  be_shared(b, p, two, spare);
  gli_reduction r = {
      .local = part(p, GLI_IN, p->rank),
      .dst = beside,
      .own = p->rank,
      .n = 1,
      .blocks = two,
      .get = get + 1,
      .put = slips(p, WRITES_LONGER) ? spare : put,
      .n_puts = slips(p, WRITES_TWICE) || slips(p, WRITES_LONGER)};
  if (slips(p, SIGNALS_EARLY)) gli_signal(b, other, beside);
  if (!slips(p, WRITES_LATE)) gli_reduce_all(b, &r);
  gli_reduction sum = r;
  sum.dst = part(p, GLI_OUT, p->rank);
  sum.blocks = one;
  sum.get = get;
  sum.put = put;
  sum.n_puts = !slips(p, WRITES_LATE);
  gli_reduce_all(b, &sum);
  gli_put(b, other, sum.dst, slips(p, PUTS_UNEXPOSED) ? spare : put);
  if (slips(p, GIVES_TWICE)) gli_put(b, other, sum.dst, put);
  if (slips(p, WRITES_LATE)) {
    r.n_puts = 1;
    gli_reduce_all(b, &r);
  }
  if (!slips(p, SIGNALS_EARLY)) {
    gli_signal(b, other, slips(p, SIGNALS_OTHER) ? one : beside);
  }
  gli_range filled = part(p, GLI_OUT, other);
  if (now == SIGNALS_EARLY && p->rank == 0) {
    gli_await(b, other, gli_bytes(GLI_TOKEN, 0, 1));
  }
  gli_recv_put(b, other, filled);
  if (now == GIVES_TWICE && p->rank == 0) {
    gli_recv_put(b, other, gli_bytes(GLI_SCRATCH, 0, 16));
  }
  if (now == SIGNALS_EARLY && p->rank == 0) return;
  gli_await(b, other, gli_bytes(GLI_TOKEN, 0, 1));
}

/* ---- running ------------------------------------------------------------- */

static gloo_status run(gli_build_fn build, gli_plan_params p,
                       uint64_t max_steps, gloo_error *error) {
  gli_checker *checker = gli_checker_create(max_steps);
  assert_non_null(checker);
  gli_check_report report;
  gloo_status status = gli_checker_run(checker, build, &p, &report, error);
  gli_checker_destroy(checker);
  return status;
}

static void refuse(gli_build_fn build, gli_plan_params p, const char *what,
                   const char *who) {
  gloo_error error;
  gloo_status status = run(build, p, 0, &error);
  if (status == GLOO_OK) fail_msg("'%s' was not found", what);
  assert_int_equal(status, GLOO_ERR_INTERNAL);
  if (strstr(error.message, what) != NULL && strstr(error.message, who) != NULL)
    return;
  fail_msg("'%s' does not tell '%s' and '%s'", error.message, what, who);
}

static void plans_without_slips_are_correct(void **state) {
  (void)state;
  now = NO_SLIP;
  gloo_error error;
  gli_plan_params p = params(GLI_ALLREDUCE, 3, 12);
  for (int i = 0; i < 2; i++) {
    p.in_place = i != 0;
    if (run(build_fused, p, 0, &error) != GLOO_OK)
      fail_msg("%s", error.message);
  }
}

/* All of these plans give the right values. */
static void rules_of_two_readers_are_named(void **state) {
  (void)state;
  static const struct {
    slip slip;
    bool in_place;
    const char *what;
  } cases[] = {
      {NO_SLIP, true, "exposes for a get what is exposed for a put to rank"},
      {OVERWRITES_GET, false, "overwrites get 1 before it was read"},
      {LEAVES_GET, false, "get 3 is never read"},
      {LEAVES_PUT, false, "put 3 is never returned"},
      {WRITES_TWICE, false, "put 2 is written twice"},
      {WRITES_LATE, false, "put 2 was already returned"},
      {WRITES_LONGER, false, "put 3 has a different length"},
      {SIGNALS_OTHER, false, "rank 0 never learns that its get was read"},
      {SIGNALS_EARLY, false, "rank 0 never learns that its get was read"},
      {EXPOSES_SCRATCH, false, "is not what was exposed"},
      {GIVES_TWICE, false, "returns put 2 twice"},
      {PUTS_UNEXPOSED, false, "returns put 3, which was not exposed to it"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    gli_plan_params p = params(GLI_ALLREDUCE, 2, 8);
    p.in_place = cases[i].in_place;
    now = cases[i].slip;
    refuse(build_twice, p, cases[i].what, "rank ");
  }
  now = NO_SLIP;
  gloo_error error;
  if (run(build_twice, params(GLI_ALLREDUCE, 2, 8), 0, &error) != GLOO_OK) {
    fail_msg("%s", error.message);
  }
}

/* ---- what is exposed ----------------------------------------------------- */

/* In place, rank 1 moves its sum into a range that is exposed to rank 0. */
static void build_moved(gli_builder *b, const gli_plan_params *p,
                        gli_range heard) {
  uint32_t other = 1 - p->rank;
  gli_range sum = gli_elems(p, GLI_OUT, p->rank * p->count, p->count);
  gli_expose_get(b, other, gli_elems(p, GLI_IN, other * p->count, p->count));
  gli_recv_reduce_get(b, other,
                      gli_elems(p, GLI_IN, p->rank * p->count, p->count), sum,
                      other == 0, 0, 0);
  gli_signal(b, other, sum);
  gli_await(b, other, heard);
  gli_copy(b, sum, gli_elems(p, GLI_OUT, 0, p->count));
}

static void build_ordered(gli_builder *b, const gli_plan_params *p) {
  build_moved(b, p, gli_elems(p, GLI_OUT, 0, p->rank * p->count));
}
static void build_unordered(gli_builder *b, const gli_plan_params *p) {
  build_moved(b, p, gli_bytes(GLI_TOKEN, 1, 1));
}
static void build_half_ordered(gli_builder *b, const gli_plan_params *p) {
  build_moved(b, p, gli_elems(p, GLI_OUT, 0, p->count - 1));
}

/* Rank 0 uses the unordered plan, rank 1 the ordered one. */
static void build_well(gli_builder *b, const gli_plan_params *p) {
  (p->rank == 0 ? build_unordered : build_ordered)(b, p);
}
static void build_badly(gli_builder *b, const gli_plan_params *p) {
  (p->rank == 0 ? build_unordered : build_half_ordered)(b, p);
}

static void writing_what_is_exposed_is_named(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_REDUCE_SCATTER, 2, 6);
  p.in_place = true;
  gloo_error error;
  if (run(build_well, p, 0, &error) != GLOO_OK) fail_msg("%s", error.message);
  refuse(build_unordered, p, "writes what is exposed for a get to rank 0",
         "rank 1, step 4");
  refuse(build_badly, p, "writes what is exposed for a get to rank 0",
         "rank 1, step 4");
}

/* ---- the algorithms ------------------------------------------------------ */

static void parts_in_several_turns_are_correct(void **state) {
  (void)state;
  const gli_collective all[] = {GLI_ALLREDUCE, GLI_REDUCE, GLI_REDUCE_SCATTER};
  for (int i = 0; i < 3; i++) {
    const gli_algorithm *a = gli_algorithm_find(all[i], "fused");
    assert_non_null(a);
    for (uint32_t size = 2; size <= 9; size++) {
      uint64_t count = ((uint64_t)7 << 20) + 5; /* 4 turns of 8 MiB */
      gli_plan_params p = params(all[i], size, i < 2 ? count : count / size);
      for (int k = 0; k < 4; k++) {
        gloo_error error;
        p.in_place = k % 2 != 0;
        uint64_t max_steps = k < 2 ? 0 : 1; /* streamed */
        if (run(a->build, p, max_steps, &error) != GLOO_OK) {
          fail_msg("%s", error.message);
        }
      }
      gli_plan *plan;
      assert_int_equal(gli_plan_make(a->build, &p, &plan, NULL), GLOO_OK);
      for (uint32_t k = 0; k < plan->n_steps; k++) {
        if (plan->steps[k].kind == GLI_STEP_COPY) continue;
        if (plan->steps[k].role == GLI_ROLE_SIGNAL) continue;
        assert_true(plan->steps[k].bytes <= (uint64_t)4 << 20);
      }
      gli_plan_free(plan);
    }
  }
}

static void every_broken_rule_is_named(void **state) {
  (void)state;
  static const struct {
    slip slip;
    bool in_place;
    const char *what, *who;
  } cases[] = {
      {SENDS_BYTES, false, "expects a get, but", "of rank 1 sends bytes"},
      {RECEIVES_BYTES, false, "expects bytes, but", "rank 1, step"},
      {SIGNALS, false, "expects a completed put", "of rank 1 sends a signal"},
      {EXPOSES_LESS, false, "expects to put 16 bytes, but",
       "rank 1 exposes 12"},
      {EXPOSES_ELSEWHERE, false, "what is exposed for a put to",
       "rank 1, step"},
      {EXPOSES_OTHER_BYTES, false, "expects 16 bytes", "of rank 1 sends 12"},
      {TOUCHES_EXPOSED, true, "reads what is exposed for a put to rank 2",
       "rank 1, step"},
      {WRITES_EXPOSED, false, "writes what is exposed for a put to rank 2",
       "rank 1, step"},
      {EXPOSES_TWICE, false,
       "exposes for a put what is exposed for a put to rank 2", "rank 1, step"},
      {READS_GET, false, "reads what was received as get", "rank 1, step"},
      {MIXES_GETS, false, "received elsewhere", "rank 1, step"},
      {READS_TWICE, false, "get 0 is read twice", "rank 1, step"},
      {READS_SPARE, false, "which only puts may use", "rank 1, step"},
      {FORGETS_GET, false, "reads what was received as get 0", "rank 1"},
      {PUTS_OTHER, false, "different bytes than were written", "rank 1, step"},
      {CHANGES_RESULT, false, "overwrites the result of step", "rank 1, step"},
      {SWAPS_PUTS, false, "to the wrong rank", "rank 1, step"},
      {WRITES_UNEXPOSED, false, "was not exposed to it", "rank 1, step"},
      {REUSES_WINDOW, false, "window 3 is already in use", "rank 1, step"},
      {KEEPS_PUT, false, "expects a completed put", "rank 1 sends bytes"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    gli_plan_params p = params(GLI_ALLREDUCE, 3, 12);
    p.in_place = cases[i].in_place;
    now = cases[i].slip;
    refuse(build_fused, p, cases[i].what, cases[i].who);
  }
}

/* ---- copies of gets ------------------------------------------------------ */

static int slip_of_copy;

/* Rank 1 copies memory that rank 0 exposes. */
static void build_copied(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_range token = gli_bytes(GLI_TOKEN, 1, 1);
  if (p->rank == 0) {
    gli_expose_get(b, 1, gli_elems(p, GLI_IN, 0, p->count));
    gli_copy(b, gli_elems(p, GLI_IN, 0, p->count), out);
    gli_await(b, 1, token);
    return;
  }
  gli_range block = gli_scratch(b, out.bytes), other = block;
  uint32_t get = gli_windows(b, 2);
  gli_recv_get(b, 0, block, get);
  if (slip_of_copy == 1) get++;
  if (slip_of_copy == 2) gli_copy_get(b, block, get, out, 0, 0);
  if (slip_of_copy == 3) other = gli_scratch(b, out.bytes);
  if (slip_of_copy == 4) gli_copy(b, block, out);
  gli_copy_get(b, other, get, out, 0, 0);
  gli_signal(b, 0, slip_of_copy == 5 ? token : out);
}

static void copies_of_gets_keep_the_rules(void **state) {
  (void)state;
  static const char *const whats[] = {
      "reads get 1, which it has not received", "get 0 is read twice",
      "which was never written", "reads what was received as get 0",

      "never learns that its get was read"};
  gli_plan_params p = params(GLI_BROADCAST, 2, 12);
  gloo_error error;
  slip_of_copy = 0;
  if (run(build_copied, p, 0, &error) != GLOO_OK) fail_msg("%s", error.message);
  for (slip_of_copy = 1; slip_of_copy <= 5; slip_of_copy++) {
    refuse(build_copied, p, whats[slip_of_copy - 1], "rank ");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_of_gets_keep_the_rules),
      cmocka_unit_test(plans_without_slips_are_correct),
      cmocka_unit_test(every_broken_rule_is_named),
      cmocka_unit_test(rules_of_two_readers_are_named),
      cmocka_unit_test(writing_what_is_exposed_is_named),
      cmocka_unit_test(parts_in_several_turns_are_correct),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
