/* GPU memory on drivers that behave as badly as they may: streams that are full
 * or share a channel, pinning that waits for the device, memory that cannot be
 * pinned, queries that fail. Each test ends the process if it hangs. With a real
 * driver the switches of the stand-in do nothing, and tests that need it are left
 * out. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda/sum.h"

enum { RANKS = 2, HANGS_S = 100 };

static const char *transport;

/* Functions of the stand-in; NULL with a real driver. */
static struct {
  int (*blocked)(void);
  void (*capture)(void *stream, int on);
  void (*break_all)(int result);
} standin;

/* Returns true if streams can wait in memory. */
static bool streams_can_wait(void) {
  return strcmp(gpu_name(), "CUDA") == 0;
}

static void find(void *function, const char *name) {
  void *symbol = gpu_symbol(name);
  memcpy(function, &symbol, sizeof symbol);
}

static int setup(void **state) {
  (void)state;
  alarm(HANGS_S);
  return 0;
}

static int teardown(void **state) {
  static const char *const set[] = {
      "GLOO_STREAM_WAIT_VALUE", "GLOO_CUDA_STAGING", "STANDIN_QUEUE",
      "STANDIN_LANES",          "STANDIN_PIN_SYNCS", "STANDIN_UNPINNED",
      "STANDIN_PAGEABLE_SYNCS"};
  (void)state;
  for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) unsetenv(set[i]);
  alarm(0);
  return 0;
}

static void nap_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&t, &t) != 0) continue;
}

static void run_ranks(rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, body);
}

static void add_on_the_host(rank_env *env, unsigned tag) {
  gloo_options o = GLOO_OPTIONS_INIT;
  float x = 1;
  o.tag = tag;
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_FLOAT32,
                              GLOO_SUM, &o, NULL));
  RANK_CHECK(env, x == (float)env->size);
}

static void end(rank_env *env, gloo_request *request) {
  RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(request);
}

/* ---- a full stream ------------------------------------------------------- */

enum { QUEUE = 8 };

/* A gate in a stream: the work behind it waits until the test opens it. */
static atomic_bool gate_is_open;

static void pass_gate(void *user) {
  (void)user;
  while (!atomic_load(&gate_is_open)) nap_ms(1);
}

static void no_work(void *user) {
  (void)user;
}

static void fill_stream(const sum *s, gpu_stream stream) {
  atomic_store(&gate_is_open, false);
  gpu_call(s->device, stream, pass_gate, NULL);
  for (int i = 1; i < QUEUE; i++) gpu_call(s->device, stream, no_work, NULL);
}

/* Waits until a call of this process blocks in the driver, and stays there. */
static void await_blocked_call(void) {
  for (int seen = 0; seen < 50; nap_ms(1))
    seen = standin.blocked() > 0 ? seen + 1 : 0;
}

/* A call on the full stream, in a thread of its own. */
typedef struct full_call {
  rank_env *env;
  sum *s;
  gloo_request *request; /* one to wait for, or else one to start */
  gpu_stream full;
} full_call;

static void *make_full_call(void *argument) {
  full_call *c = argument;
  if (c->request != NULL)
    RANK_OK(c->env, gloo_request_wait_stream(c->request, c->full, NULL));
  else
    c->request = sum_start(c->env, c->s, 1, 0);
  return NULL;
}

/* Rank 0's stream is full, and a call on it blocks in the driver: `waits`, a
 * wait for a request, or else the start of one. `busy`: a start, of a device that
 * is busy in another stream. Another operation completes before that stream
 * continues. */
static void use_full_stream(rank_env *env, bool waits, bool busy) {
  sum s;
  sum_open(&s, env->rank);
  gpu_stream other = gpu_stream_new(s.device);
  full_call c = {env, &s, NULL, waits ? other : s.stream};
  pthread_t thread;
  if (env->rank == 0) {
    if (waits) c.request = sum_start(env, &s, 1, 0);
    fill_stream(&s, busy ? other : c.full);
    pthread_create(&thread, NULL, make_full_call, &c);
    await_blocked_call();
  }
  add_on_the_host(env, 2);
  if (env->rank == 0) {
    atomic_store(&gate_is_open, true);
    pthread_join(thread, NULL);
  } else {
    c.request = sum_start(env, &s, 1, 0);
  }
  end(env, c.request);
  RANK_CHECK(env, sum_is_right(&s, env->size));
  gpu_sync(s.device, other);
  gpu_stream_free(s.device, other);
  sum_close(&s);
}

static void start_on_full_stream(rank_env *env) {
  use_full_stream(env, false, false);
}

static void full_stream_blocks_no_other_operation(void **state) {
  (void)state;
  setenv("STANDIN_QUEUE", "8", 1);
  run_ranks(start_on_full_stream);
}

static void wait_on_full_stream(rank_env *env) {
  use_full_stream(env, true, false);
}

static void full_stream_may_wait_for_a_request(void **state) {
  (void)state;
  setenv("STANDIN_QUEUE", "8", 1);
  setenv("GLOO_STREAM_WAIT_VALUE", "1", 1);
  run_ranks(wait_on_full_stream);
}

