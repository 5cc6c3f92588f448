/* Matching of messages to operations: results, and no state changes. The test
 * uses structs alone, in states named in a table. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "engine/match_world.h"
#include "plan/cmocka_all.h"

/* ---- the table ------------------------------------------------------------
 */

#define SUM(its_tag, number, its_slot)                                       \
  {                                                                          \
    .type = GLI_MESSAGE_DATA, .collective = GLI_ALLREDUCE,                   \
    .dtype = GLOO_FLOAT32, .op = GLOO_SUM, .algorithm = 3, .tag = (its_tag), \
    .slot = (its_slot), .operation = (number), .count = 20                   \
  }
#define OTHER_SUM(its_tag, number)                                           \
  {                                                                          \
    .type = GLI_MESSAGE_DATA, .collective = GLI_ALLREDUCE,                   \
    .dtype = GLOO_FLOAT64, .op = GLOO_SUM, .algorithm = 3, .tag = (its_tag), \
    .operation = (number), .count = 20                                       \
  }
#define OTHER_MESSAGE(its_tag, number)                                         \
  {                                                                            \
    .type = GLI_MESSAGE_DATA, .collective = GLI_SENDRECV,                      \
    .dtype = GLOO_FLOAT64, .tag = (its_tag), .operation = (number), .count = 5 \
  }
#define EXCHANGE(number, its_slot, elements)                             \
  {                                                                      \
    .type = GLI_MESSAGE_DATA, .collective = GLI_ALLTOALLV,               \
    .dtype = GLOO_FLOAT32, .algorithm = 2, .tag = 7, .slot = (its_slot), \
    .operation = (number), .count = (elements)                           \
  }
#define MESSAGE(its_tag, number, its_slot)                       \
  {                                                              \
    .type = GLI_MESSAGE_DATA, .collective = GLI_SENDRECV,        \
    .dtype = GLOO_FLOAT32, .tag = (its_tag), .slot = (its_slot), \
    .operation = (number), .count = 5                            \
  }

static void nothing(world *w) {
  (void)w;
}

static void one_sum(world *w) {
  collective(w, &(gli_header)SUM(7, 3, 0));
}

/* The newest is in no table; the two before it share a bucket. */
static void three_sums(world *w) {
  collective(w, &(gli_header)SUM(7, 3, 0));
  collective(w, &(gli_header)SUM(7, 3 + GLI_BUCKETS, 0));
  collective(w, &(gli_header)SUM(7, 4, 0));
}

static void one_has_ended(world *w) {
  three_sums(w);
  gli_match_remove(&w->ops[A].op);
  gli_match_remove(&w->ops[C].op);
}

static void other_tag(world *w) {
  collective(w, &(gli_header)SUM(8, 3, 0));
}

static void exchange(world *w) {
  collective(w, &(gli_header)EXCHANGE(3, 0, 99));
}

static void receive_and_send(world *w) {
  message(w, RECEIVE, 1, &(gli_header)MESSAGE(7, 3, 0));
  message(w, SEND, 1, &(gli_header)MESSAGE(7, 3, 0));
}

static void send_and_receive(world *w) {
  message(w, SEND, 1, &(gli_header)MESSAGE(7, 3, 0));
  message(w, RECEIVE, 1, &(gli_header)MESSAGE(7, 3, 0));
}

/* Operations with number 3: messages from rank 1 and from rank 2, and a
 * collective. */
static void like_numbers(world *w) {
  message(w, RECEIVE, 1, &(gli_header)MESSAGE(7, 3, 0));
  message(w, RECEIVE, 2, &(gli_header)MESSAGE(7, 3, 0));
  collective(w, &(gli_header)SUM(7, 3, 0));
}

static void posted_for_one(world *w) {
  post(w, 7, 1u << 2, false);
}

static void posted_for_several(world *w) {
  post(w, 7, 1u << 1 | 1u << 3, false);
}

static void posted_for_any(world *w) {
  post(w, 7, 15, false);
}

static void posted_in_turn(world *w) {
  post(w, 7, 15, true); /* of another context */
  post(w, 7, 1u << 1 | 1u << 3, false);
  post(w, 7, 15, false);
  post(w, 7, 1u << 1, false);
}

