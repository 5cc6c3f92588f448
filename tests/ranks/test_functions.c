/* Callbacks of gloo_request_on_done that run while the request, or its context,
 * is destroyed, restarted or given another callback. When that call returns,
 * the memory that the callback uses belongs to the program again. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "ranks.h"

static const char *transport;

/* Duration of a callback: a call that does not wait for its end returns
 * sooner. */
enum { STAY_MS = 100, TAG = 7 };

typedef struct scene {
  rank_env *env;
  atomic_int begun, ended;
  void (*act)(struct scene *scene, gloo_request *request);
  gloo_request *other;
  gloo_context *group;
  uv_sem_t met; /* the callback has begun */
  gloo_status status, acted;
} scene;

static void scene_begin(scene *s, rank_env *env) {
  memset(s, 0, sizeof *s);
  s->env = env;
  RANK_CHECK(env, uv_sem_init(&s->met, 0) == 0);
}

/* Reuses the memory of the callback for something else. */
static void scene_end(scene *s) {
  RANK_CHECK(s->env, atomic_load(&s->begun) == atomic_load(&s->ended));
  while (atomic_load(&s->begun) != atomic_load(&s->ended)) uv_sleep(1);
  uv_sem_destroy(&s->met);
}

static void stay(void *user, gloo_request *request, gloo_status status) {
  scene *s = user;
  s->status = status;
  atomic_fetch_add(&s->begun, 1);
  uv_sem_post(&s->met);
  if (s->act != NULL) s->act(s, request);
  uv_sleep(STAY_MS);
  atomic_fetch_add(&s->ended, 1);
}

/* Returns a receive that has its message, and whose callback is running in a
 * thread of the library. */
static gloo_request *begin_to_stay(scene *s) {
  static _Thread_local int32_t word;
  rank_env *env = s->env;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = TAG;
  gloo_request *request = NULL;
  RANK_OK(env, gloo_recv_init(env->context, &word, 1, GLOO_INT32, env->rank, &o,
                              &request, NULL));
  RANK_OK(env, gloo_request_on_done(request, stay, s, NULL));
  RANK_OK(env, gloo_request_start(request, NULL));
  RANK_OK(env, gloo_send(env->context, &(int32_t){1}, 1, GLOO_INT32, env->rank,
                         &o, NULL));
  uv_sem_wait(&s->met);
  return request;
}

static void feed(const scene *s) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = TAG;
  RANK_OK(s->env, gloo_send(s->env->context, &(int32_t){1}, 1, GLOO_INT32,
                            s->env->rank, &o, NULL));
}

/* ---- from another thread ------------------------------------------------- */

static void destroying(rank_env *env) {
  scene s;
  scene_begin(&s, env);
  gloo_request *request = begin_to_stay(&s);
  gloo_request_destroy(request);
  RANK_CHECK(env, atomic_load(&s.ended) == 1 && s.status == GLOO_OK);
  scene_end(&s);
}

static void releasing(rank_env *env) {
  scene s;
  scene_begin(&s, env);
  gloo_request *request = begin_to_stay(&s);
  gloo_request_release(request);
  RANK_CHECK(env, atomic_load(&s.ended) == 1);
  scene_end(&s);
}

static void count(void *user, gloo_request *request, gloo_status status) {
  (void)request, (void)status;
  atomic_fetch_add((atomic_int *)user, 1);
}

static void replacing(rank_env *env) {
  for (int with = 0; with < 2; with++) {
    scene s;
    atomic_int times;
    atomic_init(&times, 0);
    scene_begin(&s, env);
    gloo_request *request = begin_to_stay(&s);
    RANK_OK(env,
            gloo_request_on_done(request, with ? count : NULL, &times, NULL));
    RANK_CHECK(env, atomic_load(&s.ended) == 1);
    scene_end(&s);
    /* The callback was set after that run had completed. */
    RANK_CHECK(env, atomic_load(&times) == 0);
    gloo_request_destroy(request);
    RANK_CHECK(env, atomic_load(&times) == 0);
  }
}

static void starting_again(rank_env *env) {
  scene s;
  scene_begin(&s, env);
  gloo_request *request = begin_to_stay(&s);
  RANK_OK(env, gloo_request_start(request, NULL));
  RANK_CHECK(env, atomic_load(&s.ended) == 1);
  feed(&s);
  RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(request);
  RANK_CHECK(env, atomic_load(&s.ended) == 2);
  scene_end(&s);
}

