/* Windows: put, get and atomic operations, over every transport. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "groups.h"
#include "memory/sealed.h"
#include "window_ranks.h"

/* ---- put and get --------------------------------------------------------- */

static const size_t lengths[] = {0,    1,     7,     8,     64,     4095,
                                 8193, 16384, 32768, 65537, 262144, 1048579};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], MARGIN = 5 };

/* Each rank's memory has a place for every rank, at unaligned addresses. */
static void put_and_get_length(rank_env *env, enum kind kind, size_t bytes) {
  size_t place = bytes + MARGIN, whole = place * (size_t)env->size + MARGIN;
  enum kind buffers = kind == MALLOCED ? MALLOCED : SHARED;
  uint8_t *own = windows_block(env, kind, whole, 0);
  uint8_t *data = windows_block(env, buffers, whole, 0);
  gloo_window *window = windows_new(env, own, whole);
  if (!window) return;
  own = gloo_window_memory(window);
  for (int to = 0; to < env->size; to++)
    windows_fill(data + (size_t)to * place, env->rank, to, bytes);
  RANK_OK(env, gloo_window_fence(window, NULL));
  for (int to = 0; to < env->size; to++)
    RANK_OK(env, gloo_window_put(window, to, (uint64_t)env->rank * place + 3,
                                 data + (size_t)to * place, bytes, NULL));
  RANK_OK(env, gloo_window_fence(window, NULL));
  RANK_CHECK(env, own[0] == 0 && own[2] == 0 && own[whole - 1] == 0);
  for (int from = 0; from < env->size; from++) {
    const uint8_t *at = own + (size_t)from * place + 3;
    RANK_CHECK(env, windows_is_filled(at, from, env->rank, bytes));
    RANK_CHECK(env, at[bytes] == 0 && at[bytes + MARGIN - 1] == 0);
  }
  memset(data, 0, whole);
  for (int at = 0; at < env->size; at++)
    RANK_OK(env, gloo_window_get(window, at, (uint64_t)env->rank * place + 3,
                                 data + (size_t)at * place, bytes, NULL));
  RANK_OK(env, gloo_window_flush_all(window, NULL));
  for (int at = 0; at < env->size; at++)
    RANK_CHECK(env, windows_is_filled(data + (size_t)at * place, env->rank, at,
                                      bytes));
  RANK_OK(env, gloo_window_destroy(window, NULL));
  windows_block_free(kind, own);
  windows_block_free(buffers, data);
}

static void put_and_get(rank_env *env) {
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t i = 0; i < LENGTHS; i++)
      put_and_get_length(env, (enum kind)kind, lengths[i]);
}

static void puts_and_gets_of_all_lengths(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) windows_run(size, put_and_get);
}

