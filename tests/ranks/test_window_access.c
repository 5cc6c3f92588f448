/* Windows: atomic operations of all kinds, blocks, and long copies. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "groups.h"
#include "window_ranks.h"

/* Uses a window until it is known how its memory is accessible. */
static void find_memory(rank_env *env, gloo_window *window, int to) {
  uint64_t word;
  for (int i = 0; i < 3; i++) {
    RANK_OK(env, gloo_window_get(window, to, 0, &word, 8, NULL));
    RANK_OK(env, gloo_window_fence(window, NULL));
  }
}

/* ---- atomic operations --------------------------------------------------- */

enum { CHANGES = GLOO_ATOMIC_SWAP + 2 /* and compare-and-swap */ };

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return *state ^ *state >> 29;
}

static uint64_t oracle(int change, uint64_t word, uint64_t a, uint64_t b) {
  if (change == GLOO_ATOMIC_ADD) return word + a;
  if (change == GLOO_ATOMIC_AND) return word & a;
  if (change == GLOO_ATOMIC_OR) return word | a;
  if (change == GLOO_ATOMIC_XOR) return word ^ a;
  if (change == GLOO_ATOMIC_SWAP) return a;
  return word == a ? b : word;
}

/* Changes word 1 of a rank, and checks what it was. */
static void change64(rank_env *env, gloo_window *window, int to, int change,
                     uint64_t *word, uint64_t a, uint64_t b) {
  uint64_t before = ~*word;
  if (change > GLOO_ATOMIC_SWAP)
    RANK_OK(env, gloo_window_compare_swap(window, to, 8, a, b, &before, NULL));
  else
    RANK_OK(env, gloo_window_fetch_op(window, to, 8, (gloo_atomic)change, a,
                                      &before, NULL));
  RANK_OK(env, gloo_window_flush(window, to, NULL));
  RANK_CHECK(env, before == *word);
  *word = oracle(change, *word, a, b);
}

/* Changes the 32-bit word 5 in the same way. */
static void change32(rank_env *env, gloo_window *window, int to, int change,
                     uint32_t *word, uint32_t a, uint32_t b) {
  uint32_t before[2] = {~*word, 77};
  if (change > GLOO_ATOMIC_SWAP)
    RANK_OK(env,
            gloo_window_compare_swap32(window, to, 20, a, b, &before[0], NULL));
  else
    RANK_OK(env, gloo_window_fetch_op32(window, to, 20, (gloo_atomic)change, a,
                                        &before[0], NULL));
  RANK_OK(env, gloo_window_flush(window, to, NULL));
  RANK_CHECK(env, before[0] == *word && before[1] == 77);
  *word = (uint32_t)oracle(change, *word, a, b);
}

static void change_words(rank_env *env) {
  enum { STEPS = 60 };
  int to = (env->rank + 1) % env->size;
  for (int kind = 0; kind < KINDS; kind++) {
    void *own = windows_block(env, (enum kind)kind, 32, 0);
    gloo_window *window = windows_new(env, own, 32);
    if (!window) return;
    uint64_t word = 0, seed = (uint64_t)env->rank + 1;
    uint32_t half = 0;
    RANK_OK(env, gloo_window_fence(window, NULL));
    for (int i = 0; i < STEPS && !env->failure[0]; i++) {
      uint64_t a = next_random(&seed), b = next_random(&seed);
      bool matches = i % 2 == 0;
      int change = i % CHANGES;
      bool compares = change > GLOO_ATOMIC_SWAP;
      change64(env, window, to, change, &word, compares && matches ? word : a,
               b);
      change32(env, window, to, change, &half,
               compares && matches ? half : (uint32_t)a, (uint32_t)b);
    }
    RANK_OK(env, gloo_window_put(window, to, 24, &word, 8, NULL));
    RANK_OK(env, gloo_window_fence(window, NULL));
    /* Neighbours of the words have not changed. */
    const uint32_t *mine = gloo_window_memory(window);
    RANK_CHECK(env, mine[0] == 0 && mine[1] == 0 && mine[4] == 0);
    RANK_CHECK(env, memcmp(&mine[2], &mine[6], 8) == 0);
    RANK_OK(env, gloo_window_destroy(window, NULL));
    windows_block_free((enum kind)kind, own);
  }
}

static void words_change_as_an_oracle_says(void **state) {
  (void)state;
  for (int size = 1; size <= 3; size++) windows_run(size, change_words);
  windows_run_with(2, (ranks_options){.streams = 3}, change_words);
}

