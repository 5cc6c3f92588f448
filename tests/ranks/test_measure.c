/* Link measurements at the creation of a context: all ranks choose by rank 0's
 * results, and a rank that disturbs the measurement is named. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "algorithms/tuning.h"
#include "core/bytes.h"
#include "core/cpu.h"
#include "engine/engine.h"
#include "ranks.h"
#include "rendezvous/join/bootstrap.h"

#define SECOND INT64_C(1000000000)
#define TAG UINT32_MAX /* tag of measurement messages */

static const char *transport;

static void run(int size, int measure, const char *const *host_ids,
                rank_body body) {
  ranks_options o = {
      .transport = transport, .measure = measure, .host_ids = host_ids};
  ranks_run(size, &o, body);
}

/* ---- what is found ------------------------------------------------------- */

static void all_have_one_table(rank_env *env) {
  const gli_tuning *tuning = gli_context_tuning(env->context);
  RANK_CHECK(env, tuning != NULL);
  if (tuning == NULL) return;
  uint8_t bytes[GLI_COSTS_BYTES], first[GLI_COSTS_BYTES];
  gli_costs costs;
  gli_costs_encode(&tuning->costs, bytes);
  RANK_CHECK(env, gli_costs_decode(bytes, &costs));
  memcpy(first, bytes, sizeof first);
  RANK_OK(env, gloo_broadcast(env->context, GLOO_IN_PLACE, first, sizeof first,
                              GLOO_UINT8, 0, NULL, NULL));
  RANK_CHECK(env, memcmp(first, bytes, sizeof first) == 0);
  double one = 1, sum = 0;
  RANK_OK(env, gloo_allreduce(env->context, &one, &sum, 1, GLOO_FLOAT64,
                              GLOO_SUM, NULL, NULL));
  RANK_CHECK(env, sum == env->size);
}

static void two_ranks_have_one_table(void **state) {
  (void)state;
  run(2, 1, NULL, all_have_one_table);
}

static void hosts_have_one_table(void **state) {
  (void)state;
  static const char *const mixed[] = {"a", "b", "b", "a", "c"};
  run(5, 1, mixed, all_have_one_table);
  static const char *const alone[] = {"a", "b", "b"};
  run(3, 1, alone, all_have_one_table);
}

static void nobody_has_a_table(rank_env *env) {
  RANK_CHECK(env, gli_context_tuning(env->context) == NULL);
}

static void nothing_is_measured_unless_wanted(void **state) {
  (void)state;
  run(2, 0, NULL, nobody_has_a_table);
  run(2, -1, NULL, nobody_has_a_table);
}

static void more_ranks_than_cores_go_by_estimates(void **state) {
  (void)state;
  unsigned cores = gli_cpu_effective();
  if (cores > 15) skip();
  run((int)cores + 1, 1, NULL, nobody_has_a_table);
}

/* ---- tables that differ -------------------------------------------------- */

static void one_has_another_table(rank_env *env) {
  gli_costs costs = gli_costs_estimate;
  if (env->rank == 1) costs.gamma_ps *= 4;
  gli_tuning *tuning;
  RANK_CHECK(env,
             gli_tuning_with_costs(NULL, &costs, &tuning, NULL) == GLOO_OK);
  gli_context_set_tuning(env->context, tuning);
  float x = 0;
  gloo_status status = gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1,
                                      GLOO_FLOAT32, GLOO_SUM, NULL, NULL);
  RANK_CHECK(env, status == GLOO_ERR_MISMATCH);
  gloo_error error;
  gloo_context_error(env->context, &error);
  RANK_CHECK(env, strstr(error.message, "with a different tuning table"));
}

static void a_table_that_differs_is_found_by_the_first_message(void **state) {
  (void)state;
  run(2, -1, NULL, one_has_another_table);
}

/* ---- ranks that deviate from the protocol -------------------------------- */

/* Two ranks: the first one measures in a thread, and `other` deviates. */
typedef struct scene {
  gloo_store *store;
  int rank, measure;
  gloo_status status;
  gloo_error error;
} scene;

