/* Ranks that are threads, over a transport that refuses half of the offered
 * messages at random and often skips polls. Messages between different ranks
 * overtake each other as on no real transport; all calls complete with right
 * results. */
#include "cell.h"
#include "proxy.h"
#include "ranks/ranks.h"

enum { RANKS = 5, TIMES = 20 };

static const char *transport;

static void call_everything(rank_env *env) {
  cell_work w = {
      .context = env->context, .rank = env->rank, .ranks = env->size};
  bool wrong = false;
  RANK_CHECK(env, cell_work_make(&w));
  for (int kind = 0; kind < cell_call_count; kind++) {
    for (unsigned n = 0; n < TIMES; n++) {
      cell_call call = cell_call_draw(kind, 1, n, env->size);
      RANK_OK(env, cell_call_make(&w, &call, &wrong));
    }
  }
  RANK_CHECK(env, !wrong);
  cell_work_free(&w);
}

static void results_are_right_whatever_is_held_back(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  cell_proxy_busy();
  ranks_run(RANKS, &o, call_everything);
}

int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "inproc";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_are_right_whatever_is_held_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