/* Each rank has another length, one has none, and all know the lengths. */
static void different(rank_env *env) {
  size_t bytes = (size_t)env->rank * 24;
  gloo_window *window = windows_new(env, NULL, bytes);
  if (!window) return;
  for (int i = 0; i < env->size; i++)
    RANK_CHECK(env, gloo_window_bytes(window, i) == (size_t)i * 24);
  RANK_CHECK(env, gloo_window_bytes(window, env->size) == 0);
  uint64_t one = 1;
  gloo_error error;
  rank_expect_invalid(env, gloo_window_put(window, 0, 0, &one, 1, &error),
                      &error, "1 bytes at offset 0");
  RANK_OK(env, gloo_window_put(window, 0, 0, NULL, 0, NULL));
  for (int i = 1; i < env->size; i++)
    RANK_OK(env,
            gloo_window_fetch_add(window, i, bytes > 0 ? 0 : 8, 1, NULL, NULL));
  RANK_OK(env, gloo_window_fence(window, NULL));
  const uint64_t *own = gloo_window_memory(window);
  if (env->rank > 0) {
    RANK_CHECK(env, own[0] == (uint64_t)env->size - 1 && own[1] == 1);
    RANK_CHECK(env, own[2] == 0);
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
}

static void parts_have_different_lengths(void **state) {
  (void)state;
  windows_run(4, different);
}

/* Operations without a flush: more than the limit on pending ones. */
enum { MANY = 3000 };
static void crowd(rank_env *env) {
  uint32_t *own = calloc(MANY, 8), *in = calloc(MANY, 4),
           *out = calloc(MANY, 4);
  if (!own || !in || !out) abort();
  gloo_window *window = windows_new(env, own, (size_t)MANY * 8);
  if (!window) return;
  int next = (env->rank + 1) % env->size;
  for (uint32_t i = 0; i < MANY; i++) in[i] = i * 3 + (uint32_t)env->rank;
  for (uint32_t i = 0; i < MANY; i++)
    RANK_OK(env,
            gloo_window_put(window, next, (uint64_t)i * 8, &in[i], 4, NULL));
  RANK_OK(env, gloo_window_flush(window, next, NULL));
  for (uint32_t i = 0; i < MANY; i++)
    RANK_OK(env,
            gloo_window_get(window, next, (uint64_t)i * 8, &out[i], 4, NULL));
  RANK_OK(env, gloo_window_flush(window, next, NULL));
  RANK_CHECK(env, memcmp(in, out, (size_t)MANY * 4) == 0);
  RANK_OK(env, gloo_window_destroy(window, NULL));
  free(own);
  free(in);
  free(out);
}

static void many_without_a_flush(void **state) {
  (void)state;
  windows_run(2, crowd);
  windows_run(3, crowd);
}

/* ---- atomic operations --------------------------------------------------- */

enum { ADDS = 200 };

/* Each value is fetched exactly once. */
static void count(rank_env *env) {
  for (int kind = 0; kind < KINDS; kind++) {
    void *own = windows_block(env, (enum kind)kind, 64, 0);
    gloo_window *window = windows_new(env, own, 64);
    if (!window) return;
    size_t n = (size_t)ADDS * (size_t)env->size;
    uint64_t before[ADDS], *all = calloc(n, 8);
    uint8_t *seen = calloc(n, 1);
    if (!all || !seen) abort();
    RANK_OK(env, gloo_window_fence(window, NULL));
    for (int i = 0; i < ADDS; i++)
      RANK_OK(env, gloo_window_fetch_add(window, env->size - 1, 16, 3,
                                         &before[i], NULL));
    RANK_OK(env, gloo_window_fence(window, NULL));
    if (env->rank == env->size - 1) {
      const uint64_t *words = gloo_window_memory(window);
      RANK_CHECK(env, words[2] == 3 * n && words[1] == 0 && words[3] == 0);
    }
    RANK_OK(env, gloo_allgather(env->context, before, all, ADDS, GLOO_UINT64,
                                NULL, NULL));
    for (size_t i = 0; i < n; i++) {
      bool right = all[i] % 3 == 0 && all[i] / 3 < n && !seen[all[i] / 3];
      RANK_CHECK(env, right);
      if (right) seen[all[i] / 3] = 1;
    }
    RANK_OK(env, gloo_window_destroy(window, NULL));
    windows_block_free((enum kind)kind, own);
    free(all);
    free(seen);
  }
}

static void every_rank_adds(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) windows_run(size, count);
}

/* A lock built on compare and swap protects a nonatomic update. */
enum { ROUNDS = 40 };
static void take_turns(rank_env *env) {
  for (int kind = 0; kind < KINDS; kind++) {
    void *own = windows_block(env, (enum kind)kind, 64, 0);
    gloo_window *window = windows_new(env, own, 64);
    if (!window) return;
    RANK_OK(env, gloo_window_fence(window, NULL));
    for (int i = 0; i < ROUNDS; i++) {
      uint64_t before = 1, sum = 0, free_again = 0;
      while (before != 0) {
        RANK_OK(env,
                gloo_window_compare_swap(window, 0, 8, 0, 1, &before, NULL));
        RANK_OK(env, gloo_window_flush(window, 0, NULL));
        if (env->failure[0]) return;
        if (before != 0) uv_sleep(0);
      }
      RANK_OK(env, gloo_window_get(window, 0, 32, &sum, 8, NULL));
      RANK_OK(env, gloo_window_flush(window, 0, NULL));
      sum++;
      RANK_OK(env, gloo_window_put(window, 0, 32, &sum, 8, NULL));
      RANK_OK(env, gloo_window_flush(window, 0, NULL));
      RANK_OK(env, gloo_window_compare_swap(window, 0, 8, 1, free_again,
                                            &before, NULL));
      RANK_OK(env, gloo_window_flush(window, 0, NULL));
      RANK_CHECK(env, before == 1);
    }
    RANK_OK(env, gloo_window_fence(window, NULL));
    uint64_t sum = 0;
    RANK_OK(env, gloo_window_get(window, 0, 32, &sum, 8, NULL));
    RANK_OK(env, gloo_window_flush_all(window, NULL));
    RANK_CHECK(env, sum == (uint64_t)ROUNDS * (uint64_t)env->size);
    RANK_OK(env, gloo_window_destroy(window, NULL));
    windows_block_free((enum kind)kind, own);
  }
}

