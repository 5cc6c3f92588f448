/* gloo_alloc returns memory, or explains the failure. */
/* clang-format off */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "gloo_c/log.h"
#include "gloo_c/memory.h"
#include "memory/region.h"

static int lines_logged;
static char last_line[1024];

static void on_line(gloo_log_level level, const char *line, void *user) {
  (void)user;
  if (level < GLOO_LOG_WARN) return;
  lines_logged++;
  snprintf(last_line, sizeof last_line, "%s", line);
}

static uint8_t *allocate(size_t bytes) {
  void *memory = NULL;
  gloo_error error;
  if (gloo_alloc(bytes, &memory, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  assert_non_null(memory);
  return memory;
}

static bool all_zero(const uint8_t *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (memory[i] != 0) return false;
  return true;
}

static bool is_shared(const void *memory, size_t bytes) {
  gli_region region;
  return gli_region_find(memory, bytes, &region);
}

static void memory_is_zero_and_begins_on_a_page(void **state) {
  (void)state;
  static const size_t sizes[] = {
      0,          1,       64,       4095,          4096,
      4097,       1 << 20, 2 << 20,  (2 << 20) + 1, (5 << 20) - 1,
      (33 << 20), 100,     (2 << 20)};
  enum { SIZES = sizeof sizes / sizeof sizes[0] };
  uint8_t *memory[SIZES];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < SIZES; i++) {
      memory[i] = allocate(sizes[i]);
      assert_int_equal((uintptr_t)memory[i] % page, 0);
      assert_true(all_zero(memory[i], sizes[i]));
      memset(memory[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < SIZES; i++) {
      for (size_t at = 0; at < sizes[i]; at += 509)
        assert_int_equal(memory[i][at], i + 1);
      gloo_free(memory[i]);
    }
  }
  gloo_free(NULL);
}

static void nowhere_to_put_it_is_an_error(void **state) {
  (void)state;
  gloo_error error;
  assert_int_equal(gloo_alloc(1, NULL, &error), GLOO_ERR_INVALID);
  assert_int_equal(gloo_alloc(1, NULL, NULL), GLOO_ERR_INVALID);
}

static void more_than_there_is_is_refused(void **state) {
  (void)state;
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 + 1,
                                 SIZE_MAX / 2, SIZE_MAX / 4};
  /* At most half of a 32-bit address space may be available. */
  const size_t n = SIZE_MAX > UINT32_MAX ? 5 : 3;
  for (size_t i = 0; i < n; i++) {
    void *memory = &lines_logged;
    gloo_error error;
    assert_int_equal(gloo_alloc(sizes[i], &memory, &error), GLOO_ERR_NO_MEMORY);
    assert_ptr_equal(memory, &lines_logged);
    assert_int_equal(error.status, GLOO_ERR_NO_MEMORY);
    assert_int_equal(gloo_alloc(sizes[i], &memory, NULL), GLOO_ERR_NO_MEMORY);
  }
}

/* ---- limits, each in a separate process ---------------------------------- */

static void limit(int resource, rlim_t value) {
  struct rlimit r;
  if (getrlimit(resource, &r) != 0) _exit(10);
  r.rlim_cur = value;
  if (setrlimit(resource, &r) != 0) _exit(11);
}

/* Two allocations that cannot be shared work like others, and one log line
 * gives the reason. */
static int expect_ordinary(const char *reason) {
  lines_logged = 0;
  for (int i = 0; i < 2; i++) {
    void *memory = NULL;
    if (gloo_alloc(1 << 20, &memory, NULL) != GLOO_OK) return 1;
    if (is_shared(memory, 1)) return 2;
    if ((uintptr_t)memory % 64 != 0) return 3;
    if (!all_zero(memory, 1 << 20)) return 4;
    memset(memory, 1, 1 << 20);
    gloo_free(memory);
  }
  if (lines_logged != 1) return 5;
  return strstr(last_line, reason) != NULL ? 0 : 6;
}

static int with_small_files(void) {
  limit(RLIMIT_FSIZE, 65536);
  return expect_ordinary("RLIMIT_FSIZE");
}

static int with_no_descriptors(void) {
  limit(RLIMIT_NOFILE, 3);
  return expect_ordinary(strerror(EMFILE));
}

#if !defined(SANITIZED)
/* The limit leaves no address space at all, so the call fails. */
static int with_no_addresses(void) {
  limit(RLIMIT_AS, 1 << 20);
  lines_logged = 0;
  void *memory = NULL;
  gloo_error error;
  if (gloo_alloc((size_t)1 << 28, &memory, &error) != GLOO_ERR_NO_MEMORY)
    return 1;
  if (error.message[0] == '\0') return 2;
  return lines_logged == 1 ? 0 : 3;
}
#endif

static void in_a_child(int (*run)(void)) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(run());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void small_file_limit_gives_ordinary_memory(void **state) {
  (void)state;
  in_a_child(with_small_files);
}

static void lack_of_descriptors_gives_ordinary_memory(void **state) {
  (void)state;
  in_a_child(with_no_descriptors);
}

/* Sanitizers need more address space than the limit leaves. */
#if !defined(SANITIZED)
static void lack_of_addresses_is_an_error(void **state) {
  (void)state;
  in_a_child(with_no_addresses);
}
#endif

/* ---- processes and threads ----------------------------------------------- */

static void child_of_a_fork_sees_the_same_memory(void **state) {
  (void)state;
  uint8_t *memory = allocate(100000);
  if (!is_shared(memory, 100000)) skip();
  memory[99999] = 1;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (memory[99999] != 1) _exit(1);
    memory[99999] = 2;
    gloo_free(memory);
    void *own;
    _exit(gloo_alloc(10, &own, NULL) == GLOO_OK ? 0 : 2);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(memory[99999], 2);
  gloo_free(memory);
}

enum { THREADS = 4, ROUNDS = 300 };

typedef struct worker {
  uv_thread_t thread;
  int number;
  int wrong;
} worker;

static void churn(void *arg) {
  worker *w = arg;
  for (int i = 0; i < ROUNDS; i++) {
    size_t bytes = (size_t)(i % 7 + 1) * 50000 + 20000;
    void *memory;
    if (gloo_alloc(bytes, &memory, NULL) != GLOO_OK) {
      w->wrong++;
      continue;
    }
    gli_region region = {0};
    if (!gli_region_find((uint8_t *)memory + bytes - 1, 1, &region) ||
        region.base != memory || !gli_region_lives(region.base, region.serial))
      w->wrong++;
    memset(memory, w->number, bytes);
    gloo_free(memory);
    if (gli_region_lives(region.base, region.serial)) w->wrong++;
  }
}

static void threads_allocate_at_once(void **state) {
  (void)state;
  worker workers[THREADS] = {{.number = 0}};
  uint8_t *memory = allocate(1);
  bool shared = is_shared(memory, 1);
  gloo_free(memory);
  if (!shared) skip();
  for (int i = 0; i < THREADS; i++) {
    workers[i].number = i + 1;
    assert_int_equal(uv_thread_create(&workers[i].thread, churn, &workers[i]),
                     0);
  }
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&workers[i].thread);
    assert_int_equal(workers[i].wrong, 0);
  }
}

