/* The check of `gloo bench`: right results pass, and a single wrong byte
 * anywhere fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka.h wants those above first */
#include <cmocka.h>
#include <uv.h>

#include "tools/bench_case.h"

static gloo_store *store;
static gloo_context *alone;

static int open_context(void **state) {
  (void)state;
  gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
  options.transport = "inproc";
  static gloo_device *device;
  if (gloo_store_memory_create(&store, NULL) != GLOO_OK) return -1;
  if (gloo_device_create(&options, &device, NULL) != GLOO_OK) return -1;
  *state = device;
  return gloo_context_create(0, 1, store, device, NULL, &alone, NULL);
}

static int close_context(void **state) {
  gloo_context_destroy(alone);
  gloo_device_destroy(*state);
  gloo_store_destroy(store);
  return 0;
}

/* Runs the call, then changes bytes one after the other. */
static void check_call(gli_collective collective, bool in_place) {
  gli_bench_call call = {.collective = collective,
                         .dtype = GLOO_INT32,
                         .op = GLOO_SUM,
                         .in_place = in_place};
  gli_bench_case c;
  gli_bench_buffers buffers;
  gloo_error error;
  char where[GLI_CASE_WHERE];
  assert_true(gli_case_init(&c, &call, alone, 5003));
  assert_int_equal(c.bytes, 5000);
  assert_true(gli_case_allocate(&c, &buffers));
  gli_case_fill(&c, &buffers);
  assert_int_equal(gli_case_run(&c, &buffers, &error), GLOO_OK);
  assert_true(gli_case_check(&c, &buffers, where));

  static const size_t places[] = {0, 3, 2500, 4083, 4084, 4999};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    uint8_t *byte = (uint8_t *)buffers.out + places[i];
    char expected[32];
    snprintf(expected, sizeof expected, "element %zu of", places[i] / 4);
    *byte ^= 1;
    assert_false(gli_case_check(&c, &buffers, where));
    assert_memory_equal(where, expected, strlen(expected));
    *byte ^= 1;
  }
  assert_true(gli_case_check(&c, &buffers, where));
  gli_case_free(&buffers);
  gli_case_destroy(&c);
}

static void a_wrong_byte_is_found(void **state) {
  (void)state;
  check_call(GLI_SENDRECV, false);
  for (int in_place = 0; in_place < 2; in_place++) {
    check_call(GLI_BROADCAST, in_place == 1);
    check_call(GLI_ALLREDUCE, in_place == 1);
    check_call(GLI_REDUCE_SCATTER, in_place == 1);
    check_call(GLI_ALLGATHER, in_place == 1);
    check_call(GLI_ALLTOALL, in_place == 1);
    check_call(GLI_SCAN, in_place == 1);
    check_call(GLI_GATHERV, in_place == 1);
    check_call(GLI_SCATTERV, in_place == 1);
    check_call(GLI_ALLGATHERV, in_place == 1);
    check_call(GLI_ALLTOALLV, in_place == 1);
    check_call(GLI_REDUCE_SCATTERV, in_place == 1);
  }
}

/* A call that does nothing must fail the check: outputs start with garbage. */
static void nothing_done_is_found(void **state) {
  (void)state;
  static const gli_collective all[] = {GLI_BROADCAST,      GLI_ALLREDUCE,
                                       GLI_REDUCE_SCATTER, GLI_ALLGATHER,
                                       GLI_ALLTOALL,       GLI_SENDRECV};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    gli_bench_call call = {.collective = all[i], .dtype = GLOO_FLOAT32};
    gli_bench_case c;
    gli_bench_buffers buffers;
    char where[GLI_CASE_WHERE];
    assert_true(gli_case_init(&c, &call, alone, 64));
    assert_true(gli_case_allocate(&c, &buffers));
    gli_case_fill(&c, &buffers);
    assert_false(gli_case_check(&c, &buffers, where));
    gli_case_free(&buffers);
    gli_case_destroy(&c);
  }
}

/* Memory from gloo_alloc holds the same results. */
static void shareable_buffers_are_used(void **state) {
  (void)state;
  gli_bench_call call = {.collective = GLI_ALLREDUCE,
                         .dtype = GLOO_FLOAT32,
                         .memory = GLI_BENCH_ALLOC};
  gli_bench_case c;
  gli_bench_buffers buffers;
  gloo_error error;
  char where[GLI_CASE_WHERE];
  assert_true(gli_case_init(&c, &call, alone, 100000));
  assert_true(gli_case_allocate(&c, &buffers));
  assert_int_equal(buffers.memory, GLI_BENCH_ALLOC);
  gli_case_fill(&c, &buffers);
  assert_false(gli_case_check(&c, &buffers, where));
  assert_int_equal(gli_case_run(&c, &buffers, &error), GLOO_OK);
  assert_true(gli_case_check(&c, &buffers, where));
  gli_case_free(&buffers);
  assert_null(buffers.in);
}

static void sizes_are_rounded_to_whole_elements(void **state) {
  (void)state;
  gli_bench_call call = {.collective = GLI_ALLGATHER, .dtype = GLOO_INT64};
  assert_int_equal(gli_case_bytes(&call, 3, 1), 24);
  assert_int_equal(gli_case_bytes(&call, 3, 47), 24);
  assert_int_equal(gli_case_bytes(&call, 3, 48), 48);
  call.collective = GLI_ALLREDUCE;
  assert_int_equal(gli_case_bytes(&call, 3, 47), 40);
  call.collective = GLI_BARRIER;
  assert_int_equal(gli_case_bytes(&call, 3, 47), 0);
}