static gloo_device *open_device(void) {
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_device *device;
  d.transport = transport;
  assert_int_equal(gloo_device_create(&d, &device, NULL), GLOO_OK);
  return device;
}

static void make_context(void *argument) {
  scene *s = argument;
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  o.timeout_ns = 20 * SECOND;
  o.measure = s->measure;
  gloo_device *device = open_device();
  gloo_context *context;
  s->status = gloo_context_create(s->rank, 2, s->store, device, &o, &context,
                                  &s->error);
  if (s->status == GLOO_OK) gloo_context_destroy(context);
  gloo_device_destroy(device);
}

/* Returns a context whose ranks are connected and agree to measure. */
static gloo_context *meet(gloo_store *store, gloo_device *device, int rank) {
  gloo_context *context;
  const gli_agreement agreement = {.measures = true};
  uint64_t key = 4711 + (uint64_t)rank;
  gloo_error error;
  assert_int_equal(gli_context_open(device, (uint32_t)rank, 2, key, NULL,
                                    20 * SECOND, &context, &error),
                   GLOO_OK);
  if (gli_bootstrap_ranks(context, store, key, NULL, &agreement, 20 * SECOND,
                          NULL, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  assert_int_equal(gli_context_join_tree(context, &error), GLOO_OK);
  return context;
}

static void expect(int rank, void (*other)(gloo_context *), gloo_status status,
                   const char *part) {
  scene s = {.rank = rank, .measure = 1};
  uv_thread_t thread;
  assert_int_equal(gloo_store_memory_create(&s.store, NULL), GLOO_OK);
  assert_int_equal(uv_thread_create(&thread, make_context, &s), 0);
  gloo_device *device = open_device();
  gloo_context *context = meet(s.store, device, 1 - rank);
  if (other) other(context);
  gli_context_close(context);
  uv_thread_join(&thread);
  gloo_device_destroy(device);
  gloo_store_destroy(s.store);
  assert_int_equal(s.status, status);
  assert_int_equal(s.error.rank, 1 - rank);
  assert_non_null(strstr(s.error.message, "measuring links: "));
  if (strstr(s.error.message, part) == NULL) fail_msg("%s", s.error.message);
}

static void who_leaves_is_named(void **state) {
  (void)state;
  expect(0, NULL, GLOO_ERR_PEER, "rank 1");
  expect(1, NULL, GLOO_ERR_PEER, "rank 0");
}

/* Acts as rank 0: sends `first` as a ping, reads the answer and sends a
 * table. */
static void be_rank_0(gloo_context *context, uint8_t first, bool table) {
  uint8_t bytes[GLI_COSTS_BYTES] = {first};
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = TAG;
  assert_int_equal(gloo_send(context, bytes, 8, GLOO_UINT8, 1, &o, NULL),
                   GLOO_OK);
  assert_int_equal(gloo_recv(context, bytes, 8, GLOO_UINT8, 1, &o, NULL),
                   GLOO_OK);
  if (!table) return;
  gli_costs_encode(&gli_costs_estimate, bytes);
  bytes[5]++;
  o.algorithm = "binomial";
  assert_int_equal(gloo_broadcast(context, GLOO_IN_PLACE, bytes, sizeof bytes,
                                  GLOO_UINT8, 0, &o, NULL),
                   GLOO_OK);
}

static void say_nonsense(gloo_context *context) {
  be_rank_0(context, 77, false);
}

static void send_nonsense(gloo_context *context) {
  be_rank_0(context, 3, true);
}

static void nonsense_of_rank_0_is_refused(void **state) {
  (void)state;
  expect(1, say_nonsense, GLOO_ERR_PROTOCOL,
         "rank 0 measures links differently");
  expect(1, send_nonsense, GLOO_ERR_PROTOCOL, "rank 0 sent invalid costs");
}

/* Elements are sent without conversion, so all ranks must have one byte
 * order. */
static void machines_must_have_one_byte_order(void **state) {
  (void)state;
  for (int other = 0; other < 2; other++) {
    scene s = {.rank = 1 - other, .measure = -1};
    const gli_agreement agreement = {.big_endian = !gli_big_endian()};
    gloo_error error;
    gloo_context *context;
    uv_thread_t thread;
    assert_int_equal(gloo_store_memory_create(&s.store, NULL), GLOO_OK);
    assert_int_equal(uv_thread_create(&thread, make_context, &s), 0);
    gloo_device *device = open_device();
    assert_int_equal(gli_context_open(device, (uint32_t)other, 2, 4711, NULL,
                                      20 * SECOND, &context, &error),
                     GLOO_OK);
    assert_int_equal(gli_bootstrap_ranks(context, s.store, 4711, NULL,
                                         &agreement, 20 * SECOND, NULL, &error),
                     GLOO_ERR_MISMATCH);
    gli_context_close(context);
    uv_thread_join(&thread);
    gloo_device_destroy(device);
    gloo_store_destroy(s.store);
    assert_int_equal(s.status, GLOO_ERR_MISMATCH);
    assert_int_equal(s.error.rank, 1);
    assert_string_equal(s.error.message, error.message);
    assert_non_null(strstr(error.message, "the same byte order"));
  }
}

static void all_must_measure_or_none(void **state) {
  (void)state;
  scene s[2];
  uv_thread_t threads[2];
  gloo_store *store;
  assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
  for (int i = 0; i < 2; i++) {
    s[i] = (scene){.store = store, .rank = i, .measure = i == 0 ? 1 : -1};
    assert_int_equal(uv_thread_create(&threads[i], make_context, &s[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    uv_thread_join(&threads[i]);
    assert_int_equal(s[i].status, GLOO_ERR_MISMATCH);
    assert_int_equal(s[i].error.rank, 1);
    assert_non_null(strstr(s[i].error.message,
                           "rank 1 does not measure links, unlike rank 0"));
  }
  gloo_store_destroy(store);
}

/* ---- a rank that dies ---------------------------------------------------- */

static gloo_store *file_store(const char *directory) {
  gloo_store_file_options o = GLOO_STORE_FILE_OPTIONS_INIT;
  o.directory = directory;
  gloo_store *store;
  gloo_error error;
  if (gloo_store_file_create(&o, &store, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  return store;
}

/* The child connects to rank 0, which then waits for its answers, and dies. */
static void who_is_killed_is_named(void **state) {
  (void)state;
  char directory[] = "/tmp/gloo_measure_XXXXXX";
  assert_non_null(mkdtemp(directory));
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    meet(file_store(directory), open_device(), 1);
    raise(SIGKILL);
  }
  scene s = {.store = file_store(directory), .rank = 0, .measure = 1};
  make_context(&s);
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  gloo_store_destroy(s.store);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", directory);
  assert_int_equal(system(command), 0);
  assert_int_equal(s.status, GLOO_ERR_PEER);
  assert_int_equal(s.error.rank, 1);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_is_killed_is_named), /* before threads */
      cmocka_unit_test(two_ranks_have_one_table),
      cmocka_unit_test(hosts_have_one_table),
      cmocka_unit_test(nothing_is_measured_unless_wanted),
      cmocka_unit_test(more_ranks_than_cores_go_by_estimates),
      cmocka_unit_test(a_table_that_differs_is_found_by_the_first_message),
      cmocka_unit_test(who_leaves_is_named),
      cmocka_unit_test(nonsense_of_rank_0_is_refused),
      cmocka_unit_test(machines_must_have_one_byte_order),
      cmocka_unit_test(all_must_measure_or_none),
  };
  transport = argc > 1 ? argv[1] : "inproc";
  /* A rank of an inproc job cannot be killed alone. */
  size_t n = sizeof tests / sizeof *tests;
  size_t first = strcmp(transport, "inproc") == 0;
  return _cmocka_run_group_tests(transport, tests + first, n - first, NULL,
                                 NULL);
}