static void joined(rank_env *env) {
  scene s;
  scene_begin(&s, env);
  int32_t words[2];
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = TAG;
  gloo_request *requests[2], *both = NULL;
  for (int i = 0; i < 2; i++)
    RANK_OK(env, gloo_recv_start(env->context, &words[i], 1, GLOO_INT32,
                                 env->rank, &o, &requests[i], NULL));
  RANK_OK(env, gloo_requests_join(requests, 2, &both, NULL));
  RANK_OK(env, gloo_request_on_done(both, stay, &s, NULL));
  feed(&s);
  feed(&s);
  uv_sem_wait(&s.met);
  gloo_request_destroy(both);
  RANK_CHECK(env, atomic_load(&s.ended) == 1);
  scene_end(&s);
}

/* Destroying a context waits for its own callbacks only. */
static void destroying_contexts(rank_env *env) {
  scene s, of_group;
  scene_begin(&s, env);
  scene_begin(&of_group, env);
  gloo_context *group = NULL, *all = env->context;
  RANK_OK(env, gloo_context_split(all, 0, 0, NULL, &group, NULL));
  env->context = group;
  gloo_request *request = begin_to_stay(&of_group);
  env->context = all;
  gloo_context_destroy(group);
  RANK_CHECK(env, atomic_load(&of_group.ended) == 1);
  scene_end(&of_group);
  gloo_request_destroy(request);
  request = begin_to_stay(&s);
  gloo_context_destroy(all);
  env->context = NULL;
  RANK_CHECK(env, atomic_load(&s.ended) == 1);
  scene_end(&s);
  gloo_request_destroy(request);
}

/* ---- from the callback itself -------------------------------------------- */

static void destroy_own(scene *s, gloo_request *request) {
  (void)s;
  gloo_request_destroy(request);
}

static void from_within(rank_env *env) {
  scene s;
  scene_begin(&s, env);
  s.act = destroy_own;
  (void)begin_to_stay(&s);
  while (atomic_load(&s.ended) == 0) uv_sleep(1);
  scene_end(&s);
}

static void replace_own(scene *s, gloo_request *request) {
  s->acted = gloo_request_on_done(request, NULL, NULL, NULL);
}

static void replaced_from_within(rank_env *env) {
  scene s;
  scene_begin(&s, env);
  s.act = replace_own;
  gloo_request *request = begin_to_stay(&s);
  gloo_request_destroy(request);
  RANK_CHECK(env, atomic_load(&s.ended) == 1 && s.acted == GLOO_OK);
  scene_end(&s);
}

static void destroy_group(scene *s, gloo_request *request) {
  (void)request;
  gloo_context_destroy(s->group);
}

/* Requests of a destroyed context have no device left; destroying one still
 * waits for its callback. */
static void context_from_within(rank_env *env) {
  scene s;
  scene_begin(&s, env);
  gloo_context *all = env->context;
  RANK_OK(env, gloo_context_split(all, 0, 0, NULL, &s.group, NULL));
  s.act = destroy_group;
  env->context = s.group;
  gloo_request *request = begin_to_stay(&s);
  env->context = all;
  gloo_request_destroy(request);
  RANK_CHECK(env, atomic_load(&s.ended) == 1);
  scene_end(&s);
}

/* Restarts its own request, whatever the outcome. The restart must not succeed
 * while another thread destroys the request. */
static void start_own(scene *s, gloo_request *request) {
  s->acted = gloo_request_start(request, NULL);
}

static void started_from_within(rank_env *env) {
  scene s;
  scene_begin(&s, env);
  s.act = start_own;
  gloo_request *request = begin_to_stay(&s);
  while (atomic_load(&s.ended) == 0) uv_sleep(1);
  RANK_CHECK(env, s.acted == GLOO_OK);
  feed(&s);
  uv_sem_wait(&s.met);
  gloo_request_destroy(request);
  int runs = atomic_load(&s.ended);
  RANK_CHECK(env, runs == 2 || runs == 3); /* the last may have started */
  RANK_CHECK(env, runs == 2 || s.status == GLOO_ERR_CANCELLED);
  scene_end(&s);
}

/* ---- pairs of requests --------------------------------------------------- */

/* Two callbacks on two devices, each of which destroys the other's request. */
typedef struct pair_of {
  rank_env *env;
  uv_sem_t here[2];
  gloo_request *requests[2];
  atomic_int ended[2], first; /* first: a destroying call has returned */
  atomic_bool early;          /* the second call returned before the other
                                 callback ended */
} pair_of;
typedef struct half {
  pair_of *both;
  int which;
} half;