/* Every rank changes the same words of the last one, whose own operations are
 * instructions, while those of others may be messages. No change is lost. */
enum { RACES = 100 };

typedef struct race_words {
  uint64_t bits, flips, last;
  uint32_t sum, pair, lock, guarded;
} race_words;

#define WORD_AT(member) offsetof(race_words, member)

static void race_once(rank_env *env, gloo_window *window, int to, int i,
                      uint64_t *token) {
  uint64_t bit = UINT64_C(1) << (i % 16 * 4 + env->rank);
  RANK_OK(env, gloo_window_fetch_op(window, to, WORD_AT(bits), GLOO_ATOMIC_OR,
                                    bit, NULL, NULL));
  RANK_OK(env, gloo_window_fetch_op(window, to, WORD_AT(flips), GLOO_ATOMIC_XOR,
                                    bit, NULL, NULL));
  RANK_OK(env, gloo_window_fetch_op(window, to, WORD_AT(last), GLOO_ATOMIC_SWAP,
                                    *token, token, NULL));
  RANK_OK(env, gloo_window_fetch_op32(window, to, WORD_AT(sum), GLOO_ATOMIC_ADD,
                                      3, NULL, NULL));
  RANK_OK(env, gloo_window_fetch_op32(window, to, WORD_AT(pair),
                                      GLOO_ATOMIC_ADD, 5, NULL, NULL));
  RANK_OK(env, gloo_window_flush(window, to, NULL));
}

/* A lock of 32 bits protects a nonatomic update. */
static void race_for_lock(rank_env *env, gloo_window *window, int to) {
  uint32_t before = 1, guarded = 0;
  while (before != 0 && !env->failure[0]) {
    RANK_OK(env, gloo_window_compare_swap32(window, to, WORD_AT(lock), 0, 1,
                                            &before, NULL));
    RANK_OK(env, gloo_window_flush(window, to, NULL));
    if (before != 0) uv_sleep(0);
  }
  RANK_OK(env,
          gloo_window_get(window, to, WORD_AT(guarded), &guarded, 4, NULL));
  RANK_OK(env, gloo_window_flush(window, to, NULL));
  guarded++;
  RANK_OK(env,
          gloo_window_put(window, to, WORD_AT(guarded), &guarded, 4, NULL));
  RANK_OK(env, gloo_window_flush(window, to, NULL));
  RANK_OK(env, gloo_window_fetch_op32(window, to, WORD_AT(lock),
                                      GLOO_ATOMIC_AND, 0, &before, NULL));
  RANK_OK(env, gloo_window_flush(window, to, NULL));
  RANK_CHECK(env, before == 1);
}

static void race(rank_env *env) {
  for (int kind = 0; kind < KINDS; kind++) {
    void *own = windows_block(env, (enum kind)kind, sizeof(race_words), 0);
    gloo_window *window = windows_new(env, own, sizeof(race_words));
    if (!window) return;
    int to = env->size - 1;
    uint64_t token = (uint64_t)env->rank + 1, tokens[8] = {0};
    RANK_OK(env, gloo_window_fence(window, NULL));
    for (int i = 0; i < RACES && !env->failure[0]; i++) {
      race_once(env, window, to, i, &token);
      if (i % 5 == 0) race_for_lock(env, window, to);
    }
    RANK_OK(env, gloo_window_fence(window, NULL));
    RANK_OK(env, gloo_allgather(env->context, &token, tokens, 1, GLOO_UINT64,
                                NULL, NULL));
    if (env->rank == to) {
      race_words w;
      memcpy(&w, gloo_window_memory(window), sizeof w);
      uint32_t n = RACES * (uint32_t)env->size;
      uint64_t bits = 0, flips = 0, held = w.last;
      for (int rank = 0; rank < env->size; rank++)
        for (int i = 0; i < RACES; i++) {
          bits |= UINT64_C(1) << (i % 16 * 4 + rank);
          flips ^= UINT64_C(1) << (i % 16 * 4 + rank);
        }
      RANK_CHECK(env, w.bits == bits && w.flips == flips);
      RANK_CHECK(env, w.sum == 3 * n && w.pair == 5 * n);
      RANK_CHECK(env, w.lock == 0 && w.guarded == n / 5);
      /* The first zero and each token are at one place. */
      uint64_t seen = UINT64_C(1) << held;
      for (int rank = 0; rank < env->size; rank++)
        seen |= UINT64_C(1) << tokens[rank];
      RANK_CHECK(env, seen == (UINT64_C(1) << (env->size + 1)) - 1);
    }
    RANK_OK(env, gloo_window_destroy(window, NULL));
    windows_block_free((enum kind)kind, own);
  }
}

