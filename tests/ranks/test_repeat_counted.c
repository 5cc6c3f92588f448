/* Repeated calls with counts: one with other counts or displacements is a
 * different call, even if these are in the same array. */
#include <stdbool.h>
#include <string.h>

#include "ranks.h"

enum { ROUNDS = 24, RANKS = 5, ROOM = 64 };

static const char *transport = "auto";

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

/* Lists of a call; the same memory holds them in all rounds. */
typedef struct lists {
  size_t count[RANKS], first[RANKS];
  const size_t *displacements; /* `first`, or NULL for contiguous blocks */
} lists;

enum layout { PACKED, PACKED_AS_GIVEN, WITH_GAPS, BACKWARDS, LAYOUTS };

/* Returns the length of a block. Every four rounds have the same lengths. */
static size_t length_of(int round, int from, int to) {
  return (size_t)(round / LAYOUTS % 3 + from + to) % 4;
}

static void lay_out(lists *l, enum layout layout, int size) {
  size_t at = layout == WITH_GAPS ? 2 : 0;
  for (int k = 0; k < size; k++) {
    int rank = layout == BACKWARDS ? size - 1 - k : k;
    l->first[rank] = at;
    at += l->count[rank] + (layout == WITH_GAPS ? 1 : 0);
  }
  l->displacements = layout == PACKED ? NULL : l->first;
}

/* Returns element i of the block from rank `from` to rank `to`. */
static int32_t value(int round, int from, int to, size_t i) {
  return 10000 * round + 1000 * from + 100 * to + (int32_t)i;
}

static void fill(int32_t *block, size_t n, int round, int from, int to) {
  for (size_t i = 0; i < n; i++) block[i] = value(round, from, to, i);
}

static bool holds(const int32_t *block, size_t n, int round, int from, int to) {
  for (size_t i = 0; i < n; i++) {
    if (block[i] != value(round, from, to, i)) return false;
  }
  return true;
}

/* ---- the calls ----------------------------------------------------------- */

static void gather_and_scatter(rank_env *env, int round, lists *l) {
  int32_t all[ROOM], own[ROOM], back[ROOM];
  int me = env->rank, size = env->size, root = size > 1 ? round % 2 : 0;
  for (int k = 0; k < size; k++) l->count[k] = length_of(round, k, 0);
  lay_out(l, (enum layout)(round % LAYOUTS), size);
  size_t n = l->count[me];
  fill(own, n, round, me, 0);
  /* Only the root reads the lists. */
  lists none = *l;
  if (me != root) memset(none.count, 0xff, sizeof none.count);
  bool absent = me != root && round % 3 == 0;
  const size_t *counts = absent ? NULL : none.count;
  RANK_OK(env,
          gloo_gatherv(env->context, own, n, me == root ? all : NULL, counts,
                       none.displacements, GLOO_INT32, root, NULL, NULL));
  for (int k = 0; me == root && k < size; k++) {
    RANK_CHECK(env, holds(all + l->first[k], l->count[k], round, k, 0));
  }
  RANK_OK(env, gloo_scatterv(env->context, me == root ? all : NULL, counts,
                             none.displacements, back, n, GLOO_INT32, root,
                             NULL, NULL));
  RANK_CHECK(env, holds(back, n, round, me, 0));
}

static void gather_for_all(rank_env *env, int round, lists *l) {
  int32_t own[ROOM], all[ROOM];
  int me = env->rank;
  for (int k = 0; k < env->size; k++) l->count[k] = length_of(round, k, 0);
  lay_out(l, (enum layout)(round % LAYOUTS), env->size);
  bool in_place = round % 5 == 0;
  fill(in_place ? all + l->first[me] : own, l->count[me], round, me, 0);
  gloo_request *op;
  RANK_OK(env, gloo_allgatherv_start(
                   env->context, in_place ? GLOO_IN_PLACE : own, all, l->count,
                   l->displacements, GLOO_INT32, NULL, &op, NULL));
  RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(op);
  for (int k = 0; k < env->size; k++) {
    RANK_CHECK(env, holds(all + l->first[k], l->count[k], round, k, 0));
  }
}

static void reduce(rank_env *env, int round, lists *l) {
  int32_t in[ROOM], out[ROOM];
  for (int k = 0; k < env->size; k++) l->count[k] = length_of(round, k, 0);
  lay_out(l, PACKED, env->size);
  for (int i = 0; i < ROOM; i++) in[i] = round + i;
  RANK_OK(env, gloo_reduce_scatterv(env->context, in, out, l->count, GLOO_INT32,
                                    GLOO_SUM, NULL, NULL));
  for (size_t i = 0; i < l->count[env->rank]; i++) {
    int32_t one = round + (int32_t)(l->first[env->rank] + i);
    RANK_CHECK(env, out[i] == env->size * one);
  }
}