/* Messages 0 to 3 of rank 1 have receives. */
static void posted_and_started(world *w) {
  post(w, 7, 15, false);
  message(w, RECEIVE, 1, &(gli_header)MESSAGE(7, 3, 0));
  find_so_many(w, 1, 7, 4);
}

static void posted_after_others(world *w) {
  post(w, 7, 15, false);
  find_so_many(w, 1, 7, 4);
}

static void early_without(world *w) {
  posted_after_others(w);
  park(w, 1, &(gli_header)MESSAGE(7, 4, 1), false);
}

static void found_and_over(world *w) {
  find_so_many(w, 1, 7, 4);
}

static void early_sum(world *w) {
  park(w, 1, &(gli_header)SUM(7, 3, 0), false);
}

static void over(world *w) {
  start_so_many(w, 7, 4);
  push_finished(w, &(gli_header)SUM(7, 3, 0));
}

static void exchange_over(world *w) {
  start_so_many(w, 7, 4);
  push_finished(w, &(gli_header)EXCHANGE(3, 0, 99));
}

static void long_over(world *w) {
  start_so_many(w, 7, 4 + FORGETS);
  for (unsigned i = 0; i <= FORGETS; i++) {
    push_finished(w, &(gli_header)SUM(7, 3 + i, 0));
  }
}

typedef struct row {
  const char *name;
  void (*state)(world *w);
  uint32_t from;
  gli_header header;
  answer expected;
} row;

/* Expected results: no operation; a step of an operation; an error; the first
 * message of a posted receive, or not; an operation that has completed. */
#define NONE \
  { .op = NOBODY }
#define FINDS(what, its_step) \
  { .op = (what), .step = (its_step) }
#define FINDS_BEFORE(what, its_step, other) \
  { .op = (what), .step = (its_step), .posted = (other) }
#define REFUSES(what, error) \
  { .op = (what), .status = (error) }
#define CLAIMS(what) \
  { .op = (what), .posted = (what) }
#define LEAVES(what) \
  { .op = NOBODY, .posted = (what) }
#define OVER_LEAVES(what) \
  { .op = NOBODY, .over = true, .posted = (what) }
#define OVER(error) \
  { .op = NOBODY, .over = true, .late = (error) }
#define ROW(name, state, from, header, answer) \
  { name, state, from, header, answer }