/* Ranks flip their own bit of two words as fast as they can, an odd number of
 * times. */
static void flip(rank_env *env) {
  int turns = windows_are_mapped() ? 100001 : 1001;
  gloo_window *window = windows_new(env, NULL, 16);
  if (!window) return;
  find_memory(env, window, 0);
  for (int i = 0; i < turns && !env->failure[0]; i++) {
    RANK_OK(env, gloo_window_fetch_op(window, 0, 0, GLOO_ATOMIC_XOR,
                                      UINT64_C(1) << env->rank, NULL, NULL));
    RANK_OK(env, gloo_window_fetch_op32(window, 0, 8, GLOO_ATOMIC_XOR,
                                        UINT32_C(1) << env->rank, NULL, NULL));
  }
  RANK_OK(env, gloo_window_fence(window, NULL));
  const uint32_t *words = gloo_window_memory(window);
  uint32_t all = (UINT32_C(1) << env->size) - 1;
  uint64_t word;
  memcpy(&word, words, sizeof word);
  if (env->rank == 0) RANK_CHECK(env, word == all && words[2] == all);
  RANK_CHECK(env, words[3] == 0);
  RANK_OK(env, gloo_window_destroy(window, NULL));
}

static void no_flip_is_lost(void **state) {
  (void)state;
  windows_run(2, flip);
  windows_run(4, flip);
}

static void no_change_is_lost(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) windows_run(size, race);
  windows_run_with(3, (ranks_options){.streams = 3}, race);
}

/* ---- blocks -------------------------------------------------------------- */

typedef struct shape {
  size_t bytes, count, there, here; /* length, number and strides of blocks */
} shape;

static const shape shapes[] = {
    {1, 1, 0, 0},
    {8, 1, 3, 1},
    {1, 700, 1, 3},
    {3, 5, 7, 3},
    {8, 3000, 24, 8},
    {8, 3000, 8, 8},
    {100, 200, 100, 136},
    {4096, 30, 5000, 4096},
    {8192, 9, 8200, 8192},
    {16384, 5, 20000, 16400},
    {70001, 3, 70001, 80000},
    {8, 0, 8, 8},
    {0, 8, 8, 8},
};

static size_t extent(size_t bytes, size_t count, size_t stride) {
  return count > 0 && bytes > 0 ? (count - 1) * stride + bytes : 0;
}

/* Returns true if the blocks equal, and all bytes between them are `rest`. */
static bool are_blocks(const uint8_t *at, size_t stride, const uint8_t *as,
                       size_t as_stride, const shape *s, uint8_t rest) {
  size_t end = extent(s->bytes, s->count, stride);
  for (size_t i = 0; i < end; i++) {
    size_t block = s->count > 1 ? i / stride : 0, in = i - block * stride;
    uint8_t expected = in < s->bytes ? as[block * as_stride + in] : rest;
    if (at[i] != expected) return false;
  }
  return true;
}

static void move_blocks(rank_env *env, enum kind kind, const shape *s) {
  size_t whole = 8 + extent(s->bytes, s->count, s->there) + 8;
  size_t length = extent(s->bytes, s->count, s->here) + 1;
  int to = (env->rank + 1) % env->size;
  int from = (env->rank + env->size - 1) % env->size;
  uint8_t *own = windows_block(env, kind, whole, 0);
  uint8_t *data = malloc(length), *back = malloc(length);
  gloo_window *window = windows_new(env, own, whole);
  if (!window || !data || !back) return;
  own = gloo_window_memory(window);
  windows_fill(data, env->rank, 1, length);
  memset(back, 0xee, length);
  find_memory(env, window, to);
  RANK_OK(env, gloo_window_put_strided(window, to, 5, s->there, data, s->here,
                                       s->bytes, s->count, NULL));
  RANK_OK(env, gloo_window_fence(window, NULL));
  uint8_t *theirs = malloc(length);
  if (!theirs) abort();
  windows_fill(theirs, from, 1, length);
  RANK_CHECK(env, are_blocks(own + 5, s->there, theirs, s->here, s, 0));
  for (size_t i = 0; i < 5; i++) RANK_CHECK(env, own[i] == 0);
  for (size_t i = whole - 11; i < whole; i++) RANK_CHECK(env, own[i] == 0);
  RANK_OK(env, gloo_window_get_strided(window, to, 5, s->there, back, s->here,
                                       s->bytes, s->count, NULL));
  RANK_OK(env, gloo_window_flush(window, to, NULL));
  RANK_CHECK(env, are_blocks(back, s->here, data, s->here, s, 0xee));
  RANK_CHECK(env, back[length - 1] == 0xee);
  RANK_OK(env, gloo_window_destroy(window, NULL));
  windows_block_free(kind, own);
  free(data);
  free(back);
  free(theirs);
}