static int lowest_free_descriptor(void) {
  int fd = open("/dev/null", O_RDONLY);
  assert_true(fd >= 0);
  close(fd);
  return fd;
}

static void nothing_is_left_of_freed_memory(void **state) {
  (void)state;
  gloo_free(allocate(1)); /* the region of small blocks may stay */
  int before = lowest_free_descriptor();
  for (int i = 0; i < 3000; i++) gloo_free(allocate(4096));
  for (int i = 0; i < 300; i++) gloo_free(allocate(100000));
  assert_int_equal(lowest_free_descriptor(), before);
}

/* ---- small blocks, several per region ------------------------------------ */

enum { SMALL = 2000 };

static void small_ones_share_descriptors_and_nothing_else(void **state) {
  (void)state;
  static uint8_t *memory[SMALL];
  static size_t bytes[SMALL];
  int before = lowest_free_descriptor();
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < SMALL; i++) {
      if (memory[i] != NULL) continue;
      bytes[i] = (size_t)(i % 5) * 3000 + 1 + (size_t)round;
      memory[i] = allocate(bytes[i]);
      assert_true(all_zero(memory[i], bytes[i]));
      memset(memory[i], i % 251 + 1, bytes[i]);
    }
    assert_true(lowest_free_descriptor() < before + 50);
    for (int i = 0; i < SMALL; i++) {
      assert_int_equal(memory[i][0], i % 251 + 1);
      assert_int_equal(memory[i][bytes[i] - 1], i % 251 + 1);
      if (i % (round + 2) != 0 && round < 2) continue;
      gloo_free(memory[i]);
      memory[i] = NULL;
    }
  }
}