static void start_on_busy_device(rank_env *env) {
  use_full_stream(env, false, true);
}

static void pinning_blocks_no_other_operation(void **state) {
  (void)state;
  setenv("STANDIN_PIN_SYNCS", "1", 1);
  setenv("GLOO_CUDA_STAGING", "0", 1);
  run_ranks(start_on_busy_device);
}

/* ---- streams that wait for requests -------------------------------------- */

typedef struct waiting {
  rank_env *env;
  gloo_request *request;
  gpu_stream stream;
} waiting;

static void *make_stream_wait(void *argument) {
  waiting *w = argument;
  RANK_OK(w->env, gloo_request_wait_stream(w->request, w->stream, NULL));
  return NULL;
}

/* Rank 0 has a stream wait for a request that rank 1 starts only after a second
 * operation of both, for which memory is pinned. */
static void pin_while_stream_waits(rank_env *env) {
  sum first, second;
  sum_open(&first, env->rank);
  sum_open(&second, env->rank);
  waiting w = {.env = env, .stream = first.stream};
  pthread_t thread;
  if (env->rank == 0) {
    w.request = sum_start(env, &first, 1, 0);
    pthread_create(&thread, NULL, make_stream_wait, &w);
    nap_ms(100); /* the stream waits now, if it does */
  }
  end(env, sum_start(env, &second, 2, 0));
  RANK_CHECK(env, sum_is_right(&second, env->size));
  if (env->rank == 1) w.request = sum_start(env, &first, 1, 0);
  if (env->rank == 0) {
    pthread_join(thread, NULL);
    RANK_CHECK(env, sum_is_right(&first, env->size)); /* by the stream alone */
  }
  end(env, w.request);
  RANK_CHECK(env, sum_is_right(&first, env->size));
  sum_close(&second);
  sum_close(&first);
}

/* One channel, and pinning that waits for the device: by default a program's
 * stream never waits for work that is in no stream. */
static void waiting_is_safe_by_default(void **state) {
  (void)state;
  setenv("STANDIN_LANES", "1", 1);
  setenv("STANDIN_PIN_SYNCS", "1", 1);
  setenv("GLOO_CUDA_STAGING", "0", 1);
  run_ranks(pin_while_stream_waits);
}

static void nothing_is_pinned_while_a_stream_waits(void **state) {
  (void)state;
  setenv("STANDIN_PIN_SYNCS", "1", 1);
  setenv("GLOO_CUDA_STAGING", "0", 1);
  setenv("GLOO_STREAM_WAIT_VALUE", "1", 1);
  run_ranks(pin_while_stream_waits);
}

static void return_at_once(rank_env *env) {
  sum s;
  sum_open(&s, env->rank);
  gloo_request *request = NULL;
  if (env->rank == 0) {
    request = sum_start(env, &s, 1, 0);
    RANK_OK(env, gloo_request_wait_stream(request, s.stream, NULL));
    RANK_CHECK(env, gloo_request_test(request, NULL) == GLOO_IN_PROGRESS);
  }
  add_on_the_host(env, 2);
  if (env->rank == 1) request = sum_start(env, &s, 1, 0);
  if (env->rank == 0) RANK_CHECK(env, sum_is_right(&s, env->size));
  end(env, request);
  sum_close(&s);
}

static void memory_operations_need_not_block(void **state) {
  (void)state;
  setenv("GLOO_STREAM_WAIT_VALUE", "1", 1);
  run_ranks(return_at_once);
}

/* With one channel a stream that waits for memory stops the copies that it
 * waits for. The deadline ends that. */
static void wait_for_ever(rank_env *env) {
  sum s;
  sum_open(&s, env->rank);
  add_on_the_host(env, 3); /* both are ready */
  if (env->rank == 1) add_on_the_host(env, 2);
  gloo_request *request = sum_start(env, &s, 1, INT64_C(1500000000));
  RANK_OK(env, gloo_request_wait_stream(request, s.stream, NULL));
  nap_ms(100); /* the stream waits now */
  if (env->rank == 0) add_on_the_host(env, 2);
  gloo_status status = gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL);
  RANK_CHECK(env, status != GLOO_OK);
  gloo_request_destroy(request);
  sum_close(&s); /* waits for the stream */
}

static void deadline_ends_waits_of_streams(void **state) {
  (void)state;
  setenv("STANDIN_LANES", "1", 1);
  setenv("GLOO_STREAM_WAIT_VALUE", "1", 1);
  run_ranks(wait_for_ever);
}

/* ---- captures ------------------------------------------------------------ */