static void move_all_blocks(rank_env *env) {
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
      move_blocks(env, (enum kind)kind, &shapes[i]);
}

static void blocks_are_put_and_got(void **state) {
  (void)state;
  for (int size = 1; size <= 3; size++) windows_run(size, move_all_blocks);
  windows_run_with(2, (ranks_options){.streams = 3}, move_all_blocks);
}

/* ---- refused calls ------------------------------------------------------- */

static void refuse_blocks(rank_env *env, gloo_window *window) {
  static const struct refusal {
    uint64_t offset, there;
    size_t here, bytes, count;
    const char *text;
  } all[] = {
      {1, 16, 16, 16, 4, "4 blocks of 16 bytes, 16 bytes apart, at offset 1"},
      {0, 24, 16, 16, 4, "exceed the 64 bytes of rank 0"},
      {0, UINT64_MAX / 2, 16, 16, 3, "exceed the 64 bytes"},
      {0, UINT64_C(1) << 63, 16, 16, 3, "exceed the 64 bytes"},
      {0, 16, 16, 16, SIZE_MAX, "exceed the"},
      {UINT64_MAX - 15, 16, 16, 16, 2, "exceed the 64 bytes"},
      {0, 16, 16, SIZE_MAX, 2, "is less than the block length"},
      {0, UINT64_MAX, SIZE_MAX, SIZE_MAX, 2, "exceed the"},
      {0, 16, SIZE_MAX / 2, 8, 4, "exceed the address space"},
      {0, 7, 16, 8, 2,
       "a stride of 7 bytes is less than the block length of 8"},
      {0, 16, 7, 8, 2, "a stride of 7 bytes is less"},
      {0, 0, 8, 8, 2, "a stride of 0 bytes is less"},
      {60, 1, 1, 8, 1, "8 bytes at offset 60 exceed the 64 bytes"},
  };
  uint8_t data[64] = {1};
  gloo_error error;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    rank_expect_invalid(env,
                        gloo_window_put_strided(
                            window, 0, all[i].offset, all[i].there, data,
                            all[i].here, all[i].bytes, all[i].count, &error),
                        &error, all[i].text);
    rank_expect_invalid(env,
                        gloo_window_get_strided(
                            window, 0, all[i].offset, all[i].there, data,
                            all[i].here, all[i].bytes, all[i].count, &error),
                        &error, all[i].text);
  }
  rank_expect_invalid(
      env, gloo_window_put_strided(window, 0, 0, 8, NULL, 8, 8, 2, &error),
      &error, "the buffer is NULL");
}

static void refused(rank_env *env) {
  uint64_t own[8] = {0};
  gloo_error error;
  gloo_window *window = windows_new(env, own, sizeof own);
  if (!window) return;
  refuse_blocks(env, window);
  rank_expect_invalid(
      env,
      gloo_window_fetch_op(window, 0, 4, GLOO_ATOMIC_SWAP, 1, NULL, &error),
      &error, "the offset 4 is not a multiple of 8");
  rank_expect_invalid(
      env,
      gloo_window_fetch_op32(window, 0, 6, GLOO_ATOMIC_SWAP, 1, NULL, &error),
      &error, "the offset 6 is not a multiple of 4");
  rank_expect_invalid(
      env, gloo_window_compare_swap32(window, 0, 2, 0, 1, NULL, &error), &error,
      "the offset 2 is not a multiple of 4");
  rank_expect_invalid(
      env,
      gloo_window_fetch_op32(window, 0, 64, GLOO_ATOMIC_ADD, 1, NULL, &error),
      &error, "4 bytes at offset 64 exceed the 64 bytes");
  rank_expect_invalid(
      env, gloo_window_fetch_op(window, 0, 0, (gloo_atomic)5, 1, NULL, &error),
      &error, "5 is not a gloo_atomic");
  rank_expect_invalid(
      env,
      gloo_window_fetch_op32(window, 0, 0, (gloo_atomic)-1, 1, NULL, &error),
      &error, "-1 is not a gloo_atomic");
  for (int i = 0; i < 8; i++) RANK_CHECK(env, own[i] == 0);
  RANK_OK(env, gloo_window_destroy(window, NULL));
  group_all_works(env, env->context);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  windows_run(2, refused);
}