static void one_that_was_cut_off_leaves_its_neighbours_alone(void **state) {
  (void)state;
  uint8_t *first = allocate(5000), *second = allocate(5000);
  if (!is_shared(first, 5000)) skip();
  memset(first, 1, 5000);
  memset(second, 2, 5000);
  assert_true(gli_region_detach(first, 5000));
  assert_false(is_shared(first, 5000));
  assert_int_equal(first[4999], 1);
  assert_int_equal(second[4999], 2);
  /* The next allocation can be shared again. */
  uint8_t *third = allocate(5000);
  assert_true(is_shared(third, 5000));
  gloo_free(first);
  gloo_free(second);
  gloo_free(third);
}

static void child_of_a_fork_takes_nothing_that_its_parent_may_take(
    void **state) {
  (void)state;
  uint8_t *memory = allocate(1);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 100; i++) memset(allocate(4096), 7, 4096);
    gloo_free(memory);
    for (int i = 0; i < 300; i++) memset(allocate(4096), 7, 4096);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(memory[0], 0);
  gloo_free(memory);
}

static int with_few_descriptors(void) {
  limit(RLIMIT_NOFILE, 64);
  lines_logged = 0;
  for (int i = 0; i < 200; i++) {
    void *memory = NULL;
    if (gloo_alloc(100000, &memory, NULL) != GLOO_OK) return 1;
    memset(memory, 1, 100000);
  }
  for (int i = 0; i < 16; i++)
    if (open("/dev/null", O_RDONLY) < 0) return 2;
  if (lines_logged != 1) return 3;
  return strstr(last_line, "ulimit -n") != NULL ? 0 : 4;
}

static void a_share_of_the_descriptors_is_left_to_others(void **state) {
  (void)state;
  in_a_child(with_few_descriptors);
}

int main(void) {
  gloo_log_set_sink(on_line, NULL);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(memory_is_zero_and_begins_on_a_page),
    cmocka_unit_test(nowhere_to_put_it_is_an_error),
    cmocka_unit_test(small_file_limit_gives_ordinary_memory),
    cmocka_unit_test(lack_of_descriptors_gives_ordinary_memory),
#if !defined(SANITIZED)
    cmocka_unit_test(lack_of_addresses_is_an_error),
#endif
    cmocka_unit_test(child_of_a_fork_sees_the_same_memory),
    cmocka_unit_test(threads_allocate_at_once),
    cmocka_unit_test(nothing_is_left_of_freed_memory),
    cmocka_unit_test(small_ones_share_descriptors_and_nothing_else),
    cmocka_unit_test(one_that_was_cut_off_leaves_its_neighbours_alone),
    cmocka_unit_test(child_of_a_fork_takes_nothing_that_its_parent_may_take),
    cmocka_unit_test(a_share_of_the_descriptors_is_left_to_others),
    cmocka_unit_test(more_than_there_is_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
