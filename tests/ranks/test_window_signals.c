/* Windows: puts with signals, waiting for words, and flushes that are
 * requests. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "groups.h"
#include "window_ranks.h"

/* ---- signals ------------------------------------------------------------- */

static const size_t lengths[] = {0, 1, 8, 16, 17, 4096, 32768, 100003, 1048579};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], ROUNDS = 6 };

/* The window: the number of blocks from the previous rank, the number that the
 * next rank has read, and a block for even and for odd rounds. */
enum { CAME = 0, READ = 8, BLOCKS = 16 };

static void pass_blocks(rank_env *env, enum kind kind, size_t bytes) {
  size_t place = (bytes + 7) / 8 * 8, whole = BLOCKS + 2 * place;
  int next = (env->rank + 1) % env->size;
  int before = (env->rank + env->size - 1) % env->size;
  uint8_t *own = windows_block(env, kind, whole, 0);
  uint8_t *data[2] = {malloc(bytes + 1), malloc(bytes + 1)};
  gloo_window *window = windows_new(env, own, whole);
  if (!window || !data[0] || !data[1]) return;
  own = gloo_window_memory(window);
  RANK_OK(env, gloo_window_fence(window, NULL));
  for (int round = 0; round < ROUNDS && !env->failure[0]; round++) {
    uint64_t at = BLOCKS + (size_t)(round % 2) * place, n = (uint64_t)round + 1;
    /* The buffer was flushed two rounds ago, and its place has been read. */
    if (round >= 2)
      RANK_OK(env, gloo_window_wait_until(window, READ, GLOO_COMPARE_GE, n - 2,
                                          0, NULL, NULL));
    windows_fill(data[round % 2], env->rank, round, bytes);
    RANK_OK(env, gloo_window_put_signal(window, next, at, data[round % 2],
                                        bytes, CAME, GLOO_SIGNAL_ADD, 1, NULL));
    uint64_t came = 0;
    RANK_OK(env, gloo_window_wait_until(window, CAME, GLOO_COMPARE_GE, n, 0,
                                        &came, NULL));
    RANK_CHECK(env, came == n || came == n + 1);
    RANK_CHECK(env, windows_is_filled(own + at, before, round, bytes));
    RANK_OK(env, gloo_window_put_signal(window, before, 0, NULL, 0, READ,
                                        GLOO_SIGNAL_SET, n, NULL));
    RANK_OK(env, gloo_window_flush(window, next, NULL));
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
  windows_block_free(kind, own);
  free(data[0]);
  free(data[1]);
}

static void pass_all(rank_env *env) {
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t i = 0; i < LENGTHS; i++)
      pass_blocks(env, (enum kind)kind, lengths[i]);
}

static void a_signal_follows_its_put(void **state) {
  (void)state;
  for (int size = 1; size <= 3; size++) windows_run(size, pass_all);
}

static void a_signal_follows_its_put_over_streams(void **state) {
  (void)state;
  windows_run_with(2, (ranks_options){.streams = 3}, pass_all);
}

static void signals_need_no_helper(void **state) {
  (void)state;
  windows_run_with(2, (ranks_options){.no_helper = 1}, pass_all);
}

/* All ranks change one word; no change is lost, whichever way they go. */
enum { SIGNALS = 300 };
static void add_up(rank_env *env) {
  for (int kind = 0; kind < KINDS; kind++) {
    void *own = windows_block(env, (enum kind)kind, 32, 0);
    gloo_window *window = windows_new(env, own, 32);
    if (!window) return;
    uint64_t ranks = (uint64_t)env->size, found = 0, mark = 7;
    uint64_t all = SIGNALS * (ranks * (ranks + 1) / 2 + ranks);
    RANK_OK(env, gloo_window_fence(window, NULL));
    for (int i = 0; i < SIGNALS; i++) {
      RANK_OK(env, gloo_window_put_signal(window, 0, 16, &mark, 8, 8,
                                          GLOO_SIGNAL_ADD,
                                          (uint64_t)env->rank + 1, NULL));
      RANK_OK(env, gloo_window_fetch_add(window, 0, 8, 1, NULL, NULL));
    }
    if (env->rank == 0) {
      RANK_OK(env, gloo_window_wait_until(window, 8, GLOO_COMPARE_GE, all, 0,
                                          &found, NULL));
      RANK_CHECK(env, found == all);
      const uint64_t *words = gloo_window_memory(window);
      RANK_CHECK(env, words[0] == 0 && words[2] == 7 && words[3] == 0);
    }
    RANK_OK(env, gloo_window_destroy(window, NULL));
    windows_block_free((enum kind)kind, own);
  }
}

