/* Failures at the last moment of a growth. Ranks are threads; one of them, the
 * odd one, performs the steps of gloo_context_grow by hand and ends as the test
 * requires. The others must continue in one context, with or without the
 * newcomer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "api/grow.h"
#include "engine/engine.h"
#include "gloo_c/gloo_c.h"

enum { RANKS_MAX = 3 };

typedef struct scene {
  int ranks;           /* initial members; the last one is odd */
  const char *verdict; /* set by the odd rank before it continues; NULL: none */
  bool settles;        /* the odd rank reports that it has met the newcomer */
  bool stays;          /* the odd rank stays in the new context */
  bool plain;          /* the store of rank 0 lacks compare and set */
  gloo_store *store;
} scene;

typedef struct actor {
  scene *scene;
  int rank; /* the newcomer's is the old context's size */
  gloo_status status, shrink;
  int size; /* size of its final context; 0: none */
  gloo_error error;
} actor;

/* Copy of the struct in src/api/grow.c. */
typedef struct told_plan {
  gli_grow_round round;
  int32_t newcomers, status;
  char text[GLOO_ERROR_MESSAGE_BYTES];
} told_plan;

/* ---- a store that cannot compare and set ----------------------------------
 */

static gloo_status plain_set(void *user, const char *key, const void *data,
                             size_t bytes) {
  return gloo_store_set(user, key, data, bytes, NULL);
}

static gloo_status plain_get(void *user, const char *key, int64_t timeout_ns,
                             gloo_value *value) {
  return gloo_store_get(user, key, timeout_ns, value, NULL);
}

static gloo_status plain_wait(void *user, const char *const *keys,
                              size_t n_keys, int64_t timeout_ns) {
  return gloo_store_wait(user, keys, n_keys, timeout_ns, NULL);
}

static gloo_status plain_add(void *user, const char *key, int64_t amount,
                             int64_t *result) {
  return gloo_store_add(user, key, amount, result, NULL);
}

static gloo_store *plain_open(gloo_store *inner) {
  const gloo_store_callbacks callbacks = {.struct_size = sizeof callbacks,
                                          .user = inner,
                                          .set = plain_set,
                                          .get = plain_get,
                                          .wait = plain_wait,
                                          .add = plain_add};
  gloo_store *store = NULL;
  return gloo_store_callbacks_create(&callbacks, &store, NULL) == GLOO_OK
             ? store
             : NULL;
}

/* ---- ranks --------------------------------------------------------------- */

static void act_newcomer(actor *a, gloo_device *device) {
  gloo_context *context;
  int64_t patience_ns = a->scene->plain ? 1 : INT64_C(60000000000);
  a->status = gloo_context_join(a->scene->store, device, NULL, patience_ns,
                                &context, &a->error);
  if (a->status != GLOO_OK) return;
  a->size = gloo_context_size(context);
  gloo_context_destroy(context);
}

/* Grows. If that fails, shrinks the old context. */
static void act_rank(actor *a, gloo_context *context) {
  gloo_grow_options o = GLOO_GROW_OPTIONS_INIT;
  gloo_context *next = NULL;
  o.newcomers = 1;
  o.timeout_ns = INT64_C(60000000000);
  gloo_store *plain = plain_open(a->scene->store);
  bool uses = a->scene->plain && a->rank == 0;
  a->status = gloo_context_grow(context, uses ? plain : a->scene->store, &o,
                                &next, &a->error);
  gloo_store_destroy(plain);
  if (uses)
    a->size = gloo_context_error(context, NULL) == GLOO_OK;
  else if (a->status != GLOO_OK)
    a->shrink = gloo_context_shrink(context, NULL, &next, NULL);
  if (next == NULL) return;
  a->size = gloo_context_size(next);
  gloo_context_destroy(next);
}

static void act_odd(actor *a, gloo_context *context, gloo_device *device) {
  const scene *s = a->scene;
  told_plan plan;
  gloo_context *made;
  int32_t well = 1;
  a->status = gloo_broadcast(context, GLOO_IN_PLACE, (uint8_t *)&plan,
                             sizeof plan, GLOO_UINT8, 0, NULL, &a->error);
  if (a->status != GLOO_OK || plan.status != GLOO_OK) return;
  a->status = gloo_allreduce(context, GLOO_IN_PLACE, &well, 1, GLOO_INT32,
                             GLOO_MIN, NULL, &a->error);
  if (a->status == GLOO_OK)
    a->status = gloo_broadcast(context, GLOO_IN_PLACE, (uint8_t *)&plan,
                               sizeof plan, GLOO_UINT8, 0, NULL, &a->error);
  if (a->status != GLOO_OK || plan.status != GLOO_OK) return;
  a->status = gli_grow_meet(s->store, &plan.round, a->rank, s->ranks + 1,
                            device, NULL, NULL, &made, &a->error);
  if (a->status != GLOO_OK) return;
  if (s->verdict != NULL)
    a->status = gloo_store_set(s->store, "gloo/grow/verdict/1", s->verdict,
                               strlen(s->verdict), &a->error);
  if (a->status == GLOO_OK && s->settles)
    a->status = gloo_allreduce(context, GLOO_IN_PLACE, &well, 1, GLOO_INT32,
                               GLOO_MIN, NULL, &a->error);
  if (s->stays) {
    gloo_context_abort(context, "the odd rank is in the other one", NULL);
    if (gli_grow_confirm(made, &a->error) == GLOO_OK)
      a->size = gloo_context_size(made);
  }
  gloo_context_destroy(made);
}