static void a_lock_keeps_others_out(void **state) {
  (void)state;
  windows_run(3, take_turns);
}

/* ---- progress ------------------------------------------------------------ */

static atomic_int served, away;

/* Rank 0 makes no call until the others have finished, each in its own part. */
static void passive(rank_env *env) {
  enum { PLACE = 20000 };
  size_t bytes = 8 + (size_t)env->size * PLACE;
  uint8_t *own = calloc(1, bytes), *data = calloc(1, PLACE);
  if (!own || !data) abort();
  gloo_window *window = windows_new(env, own, bytes);
  if (!window) return;
  if (env->rank == 0) {
    uint64_t until = uv_hrtime() + UINT64_C(60000000000);
    while (atomic_load(&served) < env->size - 1 && uv_hrtime() < until)
      uv_sleep(1);
    RANK_CHECK(env, atomic_load(&served) == env->size - 1);
  } else {
    uint64_t at = 8 + (uint64_t)env->rank * PLACE, before = 42;
    windows_fill(data, env->rank, 0, PLACE);
    RANK_OK(env, gloo_window_put(window, 0, at, data, PLACE, NULL));
    RANK_OK(env, gloo_window_fetch_add(window, 0, 0, 1, &before, NULL));
    RANK_OK(env, gloo_window_flush(window, 0, NULL));
    memset(data, 0, PLACE);
    RANK_OK(env, gloo_window_get(window, 0, at, data, PLACE, NULL));
    RANK_OK(env, gloo_window_flush(window, 0, NULL));
    RANK_CHECK(env, windows_is_filled(data, env->rank, 0, PLACE));
    RANK_CHECK(env, before < (uint64_t)env->size - 1);
    atomic_fetch_add(&served, 1);
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
  free(own);
  free(data);
}

static void an_owner_that_computes_is_served(void **state) {
  (void)state;
  atomic_store(&served, 0);
  windows_run(3, passive);
}

/* If memory is mapped, or a device accesses it, the owner needs no helper
 * thread. */
static void without_owner(rank_env *env) {
  enum { BYTES = 100000 };
  void *own = windows_block(env, SHARED, BYTES, 0);
  uint8_t *data = windows_block(env, SHARED, BYTES, 0);
  gloo_window *window = windows_new(env, own, BYTES);
  if (!window) return;
  if (env->rank == 1)
    RANK_OK(env, gloo_window_get(window, 0, 0, data, 1, NULL));
  RANK_OK(env, gloo_window_fence(window, NULL));
  if (env->rank == 0) {
    uint64_t until = uv_hrtime() + UINT64_C(60000000000);
    while (atomic_load(&served) == 0 && uv_hrtime() < until) uv_sleep(1);
    RANK_CHECK(env, atomic_load(&served) == 1);
  } else {
    size_t lengths_here[] = {8, 5000, BYTES};
    for (int i = 0; i < 3; i++) {
      windows_fill(data, 1, i, lengths_here[i]);
      RANK_OK(env, gloo_window_put(window, 0, 0, data, lengths_here[i], NULL));
      RANK_OK(env, gloo_window_flush(window, 0, NULL));
      memset(data, 0, lengths_here[i]);
      RANK_OK(env, gloo_window_get(window, 0, 0, data, lengths_here[i], NULL));
      RANK_OK(env, gloo_window_flush(window, 0, NULL));
      RANK_CHECK(env, windows_is_filled(data, 1, i, lengths_here[i]));
    }
    atomic_store(&served, 1);
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
  windows_block_free(SHARED, own);
  windows_block_free(SHARED, data);
}

static void some_owners_need_not_help(void **state) {
  (void)state;
  bool direct = strcmp(windows_transport, "shm") == 0
                    ? gli_sealed_replaces /* else peers map no memory of it */
                    : strcmp(windows_transport, "ibv") == 0;
  if (!direct || getenv("GLOO_CHECKSUM") != NULL) skip();
  atomic_store(&served, 0);
  windows_run_with(2, (ranks_options){.no_helper = 1}, without_owner);
}

/* Interleaves collectives and messages, without a helper thread. */
static void among_others(rank_env *env) {
  uint64_t own[64] = {0};
  gloo_window *window = windows_new(env, own, sizeof own);
  if (!window) return;
  for (int round = 0; round < 30; round++) {
    int32_t sum = 1;
    uint64_t value = (uint64_t)round;
    for (int to = 0; to < env->size; to++)
      RANK_OK(env, gloo_window_put(window, to, (uint64_t)env->rank * 8, &value,
                                   8, NULL));
    RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &sum, 1,
                                GLOO_INT32, GLOO_SUM, NULL, NULL));
    RANK_CHECK(env, sum == env->size);
    RANK_OK(env, gloo_window_fence(window, NULL));
    for (int from = 0; from < env->size; from++)
      RANK_CHECK(env, own[from] == value);
    RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
  group_all_works(env, env->context);
}

static void windows_among_collectives(void **state) {
  (void)state;
  windows_run(3, among_others);
  windows_run_with(3, (ranks_options){.no_helper = 1}, among_others);
  windows_run_with(2, (ranks_options){.streams = 4}, among_others);
}

static void with_streams(rank_env *env) {
  for (size_t i = 0; i < LENGTHS; i++)
    put_and_get_length(env, MALLOCED, lengths[i]);
  crowd(env);
}

static void several_streams(void **state) {
  (void)state;
  windows_run_with(2, (ranks_options){.streams = 3}, with_streams);
}

/* ---- several threads, several windows ------------------------------------ */

typedef struct worker {
  rank_env env; /* records this thread's failures */
  gloo_window *window;
  uint64_t slot;
} worker;

static void work(void *argument) {
  worker *w = argument;
  for (uint64_t i = 1; i <= 100; i++) {
    for (int to = 0; to < w->env.size; to++) {
      uint64_t value = i, back = 0;
      RANK_OK(&w->env,
              gloo_window_put(w->window, to, w->slot * 8, &value, 8, NULL));
      RANK_OK(&w->env, gloo_window_flush(w->window, to, NULL));
      RANK_OK(&w->env,
              gloo_window_get(w->window, to, w->slot * 8, &back, 8, NULL));
      RANK_OK(&w->env, gloo_window_fetch_add(w->window, to, 0, 1, NULL, NULL));
      RANK_OK(&w->env, gloo_window_flush_all(w->window, NULL));
      RANK_CHECK(&w->env, back == i);
    }
  }
}

static void threads(rank_env *env) {
  enum { THREADS = 3 };
  gloo_window *window = windows_new(env, NULL, 1024);
  if (!window) return;
  worker workers[THREADS];
  uv_thread_t ids[THREADS];
  for (int i = 0; i < THREADS; i++) {
    uint64_t slot = (uint64_t)(env->rank * THREADS + i + 1);
    workers[i] = (worker){.env = *env, .window = window, .slot = slot};
    if (uv_thread_create(&ids[i], work, &workers[i]) != 0) abort();
  }
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&ids[i]);
    if (workers[i].env.failure[0]) *env = workers[i].env;
  }
  RANK_OK(env, gloo_window_fence(window, NULL));
  const uint64_t *own = gloo_window_memory(window);
  RANK_CHECK(env, own[0] == (uint64_t)(100 * THREADS * env->size));
  RANK_OK(env, gloo_window_destroy(window, NULL));
}