static void signals_of_all_ranks_add_up(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) windows_run(size, add_up);
  windows_run_with(3, (ranks_options){.streams = 3}, add_up);
}

/* A flush completes signals, as puts. */
static void flush_then_look(rank_env *env) {
  gloo_window *window = windows_new(env, NULL, 64);
  if (!window) return;
  uint64_t value = 5, before = 0;
  int other = (env->rank + 1) % env->size;
  for (uint64_t i = 1; i <= 50; i++) {
    RANK_OK(env, gloo_window_put_signal(window, other, 8, &value, 8, 0,
                                        GLOO_SIGNAL_SET, i, NULL));
    RANK_OK(env, gloo_window_flush(window, other, NULL));
    RANK_OK(env, gloo_window_fetch_add(window, other, 0, 0, &before, NULL));
    RANK_OK(env, gloo_window_flush(window, other, NULL));
    RANK_CHECK(env, before == i);
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
}

static void a_flush_completes_signals(void **state) {
  (void)state;
  windows_run(2, flush_then_look);
  windows_run_with(2, (ranks_options){.streams = 3}, flush_then_look);
}

/* ---- waiting ------------------------------------------------------------- */

static void compare(rank_env *env) {
  static const struct expected {
    gloo_compare compare;
    bool below, equal, above; /* the result for words 4, 5 and 6 */
  } all[] = {{GLOO_COMPARE_EQ, false, true, false},
             {GLOO_COMPARE_NE, true, false, true},
             {GLOO_COMPARE_GT, false, false, true},
             {GLOO_COMPARE_GE, false, true, true},
             {GLOO_COMPARE_LT, true, false, false},
             {GLOO_COMPARE_LE, true, true, false}};
  uint64_t *own = windows_block(env, MALLOCED, 16, 0);
  gloo_window *window = windows_new(env, own, 16);
  if (!window) return;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    for (uint64_t word = 4; word <= 6; word++) {
      const struct expected *e = &all[i];
      bool holds = word < 5 ? e->below : word == 5 ? e->equal : e->above;
      uint64_t found = 99;
      own[1] = word;
      gloo_status status = gloo_window_wait_until(
          window, 8, e->compare, 5, GLOO_TIMEOUT_NOW, &found, NULL);
      RANK_CHECK(env, status == (holds ? GLOO_OK : GLOO_IN_PROGRESS));
      RANK_CHECK(env, found == (holds ? word : 99));
    }
  }
  own[1] = UINT64_MAX; /* words are unsigned */
  RANK_OK(env,
          gloo_window_wait_until(window, 8, GLOO_COMPARE_GT, 1, 0, NULL, NULL));
  RANK_OK(env, gloo_window_destroy(window, NULL));
  windows_block_free(MALLOCED, own);
}

static void words_compare_as_wanted(void **state) {
  (void)state;
  windows_run(1, compare);
}

/* Makes memory of rank 0 known to rank 1, while rank 0 waits: from now on it may
 * get no message. */
static void learn_of_memory(rank_env *env, gloo_window *window) {
  uint64_t word;
  for (int i = 0; i < 3; i++) {
    RANK_OK(env, gloo_window_get(window, 0, 0, &word, 8, NULL));
    RANK_OK(env, gloo_window_flush(window, 0, NULL));
    uv_sleep(5);
  }
}