static void capture_and_call(rank_env *env) {
  sum s;
  gloo_error error;
  sum_open(&s, env->rank);
  gpu_stream other = gpu_stream_new(s.device);
  standin.capture(s.stream, 1);
  gloo_status status = sum_run(env, &s, &error);
  standin.capture(s.stream, 0);
  RANK_CHECK(env, status == GLOO_ERR_UNSUPPORTED);
  RANK_CHECK(env, strstr(error.message, "is capturing") != NULL);
  gloo_request *request = NULL;
  if (env->rank == 0) {
    request = sum_start(env, &s, 1, 0);
    standin.capture(other, 1);
    status = gloo_request_wait_stream(request, other, &error);
    standin.capture(other, 0);
    RANK_CHECK(env, status == GLOO_ERR_UNSUPPORTED);
  }
  add_on_the_host(env, 2);
  if (env->rank == 1) request = sum_start(env, &s, 1, 0);
  end(env, request);
  RANK_CHECK(env, sum_is_right(&s, env->size));
  gpu_stream_free(s.device, other);
  sum_close(&s);
}

static void captures_are_refused(void **state) {
  (void)state;
  run_ranks(capture_and_call);
}

/* ---- memory that cannot be pinned ---------------------------------------- */

static void add_and_wait(rank_env *env) {
  sum s;
  sum_open(&s, env->rank);
  for (int i = 0; i < 3; i++) {
    gloo_request *request = sum_start(env, &s, 1, 0);
    RANK_OK(env, gloo_request_wait_stream(request, s.stream, NULL));
    RANK_CHECK(env, sum_is_right(&s, env->size));
    end(env, request);
  }
  sum_close(&s);
}

static void memory_need_not_be_pinned(void **state) {
  (void)state;
  setenv("STANDIN_PAGEABLE_SYNCS", "1", 1);
  setenv("GLOO_CUDA_STAGING", "0", 1);
  for (int memops = 0; memops < 2; memops++) {
    setenv("GLOO_STREAM_WAIT_VALUE", memops ? "1" : "0", 1);
    setenv("STANDIN_UNPINNED", "1", 1);
    run_ranks(add_and_wait);
    setenv("STANDIN_UNPINNED", "2", 1);
    run_ranks(add_and_wait);
  }
}

/* ---- queries that fail --------------------------------------------------- */

static int broken_by; /* the driver's error */

static void use_host_memory(rank_env *env) {
  sum s;
  gloo_error error;
  gloo_window *window;
  uint64_t word = 7;
  sum_open(&s, env->rank);
  add_on_the_host(env, 1); /* all have allocated */
  if (env->rank == 0) standin.break_all(broken_by);
  add_on_the_host(env, 2);
  add_on_the_host(env, 3);
  RANK_OK(env, gloo_window_create(env->context, &word, 8, NULL, &window, NULL));
  RANK_OK(env, gloo_window_put(window, 1 - env->rank, 0, &word, 8, NULL));
  RANK_OK(env, gloo_window_destroy(window, NULL));
  gloo_options o = GLOO_OPTIONS_INIT;
  gloo_status status = gloo_allreduce(env->context, s.in, s.out, SUM_COUNT,
                                      GLOO_FLOAT32, GLOO_SUM, &o, &error);
  RANK_CHECK(env, status == GLOO_ERR_IO);
  RANK_CHECK(env, strstr(error.message, "memory type of a buffer") != NULL);
  add_on_the_host(env, 4);
  if (env->rank == 0) standin.break_all(0);
  add_on_the_host(env, 5);
  sum_close(&s);
}

static void broken_driver_leaves_host_memory_usable(void **state) {
  static const int results[] = {201, 700, 999};
  (void)state;
  for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
    broken_by = results[i];
    run_ranks(use_host_memory);
  }
}

/* A test, and whether it can run here. */
#define HARSH_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
typedef struct harsh_test {
  struct CMUnitTest test;
  bool possible;
} harsh_test;

int main(int argc, char **argv) {
  const char *why;
  transport = argc > 1 ? argv[1] : "inproc";
  gloo_log_set_level(GLOO_LOG_OFF);
  if (!gpu_open(&why)) {
    printf("1..0 # SKIP %s\n", why);
    return 0;
  }
  find(&standin.blocked, "standin_blocked");
  find(&standin.capture, "standin_capture");
  find(&standin.break_all, "standin_break");
  bool faked = standin.blocked != NULL, waits = streams_can_wait();
  const harsh_test all[] = {
      {HARSH_TEST(full_stream_blocks_no_other_operation), faked},
      {HARSH_TEST(full_stream_may_wait_for_a_request), faked && waits},
      {HARSH_TEST(pinning_blocks_no_other_operation), faked},
      {HARSH_TEST(waiting_is_safe_by_default), true},
      {HARSH_TEST(nothing_is_pinned_while_a_stream_waits), true},
      {HARSH_TEST(memory_operations_need_not_block), waits},
      {HARSH_TEST(deadline_ends_waits_of_streams), faked && waits},
      {HARSH_TEST(captures_are_refused), faked},
      {HARSH_TEST(memory_need_not_be_pinned), true},
      {HARSH_TEST(broken_driver_leaves_host_memory_usable), faked},
  };
  struct CMUnitTest tests[sizeof all / sizeof all[0]];
  size_t n = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (all[i].possible) tests[n++] = all[i].test;
  }
  return _cmocka_run_group_tests("harsh", tests, n, NULL, NULL);
}