static void destroy_other(void *user, gloo_request *request,
                          gloo_status status) {
  const half *h = user;
  pair_of *p = h->both;
  int other = 1 - h->which;
  (void)request, (void)status;
  uv_sem_post(&p->here[h->which]);
  uv_sem_wait(&p->here[other]); /* both are running now */
  gloo_request_destroy(p->requests[other]);
  if (atomic_exchange(&p->first, 1) != 0 && atomic_load(&p->ended[other]) == 0)
    atomic_store(&p->early, true);
  uv_sleep(STAY_MS);
  atomic_store(&p->ended[h->which], 1);
}

static gloo_context *alone(rank_env *env, gloo_device **device) {
  gloo_device_options o = GLOO_DEVICE_OPTIONS_INIT;
  o.transport = strcmp(transport, "auto") != 0 ? transport : NULL;
  gloo_context *context = NULL;
  RANK_OK(env, gloo_device_create(&o, device, NULL));
  RANK_OK(env, gloo_context_create(0, 1, NULL, *device, NULL, &context, NULL));
  return context;
}

static void each_others(rank_env *env) {
  pair_of p;
  memset(&p, 0, sizeof p);
  p.env = env;
  gloo_context *contexts[2];
  gloo_device *devices[2];
  half halves[2];
  int32_t words[2];
  for (int i = 0; i < 2; i++) {
    contexts[i] = alone(env, &devices[i]);
    RANK_CHECK(env, uv_sem_init(&p.here[i], 0) == 0);
    halves[i] = (half){&p, i};
    RANK_OK(env, gloo_recv_start(contexts[i], &words[i], 1, GLOO_INT32, 0, NULL,
                                 &p.requests[i], NULL));
    RANK_OK(env, gloo_request_on_done(p.requests[i], destroy_other, &halves[i],
                                      NULL));
  }
  for (int i = 0; i < 2; i++)
    RANK_OK(env, gloo_send(contexts[i], &(int32_t){1}, 1, GLOO_INT32, 0, NULL,
                           NULL));
  for (int i = 0; i < 2; i++)
    while (atomic_load(&p.ended[i]) == 0) uv_sleep(1);
  for (int i = 0; i < 2; i++) {
    gloo_context_destroy(contexts[i]);
    gloo_device_destroy(devices[i]);
    uv_sem_destroy(&p.here[i]);
  }
  /* Only one of the calls may return without waiting, to avoid a deadlock; the
   * other must wait. */
  RANK_CHECK(env, !atomic_load(&p.early));
}

/* -------------------------------------------------------------------------- */

static void run(rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, body);
}

#define SCENE(name, body)          \
  static void name(void **state) { \
    (void)state;                   \
    run(body);                     \
  }
SCENE(destroying_waits_for_the_function, destroying)
SCENE(releasing_waits_for_the_function, releasing)
SCENE(replacing_waits_for_the_function, replacing)
SCENE(starting_again_waits_for_the_function, starting_again)
SCENE(joined_requests_wait_for_the_function, joined)
SCENE(destroying_a_context_waits_for_functions, destroying_contexts)
SCENE(a_function_may_destroy_its_request, from_within)
SCENE(a_function_may_take_itself_back, replaced_from_within)
SCENE(a_function_may_destroy_its_context, context_from_within)
SCENE(a_function_may_start_its_request, started_from_within)
SCENE(functions_may_destroy_each_others_requests, each_others)

int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "inproc";
  const struct CMUnitTest all[] = {
      cmocka_unit_test(destroying_waits_for_the_function),
      cmocka_unit_test(releasing_waits_for_the_function),
      cmocka_unit_test(replacing_waits_for_the_function),
      cmocka_unit_test(starting_again_waits_for_the_function),
      cmocka_unit_test(joined_requests_wait_for_the_function),
      cmocka_unit_test(destroying_a_context_waits_for_functions),
      cmocka_unit_test(a_function_may_destroy_its_request),
      cmocka_unit_test(a_function_may_take_itself_back),
      cmocka_unit_test(a_function_may_destroy_its_context),
      cmocka_unit_test(a_function_may_start_its_request),
      cmocka_unit_test(functions_may_destroy_each_others_requests),
  };
  return cmocka_run_group_tests(all, NULL, NULL);
}