/* Rank 1 changes a word of rank 0, in every way, while rank 0 waits. */
static void change_word(rank_env *env, gloo_window *window, uint64_t value) {
  uint64_t before = value - 1;
  switch (value % 4) {
    case 0:
      RANK_OK(env, gloo_window_put(window, 0, 8, &value, 8, NULL));
      break;
    case 1:
      RANK_OK(env, gloo_window_fetch_add(window, 0, 8, 1, NULL, NULL));
      break;
    case 2:
      RANK_OK(env, gloo_window_put_signal(window, 0, 0, NULL, 0, 8,
                                          GLOO_SIGNAL_ADD, 1, NULL));
      break;
    default:
      RANK_OK(env, gloo_window_compare_swap(window, 0, 8, value - 1, value,
                                            &before, NULL));
  }
  RANK_OK(env, gloo_window_flush(window, 0, NULL));
  RANK_CHECK(env, before == value - 1);
}

static void ping_pong(rank_env *env) {
  enum { TURNS = 41 };
  for (int kind = 0; kind < KINDS; kind++) {
    void *own = windows_block(env, (enum kind)kind, 16, 0);
    gloo_window *window = windows_new(env, own, 16);
    if (!window) return;
    for (uint64_t i = 1; i <= TURNS && !env->failure[0]; i++) {
      if (env->rank == 0) {
        uint64_t found = 0;
        RANK_OK(env, gloo_window_wait_until(window, 8, GLOO_COMPARE_NE, i - 1,
                                            0, &found, NULL));
        RANK_CHECK(env, found == i);
        RANK_OK(env, gloo_window_put_signal(window, 1, 0, NULL, 0, 0,
                                            GLOO_SIGNAL_SET, i, NULL));
        continue;
      }
      if (i % 8 == 1) uv_sleep(5); /* rank 0 falls asleep */
      if (i == 1) learn_of_memory(env, window);
      change_word(env, window, i);
      RANK_OK(env, gloo_window_wait_until(window, 0, GLOO_COMPARE_EQ, i, 0,
                                          NULL, NULL));
    }
    RANK_OK(env, gloo_window_destroy(window, NULL));
    windows_block_free((enum kind)kind, own);
  }
}

static void every_change_ends_a_wait(void **state) {
  (void)state;
  windows_run(2, ping_pong);
  windows_run_with(2, (ranks_options){.no_helper = 1}, ping_pong);
}

/* A thread changes a word of its own rank, for which another one waits. */
typedef struct changer {
  rank_env env; /* records this thread's failures */
  gloo_window *window;
} changer;

static void change_later(void *argument) {
  changer *c = argument;
  uv_sleep(20);
  RANK_OK(&c->env,
          gloo_window_fetch_add(c->window, c->env.rank, 8, 5, NULL, NULL));
}

static void wait_for_own_thread(rank_env *env) {
  gloo_window *window = windows_new(env, NULL, 16);
  if (!window) return;
  changer c = {.env = *env, .window = window};
  uv_thread_t id;
  if (uv_thread_create(&id, change_later, &c) != 0) abort();
  RANK_OK(env,
          gloo_window_wait_until(window, 8, GLOO_COMPARE_EQ, 5, 0, NULL, NULL));
  uv_thread_join(&id);
  if (c.env.failure[0]) *env = c.env;
  RANK_OK(env, gloo_window_destroy(window, NULL));
}

static void threads_of_a_rank_end_its_waits(void **state) {
  (void)state;
  windows_run(1, wait_for_own_thread);
  windows_run(2, wait_for_own_thread);
}

/* ---- failures ------------------------------------------------------------ */