/* Three ranks have blocks of 2, 1 and 3 units; in an alltoallv those of rank 1
 * and of rank 2, which has 3 + 2 + 0, differ. */
static void sizes_of_blocks_that_differ(void **state) {
  (void)state;
  gli_bench_call call = {.collective = GLI_ALLGATHERV, .dtype = GLOO_INT64};
  assert_int_equal(gli_case_bytes(&call, 3, 1), 48);
  assert_int_equal(gli_case_bytes(&call, 3, 95), 48);
  assert_int_equal(gli_case_bytes(&call, 3, 96), 96);
  call.collective = GLI_ALLTOALLV;
  assert_int_equal(gli_case_bytes(&call, 3, 96), 96);
  assert_int_equal(gli_case_bytes(&call, 2, 64), 64);
  assert_int_equal(gli_case_bytes(&call, 5, 100), 64);
}

/* ---- several ranks ------------------------------------------------------- */

enum { RANKS = 6 };

typedef struct member {
  uv_thread_t thread;
  gloo_store *store;
  int rank;
  char problem[640];
} member;

static void note(member *m, const gli_bench_call *call, const char *what) {
  if (m->problem[0] != 0) return;
  snprintf(m->problem, sizeof m->problem, "%s on rank %d: %s",
           gli_collective_name(call->collective), m->rank, what);
}

/* Returns the number of output bytes that the call defines; 0 for an in-place
 * call that scatters, whose output also holds other ranks' blocks. */
static size_t told_bytes(const gli_bench_case *c) {
  bool rest =
      gli_case_in_place(c) &&
      (c->call.collective == GLI_REDUCE_SCATTER ||
       c->call.collective == GLI_REDUCE_SCATTERV ||
       c->call.collective == GLI_SCATTER || c->call.collective == GLI_SCATTERV);
  return rest ? 0 : c->out_bytes;
}

/* Runs the case, and changes each byte of the output in turn. */
static void try_case(member *m, gli_bench_case *c,
                     const gli_bench_buffers *buffers) {
  char where[GLI_CASE_WHERE];
  gloo_error error;
  gli_case_fill(c, buffers);
  if (gli_case_run(c, buffers, &error) != GLOO_OK) {
    note(m, &c->call, error.message);
    return;
  }
  if (!gli_case_check(c, buffers, where)) note(m, &c->call, where);
  uint8_t *out = buffers->out;
  for (size_t i = 0; i < told_bytes(c); i++) {
    out[i] ^= 1;
    if (gli_case_check(c, buffers, where)) note(m, &c->call, "a byte is free");
    out[i] ^= 1;
  }
}

static void try_all(member *m, gloo_context *context) {
  gli_bench_case c;
  gli_bench_buffers buffers;
  for (int i = 0; i < GLI_COLLECTIVES * 2; i++) {
    gli_bench_call call = {.collective = (gli_collective)(i / 2),
                           .dtype = GLOO_FLOAT32,
                           .root = 4,
                           .in_place = i % 2 == 1};
    bool place =
        call.collective != GLI_BARRIER && call.collective != GLI_SENDRECV;
    if (call.in_place && !place) continue;
    if (!gli_case_init(&c, &call, context, 400) ||
        !gli_case_allocate(&c, &buffers)) {
      note(m, &call, "no memory");
      return;
    }
    try_case(m, &c, &buffers);
    gli_case_free(&buffers);
    gli_case_destroy(&c);
  }
}

static void member_main(void *user) {
  member *m = user;
  gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
  options.transport = "inproc";
  gloo_device *device = NULL;
  gloo_context *context = NULL;
  gloo_error error;
  gloo_status status = gloo_device_create(&options, &device, &error);
  if (status == GLOO_OK) {
    status = gloo_context_create(m->rank, RANKS, m->store, device, NULL,
                                 &context, &error);
  }
  if (status == GLOO_OK) {
    try_all(m, context);
  } else {
    snprintf(m->problem, sizeof m->problem, "%s", error.message);
  }
  gloo_context_destroy(context);
  gloo_device_destroy(device);
}

static void every_byte_of_every_rank_counts(void **state) {
  (void)state;
  static member members[RANKS];
  gloo_store *meeting;
  assert_int_equal(gloo_store_memory_create(&meeting, NULL), GLOO_OK);
  for (int r = 0; r < RANKS; r++) {
    members[r].rank = r;
    members[r].store = meeting;
    assert_int_equal(
        uv_thread_create(&members[r].thread, member_main, &members[r]), 0);
  }
  for (int r = 0; r < RANKS; r++) uv_thread_join(&members[r].thread);
  for (int r = 0; r < RANKS; r++) assert_string_equal(members[r].problem, "");
  gloo_store_destroy(meeting);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wrong_byte_is_found),
      cmocka_unit_test(shareable_buffers_are_used),
      cmocka_unit_test(nothing_done_is_found),
      cmocka_unit_test(sizes_are_rounded_to_whole_elements),
      cmocka_unit_test(sizes_of_blocks_that_differ),
      cmocka_unit_test(every_byte_of_every_rank_counts),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
