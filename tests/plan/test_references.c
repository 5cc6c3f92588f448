/* Memory of other ranks: the rules that the checker enforces, each broken on
 * purpose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "plan/check.h"
#include "plan/cmocka_all.h"

static gli_plan_params params(gli_collective collective, uint32_t size,
                              uint64_t count) {
  return (gli_plan_params){
      .collective = collective, .size = size, .count = count, .elem_bytes = 4};
}

/* ---- an allreduce with slips -------------------------------------------- */

/* What rank 1 does wrong. */
typedef enum slip {
  NO_SLIP,
  SENDS_BYTES,       /* where a view is expected */
  RECEIVES_BYTES,    /* where a view comes */
  SIGNALS,           /* where bytes are expected */
  LENDS_LESS,        /* than is borrowed */
  LENDS_ELSEWHERE,   /* another range than is filled */
  SHOWS_OTHER_BYTES, /* of what is lent, out of step with them */
  TOUCHES_LENT,      /* reads it before it is filled */
  WRITES_LENT,
  LENDS_TWICE,    /* to two ranks */
  READS_VIEW,     /* with another step than the reduction */
  MIXES_VIEWS,    /* reduces one as another */
  READS_TWICE,    /* a view */
  READS_SPARE,    /* what is in SCRATCH only where loans are out of reach */
  FORGETS_VIEW,   /* does not read it */
  FILLS_OTHER,    /* bytes than it wrote to the loan */
  CHANGES_RESULT, /* before the loan is given back */
  SWAPS_LOANS,    /* gives back that of another rank */
  WRITES_UNLENT,  /* to a loan that it has not got */
  REUSES_PLACE,   /* for two loans */
  KEEPS_LOAN,     /* sends bytes instead of filling it */
  /* of the allreduce of two: */
  OVERWRITES_VIEW, /* before it is read, with the same bytes */
  LEAVES_VIEW,     /* does not read it */
  LEAVES_LOAN,     /* does not give it back */
  WRITES_TWICE,    /* to one loan */
  WRITES_LATE,     /* to a loan that is given back */
  WRITES_LONGER,   /* than the loan is */
  SIGNALS_OTHER,   /* things than what it did with the view */
  SIGNALS_EARLY,   /* before it reads the view */
  LENDS_SCRATCH,   /* but receives into OUT */
  GIVES_TWICE,     /* back one loan instead of two */
  GIVES_UNLENT,    /* back what it has not borrowed */
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
  if (first && slips(p, LENDS_LESS)) out.bytes = 12;
  if (first && slips(p, LENDS_ELSEWHERE)) out = part(p, GLI_OUT, p->rank);
  if (!first && slips(p, LENDS_TWICE)) out.offset = 32, out.bytes = 16;
  gli_lend(b, rank, out);
  if (first && slips(p, SHOWS_OTHER_BYTES)) in.offset += 4, in.bytes -= 4;
  if (first && slips(p, SENDS_BYTES)) {
    gli_send(b, rank, in);
  } else {
    gli_send_view(b, rank, in);
  }
  if (first && slips(p, TOUCHES_LENT)) {
    gli_copy(b, part(p, GLI_OUT, rank), gli_scratch(b, 16));
  }
  if (first && slips(p, WRITES_LENT)) {
    gli_copy(b, part(p, GLI_IN, rank), part(p, GLI_OUT, rank));
  }
}

static void take(gli_builder *b, const gli_plan_params *p, uint32_t rank,
                 gli_range block, uint32_t view, uint32_t loan) {
  bool first = rank == (p->rank + 1) % p->size;
  gli_borrow(b, rank, block.bytes, loan);
  if (first && slips(p, RECEIVES_BYTES)) {
    gli_recv(b, rank, block);
  } else {
    gli_recv_view(b, rank, block, view);
  }
  if (first && slips(p, READS_VIEW)) {
    gli_copy(b, block, gli_scratch(b, block.bytes));
  }
}