static const row rows[] = {
    ROW("nothing is here", nothing, 1, SUM(7, 3, 0), NONE),
    ROW("a message, and nothing is here", nothing, 1, MESSAGE(7, 3, 0), NONE),

    ROW("the first receive from its first peer", one_sum, 1, SUM(7, 3, 0),
        FINDS(A, 10)),
    ROW("the second one", one_sum, 1, SUM(7, 3, 1), FINDS(A, 11)),
    ROW("the receive from its second peer", one_sum, 2, SUM(7, 3, 0),
        FINDS(A, 20)),
    ROW("one slot too many", one_sum, 1, SUM(7, 3, 2),
        REFUSES(A, GLOO_ERR_PROTOCOL)),
    ROW("a slot that only another peer has", one_sum, 2, SUM(7, 3, 1),
        REFUSES(A, GLOO_ERR_PROTOCOL)),
    ROW("the last slot that there could be", one_sum, 1, SUM(7, 3, UINT32_MAX),
        REFUSES(A, GLOO_ERR_PROTOCOL)),
    ROW("a rank that its plan does not know", one_sum, 3, SUM(7, 3, 0),
        REFUSES(A, GLOO_ERR_PROTOCOL)),
    ROW("this rank itself", one_sum, 0, SUM(7, 3, 0),
        REFUSES(A, GLOO_ERR_PROTOCOL)),
    ROW("the next number", one_sum, 1, SUM(7, 4, 0), NONE),
    ROW("the number before", one_sum, 1, SUM(7, 2, 0), NONE),
    ROW("another tag", one_sum, 1, SUM(8, 3, 0), NONE),
    ROW("the other tag is here", other_tag, 1, SUM(8, 3, 0), FINDS(A, 10)),
    ROW("another signature", one_sum, 1, OTHER_SUM(7, 3),
        REFUSES(A, GLOO_ERR_MISMATCH)),
    ROW("another collective", one_sum, 1, EXCHANGE(3, 0, 10),
        REFUSES(A, GLOO_ERR_MISMATCH)),
    ROW("a message with tag and number of a collective", one_sum, 1,
        MESSAGE(7, 3, 0), NONE),

    ROW("the newest of three", three_sums, 1, SUM(7, 4, 0), FINDS(C, 10)),
    ROW("the oldest of three", three_sums, 1, SUM(7, 3, 0), FINDS(A, 10)),
    ROW("what shares its bucket", three_sums, 2, SUM(7, 3 + GLI_BUCKETS, 0),
        FINDS(B, 20)),
    ROW("none of its bucket", three_sums, 2, SUM(7, 3 + 2 * GLI_BUCKETS, 0),
        NONE),
    ROW("one that has ended", one_has_ended, 1, SUM(7, 3, 0), NONE),
    ROW("the newest has ended", one_has_ended, 1, SUM(7, 4, 0), NONE),
    ROW("the one of them that is left", one_has_ended, 1,
        SUM(7, 3 + GLI_BUCKETS, 0), FINDS(B, 10)),

    ROW("elements as expected", exchange, 1, EXCHANGE(3, 1, 10), FINDS(A, 11)),
    ROW("one element too many", exchange, 1, EXCHANGE(3, 0, 11),
        REFUSES(A, GLOO_ERR_MISMATCH)),
    ROW("one element too few", exchange, 1, EXCHANGE(3, 0, 9),
        REFUSES(A, GLOO_ERR_MISMATCH)),
    ROW("the count of the operation is not that of the two", exchange, 1,
        EXCHANGE(3, 0, 99), REFUSES(A, GLOO_ERR_MISMATCH)),
    ROW("no elements where none are expected", exchange, 2, EXCHANGE(3, 0, 0),
        FINDS(A, 20)),
    ROW("elements where none are expected", exchange, 2, EXCHANGE(3, 0, 1),
        REFUSES(A, GLOO_ERR_MISMATCH)),
    ROW("counts are asked before slots", exchange, 1, EXCHANGE(3, 2, 11),
        REFUSES(A, GLOO_ERR_MISMATCH)),
    ROW("a rank that it has no count of", exchange, 3, EXCHANGE(3, 0, 10),
        REFUSES(A, GLOO_ERR_PROTOCOL)),

    ROW("a receive, older than a send with its number", receive_and_send, 1,
        MESSAGE(7, 3, 0), FINDS(A, 10)),
    ROW("a receive, newer than a send with its number", send_and_receive, 1,
        MESSAGE(7, 3, 2), FINDS(B, 12)),
    ROW("one slot more than a message has", send_and_receive, 1,
        MESSAGE(7, 3, 3), REFUSES(B, GLOO_ERR_PROTOCOL)),
    ROW("another tag between the same ranks", send_and_receive, 1,
        MESSAGE(8, 3, 0), NONE),
    ROW("a message of another type", send_and_receive, 1, OTHER_MESSAGE(7, 3),
        REFUSES(B, GLOO_ERR_MISMATCH)),
    ROW("the number of another rank's message", send_and_receive, 2,
        MESSAGE(7, 3, 0), NONE),
    ROW("a collective with tag and number of a message", send_and_receive, 1,
        SUM(7, 3, 0), NONE),
    ROW("number 3 of one rank", like_numbers, 1, MESSAGE(7, 3, 1),
        FINDS(A, 11)),
    ROW("number 3 of another rank", like_numbers, 2, MESSAGE(7, 3, 1),
        FINDS(B, 11)),
    ROW("number 3 of a third rank", like_numbers, 3, MESSAGE(7, 3, 1), NONE),
    ROW("collective number 3", like_numbers, 1, SUM(7, 3, 1), FINDS(C, 11)),

    ROW("posted for this rank", posted_for_one, 2, MESSAGE(7, 0, 0), CLAIMS(A)),
    ROW("posted for another rank", posted_for_one, 3, MESSAGE(7, 0, 0), NONE),
    ROW("posted with another tag", posted_for_one, 2, MESSAGE(8, 0, 0), NONE),
    ROW("no first part: it claims nothing", posted_for_one, 2, MESSAGE(7, 0, 1),
        LEAVES(A)),
    ROW("a collective claims nothing", posted_for_one, 2, SUM(7, 0, 0),
        LEAVES(A)),
    ROW("the first of several ranks", posted_for_several, 1, MESSAGE(7, 0, 0),
        CLAIMS(A)),
    ROW("none of several ranks", posted_for_several, 2, MESSAGE(7, 0, 0), NONE),
    ROW("the last of several ranks", posted_for_several, 3, MESSAGE(7, 0, 0),
        CLAIMS(A)),
    ROW("posted for any rank", posted_for_any, 2, MESSAGE(7, 0, 0), CLAIMS(A)),
    ROW("posted for any, and this rank itself", posted_for_any, 0,
        MESSAGE(7, 0, 0), CLAIMS(A)),
    ROW("the oldest that takes it, not of another context", posted_in_turn, 1,
        MESSAGE(7, 0, 0), CLAIMS(B)),
    ROW("the oldest does not take it", posted_in_turn, 2, MESSAGE(7, 0, 0),
        CLAIMS(C)),
    ROW("a running receive goes before posted ones", posted_and_started, 1,
        MESSAGE(7, 3, 0), FINDS_BEFORE(B, 10, A)),
    ROW("another number goes to the posted one", posted_and_started, 1,
        MESSAGE(7, 4, 0), CLAIMS(A)),

    ROW("the next message goes to the posted one", posted_after_others, 1,
        MESSAGE(7, 4, 0), CLAIMS(A)),
    ROW("one that others come before does not", posted_after_others, 1,
        MESSAGE(7, 5, 0), LEAVES(A)),
    ROW("nor does one that had its receive", posted_after_others, 1,
        MESSAGE(7, 3, 0), OVER_LEAVES(A)),
    ROW("the first message of another rank", posted_after_others, 2,
        MESSAGE(7, 0, 0), CLAIMS(A)),
    ROW("other ranks count for themselves", posted_after_others, 2,
        MESSAGE(7, 4, 0), LEAVES(A)),
    ROW("a later part came before the first", early_without, 1,
        MESSAGE(7, 4, 0), CLAIMS(A)),
    ROW("a collective that is early", early_sum, 1, SUM(7, 3, 1), NONE),

    ROW("it is over", over, 1, SUM(7, 3, 1), OVER(GLOO_OK)),
    ROW("it is over, and was another call", over, 1, OTHER_SUM(7, 3),
        OVER(GLOO_ERR_MISMATCH)),
    ROW("it is over, and forgotten", over, 1, OTHER_SUM(7, 2), OVER(GLOO_OK)),
    ROW("it is not over yet", over, 1, OTHER_SUM(7, 4), NONE),
    ROW("another tag has not come so far", over, 1, OTHER_SUM(8, 3), NONE),
    ROW("collectives do not count messages", over, 1, MESSAGE(7, 2, 0), NONE),
    ROW("a message that had its receive", found_and_over, 1, MESSAGE(7, 3, 0),
        OVER(GLOO_OK)),
    ROW("the next message", found_and_over, 1, MESSAGE(7, 4, 0), NONE),
    ROW("messages of another rank", found_and_over, 2, MESSAGE(7, 3, 0), NONE),
    ROW("messages with another tag", found_and_over, 1, MESSAGE(8, 3, 0), NONE),
    ROW("messages do not count collectives", found_and_over, 1, SUM(7, 3, 0),
        NONE),
    ROW("counts of two ranks are not compared when it is over", exchange_over,
        1, EXCHANGE(3, 0, 11), OVER(GLOO_OK)),
    ROW("the oldest that is remembered", long_over, 1, OTHER_SUM(7, 4),
        OVER(GLOO_ERR_MISMATCH)),
    ROW("one of the newest that are remembered", long_over, 1,
        OTHER_SUM(7, 2 + FORGETS), OVER(GLOO_ERR_MISMATCH)),
    ROW("the newest of all", long_over, 1, OTHER_SUM(7, 3 + FORGETS),
        OVER(GLOO_ERR_MISMATCH)),
    ROW("the newest that is forgotten", long_over, 1, OTHER_SUM(7, 3),
        OVER(GLOO_OK)),
};