static void act(void *argument) {
  actor *a = argument;
  const scene *s = a->scene;
  gloo_device *device;
  gloo_context *context;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = "inproc";
  a->status = gloo_device_create(&d, &device, &a->error);
  if (a->status != GLOO_OK) return;
  if (a->rank == s->ranks) {
    act_newcomer(a, device);
  } else {
    a->status = gloo_context_create(a->rank, s->ranks, s->store, device, NULL,
                                    &context, &a->error);
    if (a->status == GLOO_OK) {
      if (a->rank == s->ranks - 1)
        act_odd(a, context, device);
      else
        act_rank(a, context);
      gloo_context_destroy(context);
    }
  }
  gloo_device_destroy(device);
}

static void play(scene *s, actor actors[RANKS_MAX + 1]) {
  uv_thread_t threads[RANKS_MAX + 1];
  assert_int_equal(gloo_store_memory_create(&s->store, NULL), GLOO_OK);
  for (int i = 0; i <= s->ranks; i++) {
    actors[i] = (actor){.scene = s, .rank = i, .error = {.message = ""}};
    assert_int_equal(uv_thread_create(&threads[i], act, &actors[i]), 0);
  }
  for (int i = 0; i <= s->ranks; i++) {
    uv_thread_join(&threads[i]);
    print_message("# rank %d: %s, size %d: %s\n", i,
                  gloo_status_string(actors[i].status), actors[i].size,
                  actors[i].error.message);
  }
  gloo_store_destroy(s->store);
}

/* ---- tests --------------------------------------------------------------- */

static void newcomer_does_not_go_on_alone(void **state) {
  (void)state;
  scene s = {.ranks = 3};
  actor actors[RANKS_MAX + 1];
  play(&s, actors);
  for (int i = 0; i < 2; i++) {
    assert_int_not_equal(actors[i].status, GLOO_OK);
    assert_int_equal(actors[i].size, 2);
  }
  assert_int_not_equal(actors[3].status, GLOO_OK);
  assert_non_null(strstr(actors[3].error.message, "was not admitted"));
}

/* The settling succeeds on the other initial rank, but the stored verdict
 * refuses. */
static void one_refusal_is_the_verdict_of_all(void **state) {
  (void)state;
  scene s = {.ranks = 2, .verdict = "refused", .settles = true};
  actor actors[RANKS_MAX + 1];
  play(&s, actors);
  assert_int_equal(actors[0].status, GLOO_ERR_PEER);
  assert_int_equal(actors[0].shrink, GLOO_OK);
  assert_int_equal(actors[0].size, 1);
  assert_int_not_equal(actors[2].status, GLOO_OK);
}

/* The settling fails on the rank, yet the others are in the new context. */
static void rank_follows_those_that_took_it_in(void **state) {
  (void)state;
  scene s = {.ranks = 2, .verdict = "taken", .stays = true};
  actor actors[RANKS_MAX + 1];
  play(&s, actors);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(actors[i].status, GLOO_OK);
    assert_int_equal(actors[i].size, 3);
  }
}

static void rank_without_a_verdict_goes_on_in_neither(void **state) {
  (void)state;
  scene s = {.ranks = 2, .verdict = "perhaps", .settles = true};
  actor actors[RANKS_MAX + 1];
  play(&s, actors);
  assert_int_equal(actors[0].status, GLOO_ERR_STALE);
  assert_int_equal(actors[0].shrink, GLOO_ERR_STALE);
  assert_int_equal(actors[0].size, 0);
  assert_int_not_equal(actors[2].status, GLOO_OK);
}

/* The growth is refused before a newcomer gets a place. */
static void store_without_verdicts_is_refused(void **state) {
  (void)state;
  scene s = {.ranks = 2, .plain = true};
  actor actors[RANKS_MAX + 1];
  play(&s, actors);
  assert_int_equal(actors[0].status, GLOO_ERR_UNSUPPORTED);
  assert_int_equal(actors[0].size, 1); /* its context has not failed */
  assert_int_equal(actors[2].status, GLOO_ERR_TIMEOUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(newcomer_does_not_go_on_alone),
      cmocka_unit_test(one_refusal_is_the_verdict_of_all),
      cmocka_unit_test(rank_follows_those_that_took_it_in),
      cmocka_unit_test(rank_without_a_verdict_goes_on_in_neither),
      cmocka_unit_test(store_without_verdicts_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