static void several_threads_of_a_rank(void **state) {
  (void)state;
  windows_run(2, threads);
  windows_run(3, threads);
}

/* A thread with constant traffic must not delay another one's flush. */
static void go_on_putting(void *argument) {
  worker *w = argument;
  static const uint64_t value = 5;
  while (atomic_load(&away) == 0 && w->env.failure[0] == '\0')
    RANK_OK(&w->env, gloo_window_put(w->window, 1, 8, &value, 8, NULL));
}

static void flush_meanwhile(rank_env *env) {
  enum { STREAMERS = 3 };
  gloo_window *window = windows_new(env, NULL, 64);
  if (!window) return;
  if (env->rank == 0) {
    worker workers[STREAMERS];
    uv_thread_t ids[STREAMERS];
    for (int i = 0; i < STREAMERS; i++) {
      workers[i] = (worker){.env = *env, .window = window};
      if (uv_thread_create(&ids[i], go_on_putting, &workers[i]) != 0) abort();
    }
    for (uint64_t i = 0; i < 20; i++) {
      uint64_t before = 42;
      RANK_OK(env, gloo_window_fetch_add(window, 1, 0, 1, &before, NULL));
      RANK_OK(env, gloo_window_flush(window, 1, NULL));
      RANK_CHECK(env, before == i);
    }
    atomic_store(&away, 1);
    for (int i = 0; i < STREAMERS; i++) {
      uv_thread_join(&ids[i]);
      if (workers[i].env.failure[0]) *env = workers[i].env;
    }
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
}

static void a_flush_does_not_wait_for_later_puts(void **state) {
  (void)state;
  atomic_store(&away, 0);
  windows_run(2, flush_meanwhile);
  atomic_store(&away, 0);
  windows_run_with(2, (ranks_options){.streams = 3}, flush_meanwhile);
}

/* Puts to rank 2 while another thread waits for rank 1, and then for all. */
static void put_once_more(void *argument) {
  worker *w = argument;
  static const uint64_t value = 5;
  uv_sleep(20);
  RANK_OK(&w->env, gloo_window_put(w->window, 2, 0, &value, 8, NULL));
}

static void flush_all_meanwhile(rank_env *env) {
  gloo_window *window = windows_new(env, NULL, 64);
  if (!window) return;
  if (env->rank == 0) {
    uint64_t got;
    uv_thread_t id;
    worker other = {.env = *env, .window = window};
    if (uv_thread_create(&id, put_once_more, &other) != 0) abort();
    RANK_OK(env, gloo_window_get(window, 1, 0, &got, 8, NULL));
    RANK_OK(env, gloo_window_flush_all(window, NULL));
    uv_thread_join(&id);
    if (other.env.failure[0]) *env = other.env;
  } else if (env->rank == 1) {
    uv_sleep(50);
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
}

static void a_flush_of_all_asks_all(void **state) {
  (void)state;
  windows_run_with(3, (ranks_options){.no_helper = 1}, flush_all_meanwhile);
}

/* Windows of two contexts with memory in one region: if one context fails, its
 * pages are detached, and those of the other remain. */
static gloo_store *store_of_other;

static void share_a_region(rank_env *env) {
  gloo_context *other = NULL;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_error error;
  uint64_t value = 7;
  RANK_OK(env, gloo_context_create(env->rank, env->size, store_of_other,
                                   env->device, &c, &other, &error));
  gloo_window *failing = windows_new(env, NULL, 64), *good = NULL;
  RANK_OK(env, gloo_window_create(other, NULL, 64, NULL, &good, NULL));
  if (!other || !failing || !good) return;
  for (int round = 0; round < 2; round++) {
    RANK_OK(env, gloo_window_put(failing, 1 - env->rank, 0, &value, 8, NULL));
    RANK_OK(env, gloo_window_put(good, 1 - env->rank, 0, &value, 8, NULL));
    RANK_OK(env, gloo_window_fence(failing, NULL));
    RANK_OK(env, gloo_window_fence(good, NULL));
  }
  if (env->rank == 0)
    RANK_OK(env, gloo_context_abort(env->context, "enough", NULL));
  RANK_CHECK(env, gloo_window_destroy(failing, NULL) != GLOO_OK);
  value = 8;
  RANK_OK(env, gloo_window_put(good, 1 - env->rank, 0, &value, 8, NULL));
  RANK_OK(env, gloo_window_fence(good, NULL));
  RANK_CHECK(env, *(uint64_t *)gloo_window_memory(good) == 8);
  RANK_OK(env, gloo_window_destroy(good, NULL));
  gloo_context_destroy(other);
}

static void windows_fail_with_their_own_context(void **state) {
  (void)state;
  assert_int_equal(gloo_store_memory_create(&store_of_other, NULL), GLOO_OK);
  windows_run(2, share_a_region);
  gloo_store_destroy(store_of_other);
}

/* Windows of the context, and of a group of it, are independent. */
static void two_windows(rank_env *env) {
  gloo_context *group =
      group_split(env, env->context, env->rank % 2, env->rank);
  if (!group) return;
  gloo_window *all = windows_new(env, NULL, 64), *some = NULL;
  RANK_OK(env, gloo_window_create(group, NULL, 64, NULL, &some, NULL));
  if (!all || !some) return;
  uint64_t value = 7;
  for (int to = 0; to < gloo_context_size(group); to++)
    RANK_OK(env, gloo_window_fetch_add(some, to, 8, 1, NULL, NULL));
  for (int to = 0; to < env->size; to++)
    RANK_OK(env, gloo_window_put(all, to, 0, &value, 8, NULL));
  RANK_OK(env, gloo_window_fence(some, NULL));
  RANK_OK(env, gloo_window_fence(all, NULL));
  const uint64_t *a = gloo_window_memory(all), *s = gloo_window_memory(some);
  RANK_CHECK(env, a[0] == 7 && a[1] == 0);
  RANK_CHECK(env, s[0] == 0 && s[1] == (uint64_t)gloo_context_size(group));
  RANK_OK(env, gloo_window_destroy(all, NULL));
  RANK_OK(env, gloo_window_destroy(some, NULL));
  gloo_context_destroy(group);
}

static void windows_of_context_and_group(void **state) {
  (void)state;
  windows_run(4, two_windows);
}

/* ---- invalid calls, and failures ----------------------------------------- */

static void refused(rank_env *env) {
  gloo_window *window = NULL;
  gloo_error error;
  uint64_t word = 0, own[4] = {0};
  rank_expect_invalid(env,
                      gloo_window_create(NULL, NULL, 8, NULL, &window, &error),
                      &error, "`context` must not be NULL");
  rank_expect_invalid(
      env, gloo_window_create(env->context, NULL, 8, NULL, NULL, &error),
      &error, "`window` must not be NULL");
  rank_expect_invalid(env,
                      gloo_window_create(env->context, (char *)own + 4, 8, NULL,
                                         &window, &error),
                      &error, "not a multiple of 8");
  window = windows_new(env, own, sizeof own);
  if (!window) return;
  RANK_CHECK(env, gloo_window_memory(window) == own);
  RANK_CHECK(env, gloo_window_memory(NULL) == NULL);
  RANK_CHECK(env, gloo_window_put(window, env->size, 0, &word, 8, &error) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env,
             gloo_window_get(window, -1, 0, &word, 8, &error) == GLOO_ERR_RANK);
  RANK_CHECK(env,
             gloo_window_flush(window, env->size, &error) == GLOO_ERR_RANK);
  rank_expect_invalid(env, gloo_window_put(NULL, 0, 0, &word, 8, &error),
                      &error, "window is NULL");
  rank_expect_invalid(env, gloo_window_fence(NULL, &error), &error,
                      "window is NULL");
  rank_expect_invalid(env, gloo_window_put(window, 0, 0, NULL, 8, &error),
                      &error, "buffer is NULL");
  rank_expect_invalid(env, gloo_window_get(window, 0, 25, &word, 8, &error),
                      &error, "exceed the 32 bytes");
  rank_expect_invalid(env,
                      gloo_window_get(window, 0, UINT64_MAX, &word, 8, &error),
                      &error, "exceed the 32 bytes");
  rank_expect_invalid(env, gloo_window_fetch_add(window, 0, 4, 1, NULL, &error),
                      &error, "not a multiple of 8");
  rank_expect_invalid(
      env, gloo_window_compare_swap(window, 0, 32, 0, 1, NULL, &error), &error,
      "exceed the 32 bytes");
  RANK_OK(env, gloo_window_fence(window, NULL));
  RANK_OK(env, gloo_window_destroy(window, NULL));
  RANK_OK(env, gloo_window_destroy(NULL, NULL));
  group_all_works(env, env->context);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  windows_run(2, refused);
}

/* One rank aborts; the others report it in whichever call they are. */
static void one_gives_up(rank_env *env) {
  enum { BYTES = 1 << 20 };
  uint8_t *own = NULL, *data = malloc(BYTES), *from = calloc(1, BYTES);
  if (!data || !from) abort();
  RANK_CHECK(env, gloo_alloc(BYTES, (void **)&own, NULL) == GLOO_OK);
  gloo_window *window = windows_new(env, own, BYTES);
  if (!window) return;
  /* Some ranks may still be in the fence when the error arrives. */
  gloo_error error;
  gloo_status status = gloo_window_fence(window, &error);
  if (env->rank == 1) {
    RANK_CHECK(env, status == GLOO_OK);
    uv_sleep(30);
    RANK_OK(env, gloo_context_abort(env->context, "enough", NULL));
    status = gloo_window_flush_all(window, &error);
  } else {
    int to = env->rank == 0 ? 1 : 0;
    while (status == GLOO_OK) {
      status = gloo_window_put(window, to, 0, from, BYTES, &error);
      if (status == GLOO_OK)
        status = gloo_window_get(window, to, 0, data, BYTES, &error);
      if (status == GLOO_OK) status = gloo_window_flush(window, to, &error);
    }
  }
  RANK_CHECK(env, status == GLOO_ERR_ABORTED || status == GLOO_ERR_POISONED ||
                      status == GLOO_ERR_PEER);
  if (error.rank != 1) rank_fail(env, __FILE__, __LINE__, error.message);
  /* The library no longer accesses the memory after the failure. */
  memset(own, 0x5a, BYTES);
  memset(data, 0x5a, BYTES);
  uv_sleep(30);
  size_t written = 0;
  for (size_t i = 0; i < BYTES; i++)
    written += own[i] != 0x5a || data[i] != 0x5a;
  RANK_CHECK(env, written == 0);
  RANK_CHECK(env, gloo_window_destroy(window, &error) == GLOO_ERR_POISONED);
  gloo_free(own);
  free(data);
  free(from);
}

static void a_rank_gives_up(void **state) {
  (void)state;
  windows_run(2, one_gives_up);
  windows_run(3, one_gives_up);
}

/* An owner that makes no progress is named at the deadline. */
static void late(rank_env *env) {
  gloo_window_options o = GLOO_WINDOW_OPTIONS_INIT;
  gloo_window *window = NULL;
  gloo_error error;
  uint64_t own[2] = {0};
  RANK_OK(env,
          gloo_window_create(env->context, own, sizeof own, &o, &window, NULL));
  if (!window) return;
  if (env->rank == 0) {
    while (atomic_load(&away) == 0) uv_sleep(1);
    RANK_OK(env, gloo_window_fetch_add(window, 1, 0, 1, NULL, NULL));
    gloo_status status = gloo_window_flush(window, 1, &error);
    RANK_CHECK(env, status == GLOO_ERR_TIMEOUT && error.rank == 1);
    RANK_CHECK(env, strstr(error.message, "rank 1 did not complete") != NULL);
    atomic_fetch_add(&served, 1);
  } else {
    atomic_store(&away, 1);
    while (atomic_load(&served) == 0) uv_sleep(1);
  }
  RANK_CHECK(env, gloo_window_destroy(window, NULL) != GLOO_OK);
}

static void a_late_owner_is_named(void **state) {
  (void)state;
  atomic_store(&served, 0);
  atomic_store(&away, 0);
  windows_run_with(
      2, (ranks_options){.no_helper = 1, .timeout_ns = INT64_C(300000000)},
      late);
}

int main(int argc, char **argv) {
  if (argc > 1) windows_transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(puts_and_gets_of_all_lengths),
      cmocka_unit_test(parts_have_different_lengths),
      cmocka_unit_test(many_without_a_flush),
      cmocka_unit_test(every_rank_adds),
      cmocka_unit_test(a_lock_keeps_others_out),
      cmocka_unit_test(an_owner_that_computes_is_served),
      cmocka_unit_test(some_owners_need_not_help),
      cmocka_unit_test(windows_among_collectives),
      cmocka_unit_test(several_streams),
      cmocka_unit_test(several_threads_of_a_rank),
      cmocka_unit_test(a_flush_does_not_wait_for_later_puts),
      cmocka_unit_test(a_flush_of_all_asks_all),
      cmocka_unit_test(windows_fail_with_their_own_context),
      cmocka_unit_test(windows_of_context_and_group),
      cmocka_unit_test(bad_arguments_are_refused),
      cmocka_unit_test(a_rank_gives_up),
      cmocka_unit_test(a_late_owner_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