static void every_state_has_its_answer(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world *w = world_new();
    rows[i].state(w);
    answer got = ask(rows[i].name, w, rows[i].from, &rows[i].header);
    assert_answer(rows[i].name, &got, &rows[i].expected);
    world_free(w);
  }
}

/* A wrong hint costs time only. */
static void hints_decide_nothing(void **state) {
  (void)state;
  for (uint32_t hint = 0; hint < 4; hint++) {
    for (uint32_t from = 0; from < BARE_SIZE; from++) {
      world *w = world_new();
      one_sum(w);
      gli_link *link = &w->rank.links[from];
      link->hint = hint;
      uint32_t peer = from == 1 ? 0 : from == 2 ? 1 : GLI_NO_PEER;
      assert_int_equal(gli_match_peer(&w->ops[A].op, link), peer);
      assert_int_equal(link->hint, peer == GLI_NO_PEER ? hint : peer);
      world_free(w);
    }
  }
}

/* ---- signatures, field by field ------------------------------------------ */

static void every_field_of_a_signature_counts(void **state) {
  (void)state;
#define FIELD(name, status) \
  { #name, offsetof(gli_header, name), sizeof(((gli_header *)0)->name), status }
  static const struct {
    const char *name;
    size_t at, bytes;
    gloo_status status;
  } fields[] = {
      FIELD(tuning, GLOO_ERR_MISMATCH),
      FIELD(collective, GLOO_ERR_MISMATCH),
      FIELD(dtype, GLOO_ERR_MISMATCH),
      FIELD(op, GLOO_ERR_MISMATCH),
      FIELD(tag, GLOO_ERR_MISMATCH),
      FIELD(algorithm, GLOO_ERR_MISMATCH),
      FIELD(root, GLOO_ERR_MISMATCH),
      FIELD(count, GLOO_ERR_MISMATCH),
      FIELD(mark, GLOO_OK),
      FIELD(context, GLOO_OK),
      FIELD(credit, GLOO_OK),
      FIELD(number, GLOO_OK),
      FIELD(length, GLOO_OK),
  };
#undef FIELD
  world *w = world_new();
  one_sum(w);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    for (size_t bit = 0; bit < 8 * fields[i].bytes; bit++) {
      gli_header h = SUM(7, 3, 1);
      uint8_t bytes[sizeof h];
      memcpy(bytes, &h, sizeof h);
      bytes[fields[i].at + bit / 8] ^= (uint8_t)(1u << bit % 8);
      memcpy(&h, bytes, sizeof h);
      uint32_t step;
      gloo_status status =
          ask_step(fields[i].name, &w->ops[A].op, &w->rank.links[1], &h, &step);
      if (status != fields[i].status) {
        fail_msg("bit %zu of %s: status %d", bit, fields[i].name, status);
      }
    }
  }
  world_free(w);
}