/* ---- long copies --------------------------------------------------------- */

/* Several pieces arrive whole, also where source and destination overlap. */
static void copy_much(rank_env *env) {
  enum { BYTES = (40 << 20) + 13 };
  gloo_window *window = windows_new(env, NULL, BYTES + 64);
  uint8_t *data = malloc(BYTES), *back = calloc(1, BYTES);
  if (!window || !data || !back) return;
  uint8_t *own = gloo_window_memory(window);
  int to = (env->rank + 1) % env->size;
  int from = (env->rank + env->size - 1) % env->size;
  windows_fill(data, env->rank, 1, BYTES);
  find_memory(env, window, to);
  RANK_OK(env, gloo_window_put(window, to, 0, data, BYTES, NULL));
  RANK_OK(env, gloo_window_fence(window, NULL));
  RANK_CHECK(env, windows_is_filled(own, from, 1, BYTES));
  RANK_OK(env, gloo_window_get(window, to, 0, back, BYTES, NULL));
  RANK_OK(env, gloo_window_fence(window, NULL));
  RANK_CHECK(env, memcmp(back, data, BYTES) == 0);
  RANK_OK(env, gloo_window_put(window, env->rank, 64, own, BYTES, NULL));
  RANK_OK(env, gloo_window_fence(window, NULL));
  RANK_CHECK(env, windows_is_filled(own + 64, from, 1, BYTES));
  RANK_OK(env, gloo_window_destroy(window, NULL));
  free(data);
  free(back);
}

static void long_copies_arrive_whole(void **state) {
  (void)state;
  windows_run(2, copy_much);
}

/* A source whose middle page cannot be read until the handler of its fault has
 * seen what is to happen during the copy. */
enum { SOURCE_BYTES = 1 << 20 };
static uint8_t *source;
static size_t page_bytes;
static atomic_int faulted, released;

static void release_page(int number, siginfo_t *info, void *context) {
  (void)context;
  const uint8_t *at = info->si_addr;
  uint8_t *page = source + SOURCE_BYTES / 2;
  if (at < page || at >= page + page_bytes) {
    (void)signal(number, SIG_DFL); /* a real fault: it comes again */
    return;
  }
  atomic_store(&faulted, 1);
  const struct timespec moment = {0, 1000000};
  for (int i = 0; i < 20000 && atomic_load(&released) == 0; i++)
    nanosleep(&moment, NULL);
  (void)mprotect(page, page_bytes, PROT_READ | PROT_WRITE);
}

static void make_source(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
  page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  source = mmap(NULL, SOURCE_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (source == MAP_FAILED) abort();
  windows_fill(source, 3, 4, SOURCE_BYTES);
  if (mprotect(source + SOURCE_BYTES / 2, page_bytes, PROT_NONE) != 0) abort();
  action.sa_sigaction = release_page;
  (void)sigemptyset(&action.sa_mask);
  if (sigaction(SIGSEGV, &action, NULL) != 0) abort();
  if (sigaction(SIGBUS, &action, NULL) != 0) abort();
  atomic_store(&faulted, 0);
  atomic_store(&released, 0);
}

static void drop_source(void) {
  (void)signal(SIGSEGV, SIG_DFL);
  (void)signal(SIGBUS, SIG_DFL);
  (void)munmap(source, SOURCE_BYTES);
}

typedef struct putter {
  gloo_window *window;
  int to;
  gloo_status status;
} putter;

static void put_source(void *argument) {
  putter *p = argument;
  p->status = gloo_window_put(p->window, p->to, 0, source, SOURCE_BYTES, NULL);
}

static void await_fault(rank_env *env) {
  for (int i = 0; i < 20000 && atomic_load(&faulted) == 0; i++) uv_sleep(1);
  RANK_CHECK(env, atomic_load(&faulted) == 1);
}

/* A copy to `to` by a thread of rank 0 stands still, and operations of that
 * rank go on meanwhile. */
static void stand_still(rank_env *env, int to) {
  gloo_window *window = windows_new(env, NULL, SOURCE_BYTES);
  if (!window) return;
  find_memory(env, window, to);
  putter p = {.window = window, .to = to};
  uv_thread_t id;
  if (env->rank == 0) {
    if (uv_thread_create(&id, put_source, &p) != 0) abort();
    await_fault(env);
  }
  for (int i = 0; i < 10; i++) {
    int32_t sum = 1;
    RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &sum, 1,
                                GLOO_INT32, GLOO_SUM, NULL, NULL));
    RANK_CHECK(env, sum == env->size);
  }
  if (env->rank == 0) {
    RANK_CHECK(env, atomic_load(&released) == 0);
    atomic_store(&released, 1);
    uv_thread_join(&id);
    RANK_OK(env, p.status);
  }
  RANK_OK(env, gloo_window_fence(window, NULL));
  if (env->rank == to)
    RANK_CHECK(
        env, windows_is_filled(gloo_window_memory(window), 3, 4, SOURCE_BYTES));
  RANK_OK(env, gloo_window_destroy(window, NULL));
}