static void wait_in_vain(rank_env *env) {
  gloo_error error;
  gloo_window *window = windows_new(env, NULL, 16);
  if (!window) return;
  RANK_CHECK(env, gloo_window_wait_until(window, 8, GLOO_COMPARE_GE, 1,
                                         INT64_C(1000000), NULL,
                                         &error) == GLOO_IN_PROGRESS);
  RANK_OK(env, gloo_window_fence(window, NULL));
  if (env->rank == 0) {
    gloo_status status =
        gloo_window_wait_until(window, 8, GLOO_COMPARE_GE, 1, 0, NULL, &error);
    RANK_CHECK(env, status == GLOO_ERR_TIMEOUT && error.rank == -1);
    RANK_CHECK(env, strstr(error.message,
                           "no rank changed the word at offset "
                           "8 of rank 0") != NULL);
  } else { /* its end must not be the first failure */
    RANK_CHECK(env, gloo_window_wait_until(window, 8, GLOO_COMPARE_GE, 1,
                                           GLOO_TIMEOUT_NONE, NULL,
                                           &error) != GLOO_OK);
  }
  RANK_CHECK(env, gloo_window_destroy(window, NULL) != GLOO_OK);
}

static void a_wait_has_a_deadline(void **state) {
  (void)state;
  windows_run_with(2, (ranks_options){.timeout_ns = INT64_C(300000000)},
                   wait_in_vain);
}

static void wait_for_one_that_gives_up(rank_env *env) {
  gloo_error error;
  gloo_window *window = windows_new(env, NULL, 16);
  if (!window) return;
  RANK_OK(env, gloo_window_fence(window, NULL));
  if (env->rank == 1) {
    uv_sleep(30);
    RANK_OK(env, gloo_context_abort(env->context, "enough", NULL));
  } else {
    gloo_status status = gloo_window_wait_until(
        window, 8, GLOO_COMPARE_GE, 1, GLOO_TIMEOUT_NONE, NULL, &error);
    RANK_CHECK(env, status == GLOO_ERR_ABORTED || status == GLOO_ERR_POISONED);
    if (error.rank != 1) rank_fail(env, __FILE__, __LINE__, error.message);
  }
  RANK_CHECK(env, gloo_window_destroy(window, NULL) != GLOO_OK);
}

static void a_rank_that_gives_up_ends_waits(void **state) {
  (void)state;
  windows_run(2, wait_for_one_that_gives_up);
  windows_run(3, wait_for_one_that_gives_up);
}

/* One of three processes is killed while the others wait. Rank 0 has a signal
 * from it, rank 2 has nothing. */
enum { PROCESSES = 3, KILLED = 1 };

static int wait_for_the_killed(const char *directory, int rank) {
  gloo_error error;
  gloo_store *store;
  gloo_device *device;
  gloo_context *context;
  gloo_window *window;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  f.directory = directory;
  d.transport = windows_transport;
  c.timeout_ns = INT64_C(30000000000);
  if (gloo_store_file_create(&f, &store, &error) != GLOO_OK ||
      gloo_device_create(&d, &device, &error) != GLOO_OK ||
      gloo_context_create(rank, PROCESSES, store, device, &c, &context,
                          &error) != GLOO_OK ||
      gloo_window_create(context, NULL, 16, NULL, &window, &error) != GLOO_OK) {
    fprintf(stderr, "# rank %d: %s\n", rank, error.message);
    return 1;
  }
  uint64_t word = 1;
  if (rank == KILLED) {
    if (gloo_window_put_signal(window, 0, 0, &word, 8, 8, GLOO_SIGNAL_SET, 1,
                               NULL) != GLOO_OK ||
        gloo_window_flush_all(window, NULL) != GLOO_OK)
      return 1;
    uv_sleep(100);
    (void)raise(SIGKILL);
  }
  if (rank == 0 && gloo_window_wait_until(window, 8, GLOO_COMPARE_EQ, 1, 0,
                                          NULL, &error) != GLOO_OK)
    return 1;
  gloo_status status =
      gloo_window_wait_until(window, 8, GLOO_COMPARE_EQ, 2, 0, NULL, &error);
  bool right = status == GLOO_ERR_PEER && error.rank == KILLED;
  if (!right) fprintf(stderr, "# rank %d: %s\n", rank, error.message);
  (void)gloo_window_destroy(window, NULL);
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
  return right ? 0 : 1;
}

