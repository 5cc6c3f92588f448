/* gloo_memory_register: entries of the table of regions for the program's
 * memory, and refused calls. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "gloo_c/memory.h"
#include "memory/region.h"

enum { BYTES = 100000 };

static void enter(void *memory, size_t bytes) {
  gloo_error error;
  if (gloo_memory_register(memory, bytes, &error) != GLOO_OK)
    fail_msg("%s", error.message);
}

static void leave(void *memory) {
  gloo_error error;
  if (gloo_memory_deregister(memory, &error) != GLOO_OK)
    fail_msg("%s", error.message);
}

static bool found(const void *memory, size_t bytes, gli_region *region) {
  gli_region ignored;
  return gli_region_find(memory, bytes, region ? region : &ignored);
}

/* Checks that the call is refused with `part` in the message. */
static void refuse(void *memory, size_t bytes, const char *part) {
  gloo_error error;
  assert_int_equal(gloo_memory_register(memory, bytes, &error),
                   GLOO_ERR_INVALID);
  assert_int_equal(error.status, GLOO_ERR_INVALID);
  if (strstr(error.message, part) == NULL)
    fail_msg("\"%s\" is not in \"%s\"", part, error.message);
  assert_int_equal(gloo_memory_register(memory, bytes, NULL), GLOO_ERR_INVALID);
}

static void refuse_to_leave(void *memory) {
  gloo_error error;
  assert_int_equal(gloo_memory_deregister(memory, &error), GLOO_ERR_INVALID);
  assert_true(strstr(error.message, "no registered memory starts") != NULL);
  assert_int_equal(gloo_memory_deregister(memory, NULL), GLOO_ERR_INVALID);
}

/* ---- the table ----------------------------------------------------------- */

static void a_range_is_found_until_it_leaves(void **state) {
  (void)state;
  uint8_t *memory = malloc(BYTES);
  assert_non_null(memory);
  assert_false(found(memory, 1, NULL));
  uint64_t last = 0;
  for (int round = 0; round < 3; round++) {
    gli_region r;
    enter(memory + 3, BYTES - 10);
    assert_true(found(memory + 3, BYTES - 10, &r));
    assert_ptr_equal(r.base, memory + 3);
    assert_int_equal(r.bytes, BYTES - 10);
    assert_false(gli_region_is_shared(&r));
    assert_true(r.serial != last);
    last = r.serial;
    assert_true(found(memory + 500, 1000, NULL));
    assert_false(found(memory + 2, 2, NULL));
    assert_false(found(memory + 3, BYTES - 9, NULL));
    leave(memory + 3);
    assert_false(found(memory + 500, 1000, NULL));
    assert_false(gli_region_lives(memory + 3, last));
  }
  free(memory);
}

static void ranges_may_touch(void **state) {
  (void)state;
  static uint8_t memory[90];
  enter(memory + 30, 30);
  enter(memory + 60, 30);
  enter(memory, 30);
  for (int i = 0; i < 3; i++) {
    gli_region r;
    assert_true(found(memory + 30 * i, 30, &r));
    assert_ptr_equal(r.base, memory + 30 * i);
  }
  assert_false(found(memory + 29, 2, NULL)); /* not within a single region */
  for (int i = 0; i < 3; i++) leave(memory + 30 * i);
}

static void overlaps_are_refused(void **state) {
  (void)state;
  static uint8_t memory[90];
  enter(memory + 30, 30);
  refuse(memory + 30, 30, "deregister first");
  refuse(memory, 31, "deregister first");
  refuse(memory + 59, 31, "deregister first");
  refuse(memory, 90, "deregister first");
  refuse(memory + 40, 10, "deregister first");
  enter(memory, 30);
  refuse(memory + 29, 1, "deregister first");
  leave(memory + 30);
  enter(memory + 30, 60);
  leave(memory);
  leave(memory + 30);
}

static void what_is_no_range_is_refused(void **state) {
  (void)state;
  uint8_t byte;
  refuse(NULL, 10, "`memory` must not be NULL");
  refuse(&byte, 0, "`bytes` not 0");
  refuse(&byte, SIZE_MAX, "exceed the address space");
  refuse(&byte, UINTPTR_MAX - (uintptr_t)&byte + 1, "exceed the address space");
  assert_false(found(&byte, 1, NULL));
}

static void only_what_begins_a_range_leaves(void **state) {
  (void)state;
  static uint8_t memory[30];
  refuse_to_leave(memory);
  refuse_to_leave(NULL);
  enter(memory, 30);
  refuse_to_leave(memory + 1);
  refuse_to_leave(memory + 30);
  leave(memory);
  refuse_to_leave(memory);
}

#ifdef WRAPS_REALLOC
static bool no_memory;

void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_realloc(void *old, size_t bytes) {
  return no_memory ? NULL : __real_realloc(old, bytes);
}
#endif

/* The table allocates memory only for some of the ranges. */
static void lack_of_memory_is_named(void **state) {
  (void)state;
#ifdef WRAPS_REALLOC
  enum { RANGES = 10000 };
  static uint8_t memory[2 * RANGES];
  gloo_error error;
  char expected[100];
  int n = 0;
  no_memory = true;
  while (n < RANGES &&
         gloo_memory_register(memory + 2 * n, 2, &error) == GLOO_OK)
    n++;
  no_memory = false;
  assert_in_range(n, 0, RANGES - 1);
  assert_int_equal(error.status, GLOO_ERR_NO_MEMORY);
  snprintf(expected, sizeof expected,
           "out of memory while registering 2 bytes at %p",
           (void *)(memory + 2 * n));
  assert_string_equal(error.message, expected);
  enter(memory + 2 * n, 2);
  for (; n >= 0; n--) leave(memory + 2 * n);
#else
  skip(); /* the linker cannot replace realloc */
#endif
}