static void all_to_all(rank_env *env, int round, lists *to, lists *from) {
  int32_t in[ROOM], out[ROOM];
  int me = env->rank, size = env->size;
  /* The counts of both directions are equal, so that the call can be in
   * place. */
  for (int k = 0; k < size; k++) {
    to->count[k] = from->count[k] = length_of(round, me, k);
  }
  lay_out(to, (enum layout)(round % LAYOUTS), size);
  lay_out(from, (enum layout)((round + 1) % LAYOUTS), size);
  bool in_place = round % 5 == 0;
  const lists *sent = in_place ? from : to;
  for (int k = 0; k < size; k++) {
    int32_t *block = (in_place ? out : in) + sent->first[k];
    fill(block, sent->count[k], round, me, k);
  }
  RANK_OK(env, gloo_alltoallv(env->context, in_place ? GLOO_IN_PLACE : in,
                              in_place ? NULL : to->count, to->displacements,
                              out, from->count, from->displacements, GLOO_INT32,
                              NULL, NULL));
  for (int k = 0; k < size; k++) {
    RANK_CHECK(env, holds(out + from->first[k], from->count[k], round, k, me));
  }
}

static void rounds(rank_env *env) {
  lists a, b;
  for (int twice = 0; twice < 2; twice++) {
    for (int round = 0; round < ROUNDS; round++) {
      for (int again = 0; again < 2; again++) {
        gather_and_scatter(env, round, &a);
        gather_for_all(env, round, &a);
        reduce(env, round, &a);
        all_to_all(env, round, &a, &b);
      }
    }
  }
}

static void other_lists_are_other_calls(void **state) {
  (void)state;
  for (int size = 1; size <= RANKS; size++) run(size, rounds);
}

/* ---- refusals ------------------------------------------------------------ */

static void bad_after_good(rank_env *env) {
  int32_t in[8] = {0}, out[8];
  size_t counts[2] = {2, 2}, first[2] = {0, 2};
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  for (int round = 0; round < 3; round++) {
    RANK_OK(env, gloo_alltoallv(env->context, in, counts, first, out, counts,
                                first, GLOO_INT32, &o, &error));
    size_t other[2] = {1, 1};
    RANK_CHECK(
        env, gloo_alltoallv(env->context, in, other, first, out, counts, first,
                            GLOO_INT32, &o, &error) == GLOO_ERR_COUNT);
    RANK_CHECK(env, strstr(error.message, "for itself") != NULL);
    first[1] = 1;
    RANK_CHECK(
        env, gloo_alltoallv(env->context, in, counts, first, out, counts, first,
                            GLOO_INT32, &o, &error) == GLOO_ERR_COUNT);
    RANK_CHECK(env, strstr(error.message, "overlap") != NULL);
    first[1] = 2;
    RANK_CHECK(env,
               gloo_alltoallv(env->context, in, NULL, first, out, counts, first,
                              GLOO_INT32, &o, &error) == GLOO_ERR_COUNT);
    RANK_CHECK(env, strstr(error.message, "is NULL") != NULL);
    RANK_CHECK(
        env, gloo_alltoallv(env->context, in, counts, first, in, counts, first,
                            GLOO_INT32, &o, &error) == GLOO_ERR_BUFFER);
    RANK_CHECK(env, strstr(error.message, "overlap") != NULL);
  }
}

static void bad_lists_are_refused_as_the_first_time(void **state) {
  (void)state;
  run(2, bad_after_good);
}

/* In place, the root's own length comes from the list, and else from the
 * call. */
static void places_in_turn(rank_env *env) {
  int32_t all[4] = {-1, -1, -1, -1}, *own = all + 2 * env->rank;
  size_t counts[2] = {2, 2};
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  bool root = env->rank == 0;
  for (int round = 0; round < 4; round++) {
    fill(own, 2, round, env->rank, 0);
    RANK_OK(env,
            gloo_gatherv(env->context, root ? GLOO_IN_PLACE : own, root ? 0 : 2,
                         all, counts, NULL, GLOO_INT32, 0, &o, &error));
    if (!root) continue;
    RANK_CHECK(env, holds(all, 2, round, 0, 0));
    RANK_CHECK(env, holds(all + 2, 2, round, 1, 0));
    RANK_CHECK(env, gloo_gatherv(env->context, all, 0, all, counts, NULL,
                                 GLOO_INT32, 0, &o, &error) == GLOO_ERR_COUNT);
    RANK_CHECK(env, strstr(error.message, "for itself") != NULL);
  }
}

static void in_place_is_another_call(void **state) {
  (void)state;
  run(2, places_in_turn);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(other_lists_are_other_calls),
      cmocka_unit_test(bad_lists_are_refused_as_the_first_time),
      cmocka_unit_test(in_place_is_another_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