/* ---- which early message a receive takes --------------------------------- */

typedef struct receive_row {
  const char *name;
  uint32_t tag, takes;
  uint64_t found; /* number of messages of rank 1 with tag 7 that have
                     receives */
  int expected;   /* index of the early message; -1: none */
} receive_row;

static void receives_take_the_oldest_envelope(void **state) {
  (void)state;
  static const receive_row receives[] = {
      {"one rank's oldest", 7, 1u << 1, 0, 1},
      {"one rank's, behind others", 7, 1u << 3, 0, 4},
      {"the oldest of several ranks", 7, 1u << 2 | 1u << 3, 0, 3},
      {"the oldest of all", 7, 15, 0, 1},
      {"the only one with its tag", 8, 15, 0, 2},
      {"none of this rank", 8, 1u << 2, 0, -1},
      {"none of this tag", 9, 15, 0, -1},
      {"an envelope it must be", 7, 1u << 0, 0, -1},
      {"the oldest has a receive: the next one", 7, 1u << 1, 1, 5},
      {"the oldest has a receive: another rank's", 7, 15, 1, 3},
      {"all have receives", 7, 1u << 1, 2, -1},
  };
  for (size_t i = 0; i < sizeof receives / sizeof *receives; i++) {
    const receive_row *r = &receives[i];
    world *w = world_new();
    park(w, 0, &(gli_header)MESSAGE(7, 0, 1), false);
    park(w, 1, &(gli_header)MESSAGE(7, 0, 0), true);
    park(w, 1, &(gli_header)MESSAGE(8, 0, 0), true);
    park(w, 2, &(gli_header)MESSAGE(7, 0, 0), true);
    park(w, 3, &(gli_header)MESSAGE(7, 0, 0), true);
    park(w, 1, &(gli_header)MESSAGE(7, 1, 0), true);
    post(w, r->tag, r->takes, false);
    find_so_many(w, 1, 7, r->found);
    snapshot *before = calloc(1, sizeof *before);
    assert_non_null(before);
    remember(w, before);
    const gli_early *found = gli_match_envelope(&w->ops[A].op);
    assert_unchanged(r->name, w, before);
    free(before);
    if (found != (r->expected < 0 ? NULL : w->early[r->expected])) {
      fail_msg("%s: it takes another one", r->name);
    }
    world_free(w);
  }
}