static void reduce(gli_builder *b, const gli_plan_params *p, gli_reduction r) {
  if (slips(p, MIXES_VIEWS)) r.view++;
  if (slips(p, WRITES_UNLENT)) r.loan += 2;
  if (slips(p, FORGETS_VIEW)) {
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
  r.n_loans = 0;
  gli_reduce_all(b, &r);
}

static void give_back(gli_builder *b, const gli_plan_params *p, uint32_t rank,
                      uint32_t loan) {
  gli_range sum = part(p, GLI_OUT, p->rank);
  bool first = rank == (p->rank + 1) % p->size;
  if (first && slips(p, CHANGES_RESULT)) {
    gli_range copy = gli_scratch(b, sum.bytes);
    gli_copy(b, sum, copy);
    gli_copy(b, copy, sum); /* the same bytes: only the rule knows */
  }
  if (first && slips(p, FILLS_OTHER)) {
    gli_range copy = gli_scratch(b, sum.bytes);
    gli_copy(b, sum, copy);
    sum = copy;
  }
  if (first && slips(p, SIGNALS)) {
    gli_signal(b, rank, sum);
  } else if (first && slips(p, KEEPS_LOAN)) {
    gli_send(b, rank, sum);
  } else {
    gli_fill(b, rank, sum, loan);
  }
  gli_recv_filled(b, rank, part(p, GLI_OUT, rank));
}

/* Three ranks. */
static void build_fused(gli_builder *b, const gli_plan_params *p) {
  uint32_t next = (p->rank + 1) % 3, last = (p->rank + 2) % 3;
  uint32_t low = next < last ? next : last, high = next < last ? last : next;
  uint32_t views = gli_places(b, 3), loans = gli_places(b, 4);
  gli_range blocks = gli_scratch(b, 128);
  gli_range one = gli_bytes(GLI_SCRATCH, blocks.offset, 16);
  gli_range two = gli_bytes(GLI_SCRATCH, blocks.offset + 64, 16);
  offer(b, p, next);
  offer(b, p, last);
  take(b, p, low, one, views, loans);
  take(b, p, high, two, views + 1, slips(p, REUSES_PLACE) ? loans : loans + 1);
  gli_reduction r = {.local = part(p, GLI_IN, p->rank),
                     .dst = part(p, GLI_OUT, p->rank),
                     .own = p->rank,
                     .n = 2,
                     .blocks = one,
                     .stride = 64,
                     .view = views,
                     .loan = loans,
                     .n_loans = 2};
  reduce(b, p, r);
  bool swap = slips(p, SWAPS_LOANS);
  give_back(b, p, low, swap ? loans + 1 : loans);
  give_back(b, p, high, swap ? loans : loans + 1);
}

/* ---- two readers -------------------------------------------------------- */

/* What rank 0 does so that rank 1 can slip. */
static void help(gli_builder *b, const gli_plan_params *p) {
  if (p->rank != 0) return;
  if (now == OVERWRITES_VIEW) gli_send(b, 1, part(p, GLI_IN, 1));
  if (now == LEAVES_VIEW) gli_send_view(b, 1, part(p, GLI_IN, 1));
  if (now == LEAVES_LOAN || now == GIVES_TWICE) {
    gli_lend(b, 1, gli_bytes(GLI_SCRATCH, 0, 16));
  }
  if (now == WRITES_LONGER) gli_lend(b, 1, gli_scratch(b, 12));
}

static void be_helped(gli_builder *b, const gli_plan_params *p, gli_range block,
                      uint32_t spare) {
  if (slips(p, OVERWRITES_VIEW)) gli_recv(b, 0, block);
  if (slips(p, LEAVES_VIEW)) gli_recv_view(b, 0, gli_scratch(b, 16), spare);
  if (slips(p, LEAVES_LOAN) || slips(p, GIVES_TWICE)) {
    gli_borrow(b, 0, 16, spare);
  }
  if (slips(p, WRITES_LONGER)) gli_borrow(b, 0, 12, spare);
}

/* Two ranks. Each looks at the other's input twice: once for the result, which
 * is lent, and once more beside it. */
static void build_twice(gli_builder *b, const gli_plan_params *p) {
  uint32_t other = 1 - p->rank, view = gli_places(b, 2);
  uint32_t loan = gli_places(b, 1), spare = gli_places(b, 1);
  gli_range one = gli_scratch(b, 16), two = gli_scratch(b, 16);
  gli_range beside = gli_scratch(b, 16);
  gli_lend(
      b, other,
      slips(p, LENDS_SCRATCH) ? gli_scratch(b, 16) : part(p, GLI_OUT, other));
  gli_send_view(b, other, part(p, GLI_IN, other));
  gli_send_view(b, other, part(p, GLI_IN, other));
  help(b, p);
  gli_borrow(b, other, 16, loan);
  gli_recv_view(b, other, one, view);
  gli_recv_view(b, other, two, view + 1);
  be_helped(b, p, two, spare);
  gli_reduction r = {
      .local = part(p, GLI_IN, p->rank),
      .dst = beside,
      .own = p->rank,
      .n = 1,
      .blocks = two,
      .view = view + 1,
      .loan = slips(p, WRITES_LONGER) ? spare : loan,
      .n_loans = slips(p, WRITES_TWICE) || slips(p, WRITES_LONGER)};
  if (slips(p, SIGNALS_EARLY)) gli_signal(b, other, beside);
  if (!slips(p, WRITES_LATE)) gli_reduce_all(b, &r);
  gli_reduction sum = r;
  sum.dst = part(p, GLI_OUT, p->rank);
  sum.blocks = one;
  sum.view = view;
  sum.loan = loan;
  sum.n_loans = !slips(p, WRITES_LATE);
  gli_reduce_all(b, &sum);
  gli_fill(b, other, sum.dst, slips(p, GIVES_UNLENT) ? spare : loan);
  if (slips(p, GIVES_TWICE)) gli_fill(b, other, sum.dst, loan);
  if (slips(p, WRITES_LATE)) {
    r.n_loans = 1;
    gli_reduce_all(b, &r);
  }
  if (!slips(p, SIGNALS_EARLY)) {
    gli_signal(b, other, slips(p, SIGNALS_OTHER) ? one : beside);
  }
  gli_range filled = part(p, GLI_OUT, other);
  if (now == SIGNALS_EARLY && p->rank == 0) {
    gli_await(b, other, gli_bytes(GLI_TOKEN, 0, 1));
  }
  gli_recv_filled(b, other, filled);
  if (now == GIVES_TWICE && p->rank == 0) {
    gli_recv_filled(b, other, gli_bytes(GLI_SCRATCH, 0, 16));
  }
  if (now == SIGNALS_EARLY && p->rank == 0) return;
  gli_await(b, other, gli_bytes(GLI_TOKEN, 0, 1));
}

/* ---- running ------------------------------------------------------------ */

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

/* By value all of these are right. */
static void rules_of_two_readers_are_named(void **state) {
  (void)state;
  static const struct {
    slip slip;
    bool in_place;
    const char *what;
  } cases[] = {
      {NO_SLIP, true, "shows what is lent to rank"},
      {OVERWRITES_VIEW, false, "overwrites view 1, which was not read yet"},
      {LEAVES_VIEW, false, "view 3 is never read"},
      {LEAVES_LOAN, false, "loan 3 is never given back"},
      {WRITES_TWICE, false, "loan 2 is written twice"},
      {WRITES_LATE, false, "loan 2 was given back before"},
      {WRITES_LONGER, false, "loan 3 has another length"},
      {SIGNALS_OTHER, false, "rank 0 never hears that its view was read"},
      {SIGNALS_EARLY, false, "rank 0 never hears that its view was read"},
      {LENDS_SCRATCH, false, "is not what was lent"},
      {GIVES_TWICE, false, "gives back loan 2 twice"},
      {GIVES_UNLENT, false, "gives back loan 3, which it has not borrowed"},
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

/* ---- what is shown ------------------------------------------------------ */

/* In place, rank 1 moves its sum to where something is shown to rank 0. */
static void build_moved(gli_builder *b, const gli_plan_params *p,
                        gli_range heard) {
  uint32_t other = 1 - p->rank;
  gli_range sum = gli_elems(p, GLI_OUT, p->rank * p->count, p->count);
  gli_send_view(b, other, gli_elems(p, GLI_IN, other * p->count, p->count));
  gli_recv_reduce_view(b, other,
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

/* Rank 0 awaits in no memory. */
static void build_well(gli_builder *b, const gli_plan_params *p) {
  (p->rank == 0 ? build_unordered : build_ordered)(b, p);
}
static void build_badly(gli_builder *b, const gli_plan_params *p) {
  (p->rank == 0 ? build_unordered : build_half_ordered)(b, p);
}

static void writing_what_is_shown_is_named(void **state) {
  (void)state;
  gli_plan_params p = params(GLI_REDUCE_SCATTER, 2, 6);
  p.in_place = true;
  gloo_error error;
  if (run(build_well, p, 0, &error) != GLOO_OK) fail_msg("%s", error.message);
  refuse(build_unordered, p, "writes what is shown to rank 0",
         "rank 1, step 4");
  refuse(build_badly, p, "writes what is shown to rank 0", "rank 1, step 4");
}

/* ---- the algorithms ----------------------------------------------------- */

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
      {SENDS_BYTES, false, "expects a view, but", "of rank 1 sends bytes"},
      {RECEIVES_BYTES, false, "expects bytes, but", "rank 1, step"},
      {SIGNALS, false, "expects a filled loan", "of rank 1 sends a signal"},
      {LENDS_LESS, false, "borrows 16 bytes, but", "rank 1 lends 12"},
      {LENDS_ELSEWHERE, false, "what is lent to", "rank 1, step"},
      {SHOWS_OTHER_BYTES, false, "expects 16 bytes", "of rank 1 sends 12"},
      {TOUCHES_LENT, true, "reads what is lent to rank 2", "rank 1, step"},
      {WRITES_LENT, false, "writes what is lent to rank 2", "rank 1, step"},
      {LENDS_TWICE, false, "lends what is lent to rank 2", "rank 1, step"},
      {READS_VIEW, false, "reads what was received as view", "rank 1, step"},
      {MIXES_VIEWS, false, "received elsewhere", "rank 1, step"},
      {READS_TWICE, false, "view 0 is read twice", "rank 1, step"},
      {READS_SPARE, false, "which is for loans alone", "rank 1, step"},
      {FORGETS_VIEW, false, "reads what was received as view 0", "rank 1"},
      {FILLS_OTHER, false, "other bytes than were written", "rank 1, step"},
      {CHANGES_RESULT, false, "overwrites the result of step", "rank 1, step"},
      {SWAPS_LOANS, false, "back to another rank", "rank 1, step"},
      {WRITES_UNLENT, false, "has not borrowed", "rank 1, step"},
      {REUSES_PLACE, false, "place 3 is in use already", "rank 1, step"},
      {KEEPS_LOAN, false, "expects a filled loan", "rank 1 sends bytes"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    gli_plan_params p = params(GLI_ALLREDUCE, 3, 12);
    p.in_place = cases[i].in_place;
    now = cases[i].slip;
    refuse(build_fused, p, cases[i].what, cases[i].who);
  }
}

/* ---- copies of views ----------------------------------------------------- */

static int slip_of_copy;

/* Rank 1 copies what rank 0 shows. */
static void build_copied(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_range token = gli_bytes(GLI_TOKEN, 1, 1);
  if (p->rank == 0) {
    gli_send_view(b, 1, gli_elems(p, GLI_IN, 0, p->count));
    gli_copy(b, gli_elems(p, GLI_IN, 0, p->count), out);
    gli_await(b, 1, token);
    return;
  }
  gli_range block = gli_scratch(b, out.bytes), other = block;
  uint32_t view = gli_places(b, 2);
  gli_recv_view(b, 0, block, view);
  if (slip_of_copy == 1) view++;
  if (slip_of_copy == 2) gli_copy_view(b, block, view, out, 0, 0);
  if (slip_of_copy == 3) other = gli_scratch(b, out.bytes);
  if (slip_of_copy == 4) gli_copy(b, block, out);
  gli_copy_view(b, other, view, out, 0, 0);
  gli_signal(b, 0, slip_of_copy == 5 ? token : out);
}

static void copies_of_views_keep_the_rules(void **state) {
  (void)state;
  static const char *const whats[] = {
      "reads view 1, which it has not received", "view 0 is read twice",
      "which nothing has written", "reads what was received as view 0",

      "never hears that its view was read"};
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
      cmocka_unit_test(copies_of_views_keep_the_rules),
      cmocka_unit_test(plans_without_slips_are_correct),
      cmocka_unit_test(every_broken_rule_is_named),
      cmocka_unit_test(rules_of_two_readers_are_named),
      cmocka_unit_test(writing_what_is_shown_is_named),
      cmocka_unit_test(parts_in_several_turns_are_correct),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
