/* Calls of `gloo doctor --selftest` that go wrong, as the variable WRONG says.
 * "data" changes a byte of rank 1's scan, shortens each put, and loses every
 * second addition to a store. On rank 1, "kill" and "stop" end or stop the
 * process before a reduce. "status" ends processes with status 7 after all
 * checks have passed, and those whose ranks are threads, with 0, before. */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "gloo_c/gloo_c.h"

static bool is_wrong_by(const char *how) {
  const char *wrong = getenv("WRONG");
  return wrong != NULL && strcmp(wrong, how) == 0;
}

static gloo_status put_less(gloo_window *window, int rank, uint64_t offset,
                            const void *from, size_t bytes, gloo_error *error) {
  return gloo_window_put(window, rank, offset, from,
                         bytes - (is_wrong_by("data") ? 8 : 0), error);
}

static gloo_status add_less(gloo_store *store, const char *key, int64_t amount,
                            int64_t *sum, gloo_error *error) {
  static atomic_int additions;
  bool lost = amount != 0 && atomic_fetch_add(&additions, 1) % 2 == 1 &&
              is_wrong_by("data");
  return gloo_store_add(store, key, lost ? 0 : amount, sum, error);
}

#define gli_case_run right_case_run
#include "tools/bench_call.c"
#undef gli_case_run
gloo_status gli_case_run(const gli_bench_case *c, const gli_bench_buffers *b,
                         gloo_error *error);
#define gloo_window_put put_less
#include "tools/selftest_checks.c"
#define gloo_store_add add_less
#include "tools/selftest_stores.c"

static void end_wrongly(void) {
  _exit(7);
}

/* Threads are a job of one rank. */
static void arrange_end(void) {
  const char *ranks = getenv("WORLD_SIZE");
  if (ranks == NULL || strcmp(ranks, "1") == 0) _exit(0);
  static atomic_flag arranged = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&arranged)) (void)atexit(end_wrongly);
}

gloo_status gli_case_run(const gli_bench_case *c, const gli_bench_buffers *b,
                         gloo_error *error) {
  bool here = c->rank == 1;
  if (here && c->call.collective == GLI_REDUCE) {
    if (is_wrong_by("kill")) (void)raise(SIGKILL);
    while (is_wrong_by("stop")) uv_sleep(1000);
    if (is_wrong_by("status")) arrange_end();
  }
  gloo_status status = right_case_run(c, b, error);
  if (here && c->call.collective == GLI_SCAN && is_wrong_by("data"))
    *(uint8_t *)b->out ^= 1;
  return status;
}