static void stand_still_here(rank_env *env) {
  stand_still(env, 0);
}

static void stand_still_there(rank_env *env) {
  stand_still(env, 1);
}

static void a_long_copy_keeps_no_other_operation(void **state) {
  (void)state;
  make_source();
  windows_run(2, stand_still_here);
  drop_source();
  if (!windows_are_mapped()) return;
  make_source();
  windows_run(2, stand_still_there);
  drop_source();
}

static void release_soon(void *unused) {
  (void)unused;
  uv_sleep(100);
  atomic_store(&released, 1);
}

/* The context fails while the copy stands still: the mapped memory stays until
 * the copy has ended, and the call returns the error. */
static void fail_meanwhile(rank_env *env) {
  gloo_window *window = windows_new(env, NULL, SOURCE_BYTES);
  if (!window) return;
  find_memory(env, window, 1);
  if (env->rank == 0) {
    putter p = {.window = window, .to = 1};
    uv_thread_t id, timer;
    if (uv_thread_create(&id, put_source, &p) != 0) abort();
    await_fault(env);
    if (uv_thread_create(&timer, release_soon, NULL) != 0) abort();
    RANK_OK(env, gloo_context_abort(env->context, "enough", NULL));
    RANK_CHECK(env, atomic_load(&released) == 1);
    uv_thread_join(&id);
    uv_thread_join(&timer);
    RANK_CHECK(env, p.status == GLOO_ERR_ABORTED);
  }
  RANK_CHECK(env, gloo_window_destroy(window, NULL) != GLOO_OK);
}

static void mapped_memory_outlasts_copies(void **state) {
  (void)state;
  if (!windows_are_mapped()) return;
  make_source();
  windows_run(2, fail_meanwhile);
  drop_source();
}

/* A window is freed once the calls in it have ended. */
static void destroy_meanwhile(rank_env *env) {
  gloo_window *window = windows_new(env, NULL, SOURCE_BYTES);
  if (!window) return;
  putter p = {.window = window, .to = 0};
  uv_thread_t id, timer;
  if (uv_thread_create(&id, put_source, &p) != 0) abort();
  await_fault(env);
  if (uv_thread_create(&timer, release_soon, NULL) != 0) abort();
  RANK_OK(env, gloo_window_destroy(window, NULL));
  RANK_CHECK(env, atomic_load(&released) == 1);
  uv_thread_join(&id);
  uv_thread_join(&timer);
  RANK_OK(env, p.status);
}

static void a_window_outlasts_its_calls(void **state) {
  (void)state;
  make_source();
  windows_run(1, destroy_meanwhile);
  drop_source();
}

int main(int argc, char **argv) {
  if (argc > 1) windows_transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_change_as_an_oracle_says),
      cmocka_unit_test(no_change_is_lost),
      cmocka_unit_test(no_flip_is_lost),
      cmocka_unit_test(blocks_are_put_and_got),
      cmocka_unit_test(bad_arguments_are_refused),
      cmocka_unit_test(long_copies_arrive_whole),
      cmocka_unit_test(a_long_copy_keeps_no_other_operation),
      cmocka_unit_test(mapped_memory_outlasts_copies),
      cmocka_unit_test(a_window_outlasts_its_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