/* ---- real plans ---------------------------------------------------------- */

/* In the plans of all algorithms every message that a rank receives leads to
 * the step that waits for it, and no step is left over. */
static void every_receive_of_a_plan_is_found(void **state) {
  (void)state;
  size_t found = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *algorithm = &gli_algorithms[i];
    if (gli_collective_counted(algorithm->collective)) continue;
    gli_plan_params params = {.collective = algorithm->collective,
                              .size = BARE_SIZE,
                              .root = BARE_SIZE - 1,
                              .count = 64,
                              .elem_bytes = 4,
                              .segment_bytes = 16};
    if (params.collective == GLI_BARRIER) {
      params.count = 0;
      params.elem_bytes = 1;
    }
    gli_plan *plan;
    gloo_error error;
    if (gli_plan_make(algorithm->build, &params, &plan, &error) != GLOO_OK) {
      fail_msg("%s: %s", algorithm->name, error.message);
    }
    world *w = world_new();
    made *m = make(w, COLLECTIVE,
                   &(gli_header){.collective = (uint8_t)params.collective});
    gli_op_peer peers[BARE_SIZE] = {{.link = NULL}};
    m->op.plan = plan;
    m->op.peers = peers;
    for (uint32_t p = 0; p < plan->n_peers; p++) {
      peers[p].link = &w->rank.links[plan->peers[p].rank];
      gli_header behind = m->op.signature;
      behind.slot = plan->peers[p].recvs;
      uint32_t step;
      assert_int_equal(
          ask_step(algorithm->name, &m->op, peers[p].link, &behind, &step),
          GLOO_ERR_PROTOCOL);
    }
    for (uint32_t s = 0; s < plan->n_steps; s++) {
      const gli_step *receive = &plan->steps[s];
      if (receive->peer == GLI_NO_PEER || receive->kind == GLI_STEP_SEND) {
        continue;
      }
      gli_header h = m->op.signature;
      h.slot = receive->slot;
      uint32_t step;
      assert_int_equal(ask_step(algorithm->name, &m->op,
                                peers[receive->peer].link, &h, &step),
                       GLOO_OK);
      assert_int_equal(step, s);
      found++;
    }
    world_free(w);
    gli_plan_free(plan);
  }
  assert_true(found > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_state_has_its_answer),
      cmocka_unit_test(hints_decide_nothing),
      cmocka_unit_test(every_field_of_a_signature_counts),
      cmocka_unit_test(receives_take_the_oldest_envelope),
      cmocka_unit_test(every_receive_of_a_plan_is_found),
  };
  return cmocka_run_group_tests_name("engine match", tests, NULL, NULL);
}
