/* The table of regions, and detaching memory from other processes. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "gloo_c/memory.h"
#include "memory/region.h"

enum { BYTES = 200000 };

static uint8_t *shared(size_t bytes) {
  void *memory = NULL;
  gloo_error error;
  if (gloo_alloc(bytes, &memory, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  return memory;
}

static bool found(const void *memory, size_t bytes, gli_region *region) {
  gli_region ignored;
  return gli_region_find(memory, bytes, region ? region : &ignored);
}

/* ---- the table ----------------------------------------------------------- */

static void ranges_are_found_in_their_region(void **state) {
  (void)state;
  enum { REGIONS = 50 };
  uint8_t *memory[REGIONS];
  for (int i = 0; i < REGIONS; i++) memory[i] = shared(BYTES);
  for (int i = 0; i < REGIONS; i++) {
    gli_region r;
    assert_true(found(memory[i], BYTES, &r));
    assert_ptr_equal(r.base, memory[i]);
    assert_in_range(r.id, 1, GLI_REGION_IDS - 1);
    assert_true(r.bytes >= BYTES && r.fd >= 0);
    gli_region same;
    assert_true(found(memory[i] + BYTES - 1, 1, &same));
    assert_true(same.serial == r.serial);
    assert_true(found(memory[i] + r.bytes, 0, NULL));
    assert_false(found(memory[i], r.bytes + 1, NULL));
    assert_false(found(memory[i] + 5, r.bytes - 4, NULL));
    assert_false(found(memory[i], SIZE_MAX, NULL));
    for (int k = 0; k < i; k++) {
      gli_region other;
      assert_true(found(memory[k], 1, &other));
      assert_true(other.id != r.id && other.serial != r.serial);
    }
  }
  int local = 0;
  assert_false(found(&local, sizeof local, NULL));
  assert_false(found(NULL, 1, NULL));
  for (int i = 0; i < REGIONS; i++) gloo_free(memory[i]);
}

static void freed_regions_are_gone_and_counted(void **state) {
  (void)state;
  uint8_t *memory = shared(BYTES);
  gli_region r;
  assert_true(found(memory, 1, &r));
  uint64_t generation = gli_region_generation();
  assert_true(gli_region_lives(memory, r.serial));
  uint8_t *second = shared(BYTES);
  assert_true(gli_region_generation() == generation);
  gloo_free(memory);
  assert_true(gli_region_generation() != generation);
  assert_false(gli_region_lives(memory, r.serial));
  assert_false(found(memory, 1, NULL));
  gloo_free(second);
}

/* A number is reused as late as possible, so that peers have learned of the end
 * of the old region. */
static void numbers_do_not_come_back_soon(void **state) {
  (void)state;
  enum { ROUNDS = 2000 };
  uint8_t *kept = shared(BYTES);
  gli_region r, k;
  assert_true(found(kept, 1, &k));
  uint32_t first = 0;
  for (int i = 0; i < ROUNDS; i++) {
    uint8_t *memory = shared(BYTES);
    assert_true(found(memory, 1, &r));
    assert_true(r.id != k.id && r.id != first);
    if (i == 0) first = r.id;
    gloo_free(memory);
  }
  gloo_free(kept);
}

/* ---- detaching ----------------------------------------------------------- */

/* A process that has the memory mapped and writes to all of it on request. */
typedef struct peer {
  pid_t pid;
  int to, from;
} peer;

static void serve(int in, int out, uint8_t *memory, size_t bytes) {
  uint8_t value;
  while (read(in, &value, 1) == 1) {
    memset(memory, value, bytes);
    if (write(out, &value, 1) != 1) break;
  }
  _exit(0);
}

static peer peer_start(uint8_t *memory, size_t bytes) {
  int to[2], from[2];
  assert_true(pipe(to) == 0 && pipe(from) == 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    close(to[1]);
    close(from[0]);
    serve(to[0], from[1], memory, bytes);
  }
  close(to[0]);
  close(from[1]);
  return (peer){pid, to[1], from[0]};
}

static void peer_writes(const peer *p, uint8_t value) {
  uint8_t answer;
  assert_int_equal(write(p->to, &value, 1), 1);
  assert_int_equal(read(p->from, &answer, 1), 1);
}

static void peer_end(const peer *p) {
  close(p->to);
  close(p->from);
  assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
}

static void assert_all(const uint8_t *memory, size_t bytes, uint8_t value) {
  for (size_t i = 0; i < bytes; i++)
    if (memory[i] != value) fail_msg("byte %zu is %d", i, memory[i]);
}

static void detached_memory_is_out_of_a_peers_reach(void **state) {
  (void)state;
  uint8_t *memory = shared(BYTES);
  gli_region r;
  assert_true(found(memory, BYTES, &r));
  peer p = peer_start(memory, BYTES);
  peer_writes(&p, 1);
  assert_all(memory, BYTES, 1);
  uint64_t generation = gli_region_generation();
  assert_true(gli_region_detach(memory, BYTES));
  assert_all(memory, BYTES, 1);
  peer_writes(&p, 2);
  assert_all(memory, BYTES, 1);
  memset(memory, 3, BYTES);
  peer_writes(&p, 4);
  assert_all(memory, BYTES, 3);
  /* The region is no longer shared, but not freed either. */
  assert_false(found(memory, 1, NULL));
  assert_true(gli_region_lives(memory, r.serial));
  assert_true(gli_region_generation() == generation);
  assert_true(gli_region_detach(memory, BYTES));
  assert_all(memory, BYTES, 3);
  peer_end(&p);
  gloo_free(memory);
  assert_false(gli_region_lives(memory, r.serial));
}