/* ---- beside gloo_alloc --------------------------------------------------- */

static void memory_of_gloo_alloc_needs_none(void **state) {
  (void)state;
  void *at;
  gli_region r;
  assert_int_equal(gloo_alloc(BYTES, &at, NULL), GLOO_OK);
  if (!found(at, BYTES, &r)) skip(); /* ordinary memory: it may be registered */
  refuse(at, BYTES, "from gloo_alloc");
  refuse((uint8_t *)at + 100, 100, "from gloo_alloc");
  refuse_to_leave(at);
  gli_region same;
  assert_true(found(at, BYTES, &same));
  assert_true(same.serial == r.serial);
  gloo_free(at);
}

/* gloo_free removes no registered region. */
static void gloo_free_leaves_the_table_alone(void **state) {
  (void)state;
  void *at = malloc(BYTES);
  assert_non_null(at);
  enter(at, BYTES);
  gloo_free(at); /* as for memory that could not be shared */
  assert_true(found(at, BYTES, NULL));
  leave(at);
}

/* The program unmapped the memory without a call, and its address is reused. */
static void memory_at_a_stale_range_is_not_shared(void **state) {
  (void)state;
  static uint8_t memory[8192];
  gli_region other;
  enter(memory, 8192);
  assert_int_equal(gli_region_add(memory, 4096, 0, &other), EEXIST);
  assert_ptr_equal(other.base, memory);
  assert_false(gli_region_is_shared(&other));
  leave(memory);
}

/* Only memory that peers map can be detached. */
static void nothing_of_it_is_detached(void **state) {
  (void)state;
  uint8_t *memory = malloc(BYTES);
  assert_non_null(memory);
  memset(memory, 7, BYTES);
  enter(memory, BYTES);
  assert_true(gli_region_detach(memory + 10, 5000));
  assert_true(gli_region_retake(memory + 10, 5000));
  assert_true(found(memory, BYTES, NULL));
  for (size_t i = 0; i < BYTES; i++) assert_int_equal(memory[i], 7);
  leave(memory);
  free(memory);
}

/* ---- callbacks and their order ------------------------------------------- */

static gli_region gone;
static int n_gone;

static void on_gone(const gli_region *region) {
  gone = *region;
  n_gone++;
  assert_int_equal(region->base[0], 9); /* still there */
}

static void a_device_hears_before_the_owner_has_it_back(void **state) {
  (void)state;
  static uint8_t memory[30];
  memory[0] = 9;
  gli_region_on_remove(on_gone);
  enter(memory, 30);
  gli_region r;
  assert_true(found(memory, 30, &r));
  assert_int_equal(n_gone, 0);
  refuse_to_leave(memory + 1);
  assert_int_equal(n_gone, 0);
  leave(memory);
  assert_int_equal(n_gone, 1);
  assert_true(gone.serial == r.serial);
  void *at;
  assert_int_equal(gloo_alloc(BYTES, &at, NULL), GLOO_OK);
  *(uint8_t *)at = 9;
  bool shared = found(at, 1, NULL);
  gloo_free(at);
  assert_int_equal(n_gone, shared ? 2 : 1);
  gli_region_on_remove(NULL);
}

/* ---- processes and threads ----------------------------------------------- */

static void a_child_has_the_ranges_as_well(void **state) {
  (void)state;
  static uint8_t memory[30], later[30];
  enter(memory, 30);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!found(memory, 30, NULL)) _exit(1);
    if (gloo_memory_deregister(memory, NULL) != GLOO_OK) _exit(2);
    if (found(memory, 30, NULL)) _exit(3);
    _exit(gloo_memory_register(later, 30, NULL) == GLOO_OK ? 0 : 4);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_true(found(memory, 30, NULL));
  assert_false(found(later, 30, NULL));
  leave(memory);
}

enum { THREADS = 4, ROUNDS = 2000 };

typedef struct worker {
  uv_thread_t thread;
  uint8_t memory[64];
  int wrong;
} worker;

static void churn(void *arg) {
  worker *w = arg;
  for (int i = 0; i < ROUNDS; i++) {
    size_t bytes = (size_t)(i % 64) + 1;
    gli_region r = {0};
    if (gloo_memory_register(w->memory, bytes, NULL) != GLOO_OK ||
        !found(w->memory, bytes, &r) || r.base != w->memory ||
        gloo_memory_register(w->memory, 1, NULL) != GLOO_ERR_INVALID ||
        gloo_memory_deregister(w->memory, NULL) != GLOO_OK ||
        found(w->memory, bytes, NULL))
      w->wrong++;
  }
}

static void threads_register_at_once(void **state) {
  (void)state;
  static worker workers[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(uv_thread_create(&workers[i].thread, churn, &workers[i]),
                     0);
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&workers[i].thread);
    assert_int_equal(workers[i].wrong, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_range_is_found_until_it_leaves),
      cmocka_unit_test(ranges_may_touch),
      cmocka_unit_test(overlaps_are_refused),
      cmocka_unit_test(what_is_no_range_is_refused),
      cmocka_unit_test(only_what_begins_a_range_leaves),
      cmocka_unit_test(lack_of_memory_is_named),
      cmocka_unit_test(memory_of_gloo_alloc_needs_none),
      cmocka_unit_test(gloo_free_leaves_the_table_alone),
      cmocka_unit_test(memory_at_a_stale_range_is_not_shared),
      cmocka_unit_test(nothing_of_it_is_detached),
      cmocka_unit_test(a_device_hears_before_the_owner_has_it_back),
      cmocka_unit_test(a_child_has_the_ranges_as_well),
      cmocka_unit_test(threads_register_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