static void a_killed_rank_is_named_by_those_who_wait(void **state) {
  (void)state;
  char directory[] = "/tmp/gloo_c-window-XXXXXX";
  if (strcmp(windows_transport, "inproc") == 0) return; /* no processes */
  assert_non_null(mkdtemp(directory));
  pid_t pids[PROCESSES];
  (void)fflush(NULL);
  for (int rank = 0; rank < PROCESSES; rank++) {
    pids[rank] = fork();
    assert_true(pids[rank] >= 0);
    if (pids[rank] == 0) _exit(wait_for_the_killed(directory, rank));
  }
  for (int rank = 0; rank < PROCESSES; rank++) {
    int end;
    assert_int_equal(waitpid(pids[rank], &end, 0), pids[rank]);
    if (rank == KILLED)
      assert_true(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
    else
      assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
  }
  char command[64];
  (void)snprintf(command, sizeof command, "rm -rf %s", directory);
  assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void refused(rank_env *env) {
  uint64_t word = 0, own[4] = {0};
  gloo_error error;
  gloo_request *request = NULL;
  gloo_window *window = windows_new(env, own, sizeof own);
  if (!window) return;
  const struct refusal {
    uint64_t offset, bytes, signal;
    const void *from;
    int op;
    const char *text;
  } all[] = {
      {0, 8, 4, &word, GLOO_SIGNAL_ADD, "offset 4 is not a multiple of 8"},
      {0, 8, 32, &word, GLOO_SIGNAL_ADD, "8 bytes at offset 32 exceed the 32"},
      {0, 8, UINT64_MAX - 7, &word, GLOO_SIGNAL_ADD, "exceed the 32 bytes"},
      {25, 8, 0, &word, GLOO_SIGNAL_SET, "8 bytes at offset 25 exceed the 32"},
      {0, 8, 0, NULL, GLOO_SIGNAL_SET, "the buffer is NULL"},
      {0, 8, 0, &word, 2, "2 is not a gloo_signal"},
      {0, 8, 0, &word, -1, "-1 is not a gloo_signal"},
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    rank_expect_invalid(
        env,
        gloo_window_put_signal(window, 0, all[i].offset, all[i].from,
                               (size_t)all[i].bytes, all[i].signal,
                               (gloo_signal)all[i].op, 1, &error),
        &error, all[i].text);
  rank_expect_invalid(
      env,
      gloo_window_wait_until(window, 12, GLOO_COMPARE_EQ, 0, 0, NULL, &error),
      &error, "offset 12 is not a multiple of 8");
  rank_expect_invalid(
      env,
      gloo_window_wait_until(window, 32, GLOO_COMPARE_EQ, 0, 0, NULL, &error),
      &error, "exceed the 32 bytes of this rank");
  rank_expect_invalid(
      env,
      gloo_window_wait_until(window, 0, (gloo_compare)6, 0, 0, NULL, &error),
      &error, "6 is not a gloo_compare");
  rank_expect_invalid(
      env, gloo_window_wait_until(NULL, 0, GLOO_COMPARE_EQ, 0, 0, NULL, &error),
      &error, "window is NULL");
  rank_expect_invalid(env, gloo_window_flush_start(NULL, 0, &request, &error),
                      &error, "`window` must not be NULL");
  rank_expect_invalid(env, gloo_window_flush_all_start(window, NULL, &error),
                      &error, "`request` must not be NULL");
  RANK_CHECK(env, gloo_window_flush_start(window, env->size, &request,
                                          &error) == GLOO_ERR_RANK);
  RANK_CHECK(env, gloo_window_flush_start(window, -1, &request, &error) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env, request == NULL);
  for (int i = 0; i < 4; i++) RANK_CHECK(env, own[i] == 0);
  RANK_OK(env, gloo_window_destroy(window, NULL));
  group_all_works(env, env->context);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  windows_run(2, refused);
}

/* ---- flushes that are requests ------------------------------------------- */

static void note_end(void *user, gloo_request *request, gloo_status status) {
  atomic_int *ends = user;
  (void)request;
  atomic_fetch_add(ends, status == GLOO_OK ? 1 : 1000);
}

/* A flush request completes its gets, whatever function waits for it. */
static void flush_in_some_way(rank_env *env, gloo_window *window, int way) {
  enum { BYTES = 70000 };
  uint8_t *data = malloc(BYTES), *back = calloc(1, BYTES);
  uint64_t before = 0;
  gloo_request *request = NULL;
  gloo_error error;
  atomic_int ends = 0;
  if (!data || !back) abort();
  int to = (env->rank + 1) % env->size;
  uint64_t place = 8 + (uint64_t)env->rank * BYTES;
  windows_fill(data, env->rank, way, BYTES);
  RANK_OK(env, gloo_window_put(window, to, place, data, BYTES, NULL));
  RANK_OK(env, gloo_window_fetch_add(window, to, 0, 1, &before, NULL));
  if (way % 2 == 0)
    RANK_OK(env, gloo_window_flush_start(window, to, &request, NULL));
  else
    RANK_OK(env, gloo_window_flush_all_start(window, &request, NULL));
  if (request == NULL) return;
  RANK_OK(env, gloo_request_on_done(request, note_end, &ends, NULL));
  gloo_status status = GLOO_IN_PROGRESS;
  size_t index = 0;
  switch (way / 2 % 3) {
    case 0:
      while (status == GLOO_IN_PROGRESS) {
        status = gloo_request_test(request, NULL);
        uv_sleep(0);
      }
      break;
    case 1:
      status = gloo_request_wait(request, 0, NULL);
      break;
    default:
      status = gloo_request_wait_any(&request, 1, 0, &index, NULL);
  }
  RANK_OK(env, status);
  RANK_CHECK(env, before == (uint64_t)way);
  RANK_OK(env, gloo_window_get(window, to, place, back, BYTES, NULL));
  memset(data, 0, BYTES); /* the buffer belongs to the caller again */
  RANK_OK(env, gloo_window_flush(window, to, NULL));
  RANK_CHECK(env, windows_is_filled(back, env->rank, way, BYTES));
  RANK_CHECK(env, gloo_request_start(request, &error) == GLOO_ERR_INVALID);
  RANK_CHECK(env, strstr(error.message, "gloo_window_flush_start") != NULL);
  for (int i = 0; i < 5000 && atomic_load(&ends) == 0; i++) {
    (void)gloo_request_test(request, NULL);
    uv_sleep(1);
  }
  RANK_CHECK(env, atomic_load(&ends) == 1);
  gloo_request_destroy(request);
  free(data);
  free(back);
}

static void flush_in_all_ways(rank_env *env) {
  for (int kind = 0; kind < KINDS; kind++) {
    size_t bytes = 8 + (size_t)env->size * 70000;
    void *own = windows_block(env, (enum kind)kind, bytes, 0);
    gloo_window *window = windows_new(env, own, bytes);
    if (!window) return;
    RANK_OK(env, gloo_window_fence(window, NULL));
    for (int way = 0; way < 6 && !env->failure[0]; way++)
      flush_in_some_way(env, window, way);
    RANK_OK(env, gloo_window_destroy(window, NULL));
    windows_block_free((enum kind)kind, own);
  }
}

static void a_flush_can_be_a_request(void **state) {
  (void)state;
  for (int size = 1; size <= 3; size++) windows_run(size, flush_in_all_ways);
  windows_run_with(2, (ranks_options){.streams = 3}, flush_in_all_ways);
  windows_run_with(2, (ranks_options){.no_helper = 1}, flush_in_all_ways);
}

/* Many are pending at once; some are cancelled, some outlive the window. */
static void many_flushes(rank_env *env) {
  enum { FLUSHES = 60 };
  gloo_window *window = windows_new(env, NULL, 1024);
  gloo_request *requests[FLUSHES] = {NULL};
  if (!window) return;
  uint64_t value = 3;
  for (int i = 0; i < FLUSHES; i++) {
    int to = i % env->size;
    RANK_OK(env, gloo_window_put(window, to, 8, &value, 8, NULL));
    if (i % 3 == 0)
      RANK_OK(env, gloo_window_flush_all_start(window, &requests[i], NULL));
    else
      RANK_OK(env, gloo_window_flush_start(window, to, &requests[i], NULL));
  }
  for (int i = 0; i < FLUSHES && requests[i] != NULL; i += 4)
    RANK_OK(env, gloo_request_cancel(requests[i], NULL));
  RANK_OK(env, gloo_window_destroy(window, NULL));
  for (int i = 0; i < FLUSHES && requests[i] != NULL; i++) {
    gloo_status status = gloo_request_test(requests[i], NULL);
    RANK_CHECK(
        env, status == GLOO_OK || (i % 4 == 0 && status == GLOO_ERR_CANCELLED));
    gloo_request_destroy(requests[i]);
  }
  group_all_works(env, env->context);
}

static void pending_flushes_end_with_the_window(void **state) {
  (void)state;
  windows_run(1, many_flushes);
  windows_run(3, many_flushes);
}

static atomic_int late_done, away;

/* The error of the request names an owner that makes no progress. A request that
 * is destroyed before fails nothing. */
static void flush_a_late_owner(rank_env *env) {
  gloo_error error;
  uint64_t own[2] = {0};
  gloo_request *request = NULL, *dropped = NULL;
  gloo_window *window = windows_new(env, own, sizeof own);
  if (!window) return;
  if (env->rank == 0) {
    while (atomic_load(&away) == 0) uv_sleep(1);
    RANK_OK(env, gloo_window_fetch_add(window, 1, 0, 1, NULL, NULL));
    RANK_OK(env, gloo_window_flush_start(window, 1, &dropped, NULL));
    gloo_request_destroy(dropped);
    RANK_OK(env, gloo_window_flush_start(window, 1, &request, NULL));
    gloo_status status = gloo_request_wait(request, 0, &error);
    RANK_CHECK(env, status == GLOO_ERR_TIMEOUT && error.rank == 1);
    RANK_CHECK(env, strstr(error.message,
                           "rank 1 did not complete the window "
                           "operations of rank 0") != NULL);
    gloo_request_destroy(request);
    atomic_fetch_add(&late_done, 1);
  } else {
    atomic_store(&away, 1);
    while (atomic_load(&late_done) == 0) uv_sleep(1);
  }
  RANK_CHECK(env, gloo_window_destroy(window, NULL) != GLOO_OK);
}

static void a_late_owner_fails_the_request(void **state) {
  (void)state;
  atomic_store(&late_done, 0);
  atomic_store(&away, 0);
  windows_run_with(
      2, (ranks_options){.no_helper = 1, .timeout_ns = INT64_C(500000000)},
      flush_a_late_owner);
}

int main(int argc, char **argv) {
  if (argc > 1) windows_transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_killed_rank_is_named_by_those_who_wait),
      cmocka_unit_test(a_signal_follows_its_put),
      cmocka_unit_test(a_signal_follows_its_put_over_streams),
      cmocka_unit_test(signals_need_no_helper),
      cmocka_unit_test(signals_of_all_ranks_add_up),
      cmocka_unit_test(a_flush_completes_signals),
      cmocka_unit_test(words_compare_as_wanted),
      cmocka_unit_test(every_change_ends_a_wait),
      cmocka_unit_test(threads_of_a_rank_end_its_waits),
      cmocka_unit_test(a_wait_has_a_deadline),
      cmocka_unit_test(a_rank_that_gives_up_ends_waits),
      cmocka_unit_test(bad_arguments_are_refused),
      cmocka_unit_test(a_flush_can_be_a_request),
      cmocka_unit_test(pending_flushes_end_with_the_window),
      cmocka_unit_test(a_late_owner_fails_the_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