static void only_the_pages_of_a_range_are_detached(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *memory = shared(10 * page);
  peer p = peer_start(memory, 10 * page);
  peer_writes(&p, 1);
  assert_true(gli_region_detach(memory + 3 * page + 100, page));
  peer_writes(&p, 2);
  assert_all(memory, 3 * page, 2);
  assert_all(memory + 3 * page, 2 * page, 1);
  assert_all(memory + 5 * page, 5 * page, 2);
  assert_true(gli_region_detach(memory + 10 * page - 1, 1));
  memset(memory + 4 * page, 9, page);
  assert_true(gli_region_detach(memory + 2 * page, 5 * page));
  peer_writes(&p, 3);
  assert_all(memory, 2 * page, 3);
  assert_all(memory + 2 * page, page, 2);
  assert_all(memory + 3 * page, page, 1);
  assert_all(memory + 4 * page, page, 9);
  assert_all(memory + 5 * page, 2 * page, 2);
  assert_all(memory + 7 * page, 2 * page, 3);
  assert_all(memory + 9 * page, page, 2);
  peer_end(&p);
  gloo_free(memory);
}

/* Ranges on a detached page that peers still write to. */
static void a_range_on_a_detached_page_is_taken_back(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *memory = shared(3 * page);
  peer p = peer_start(memory, 3 * page);
  peer_writes(&p, 1);
  assert_true(gli_region_detach(memory + page, 10));
  memset(memory + page, 5, page);
  peer_writes(&p, 2);
  assert_true(gli_region_retake(memory + page - 7, page + 7 - 20));
  assert_all(memory, page, 2);
  assert_all(memory + page, page - 20, 2);
  assert_all(memory + 2 * page - 20, 20, 5);
  assert_true(gli_region_retake(memory + 2 * page - 20, page));
  assert_all(memory, 3 * page, 2);
  assert_true(gli_region_retake(&page, sizeof page)); /* in no region */
  peer_end(&p);
  gloo_free(memory);
}

static void other_memory_is_left_alone(void **state) {
  (void)state;
  int local = 7;
  uint8_t *heap = malloc(100);
  assert_non_null(heap);
  assert_true(gli_region_detach(&local, sizeof local));
  assert_true(gli_region_detach(heap, 100));
  assert_true(gli_region_detach(NULL, 100));
  uint8_t *memory = shared(100);
  assert_true(gli_region_detach(memory, 0));
  assert_true(gli_region_detach(memory, SIZE_MAX));
  assert_true(found(memory, 100, NULL));
  gloo_free(memory);
  free(heap);
}

/* Threads write to adjacent words during a detach. (ThreadSanitizer takes a
 * mapping for a write of the thread that makes it.) */
#if !defined(THREAD_SANITIZED)
typedef struct writer {
  uv_thread_t thread;
  _Atomic uint32_t *word;
  atomic_bool *stop;
  uint32_t count;
} writer;

static void count_up(void *arg) {
  writer *w = arg;
  do {
    for (int i = 0; i < 100; i++) {
      w->count++;
      atomic_fetch_add_explicit(w->word, 1, memory_order_relaxed);
    }
  } while (!atomic_load(w->stop));
}

static void no_write_of_another_thread_is_lost(void **state) {
  (void)state;
  enum { PAGES = 40, WRITERS = 2 };
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (int round = 0; round < 50; round++) {
    uint8_t *memory = shared(PAGES * page);
    atomic_bool stop = false;
    writer writers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
      size_t at = (size_t)(i * 17 + round % PAGES) % PAGES * page + 64;
      writers[i] = (writer){.word = (_Atomic uint32_t *)(void *)(memory + at),
                            .stop = &stop};
      assert_int_equal(
          uv_thread_create(&writers[i].thread, count_up, &writers[i]), 0);
    }
    assert_true(gli_region_detach(memory, PAGES * page));
    atomic_store(&stop, true);
    for (int i = 0; i < WRITERS; i++) {
      uv_thread_join(&writers[i].thread);
      assert_int_equal(atomic_load(writers[i].word), writers[i].count);
    }
    gloo_free(memory);
  }
}
#endif

/* All tests here need shareable memory. */
static int need_shared(void **state) {
  (void)state;
  uint8_t *memory = shared(BYTES);
  bool is = found(memory, 1, NULL);
  gloo_free(memory);
  return is ? 0 : -1;
}

int main(void) {
  if (need_shared(NULL) != 0) {
    print_message("1..0 # SKIP no memory can be shared here\n");
    return 0;
  }
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ranges_are_found_in_their_region),
    cmocka_unit_test(freed_regions_are_gone_and_counted),
    cmocka_unit_test(numbers_do_not_come_back_soon),
    cmocka_unit_test(detached_memory_is_out_of_a_peers_reach),
    cmocka_unit_test(only_the_pages_of_a_range_are_detached),
    cmocka_unit_test(a_range_on_a_detached_page_is_taken_back),
    cmocka_unit_test(other_memory_is_left_alone),
#if !defined(THREAD_SANITIZED)
    cmocka_unit_test(no_write_of_another_thread_is_lost),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
