/* Long messages between memory from malloc: registered memory is sent without
 * copies, and no device keeps it after deregistration. The number of posted
 * work requests shows which way was used: whole ranges take few, copies one per
 * buffer. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "ranks/sanitized.h"

enum {
  BYTES = 4 << 20,
  /* Barriers, requests, and four writes of 1 MiB; a frame has 8 KiB. */
  FEW = 100,
  MANY = BYTES / 8192
};

static unsigned long (*calls)(const char *name);

static void load_standin(void) {
  void *library = dlopen("libibverbs.so.1", RTLD_NOW);
  void *symbol = library != NULL ? dlsym(library, "standin_calls") : NULL;
  if (symbol == NULL) {
    fprintf(stderr, "this needs the stand-in for libibverbs\n");
    exit(1);
  }
  memcpy(&calls, &symbol, sizeof calls);
}

static void registered_barrier(rank_env *env) {
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

/* Sends from rank 0 to rank 1. Returns the number of work requests posted
 * meanwhile. */
static unsigned long pass(rank_env *env, uint8_t *memory, uint8_t seed) {
  registered_barrier(env);
  unsigned long before = calls("post_send");
  registered_barrier(env);
  if (env->rank == 0) {
    for (size_t i = 0; i < BYTES; i++) memory[i] = (uint8_t)(seed + i % 251);
    RANK_OK(env,
            gloo_send(env->context, memory, BYTES, GLOO_UINT8, 1, NULL, NULL));
  } else {
    memset(memory, 0, BYTES);
    RANK_OK(env,
            gloo_recv(env->context, memory, BYTES, GLOO_UINT8, 0, NULL, NULL));
    size_t i = 0;
    while (i < BYTES && memory[i] == (uint8_t)(seed + i % 251)) i++;
    RANK_CHECK(env, i == BYTES);
  }
  registered_barrier(env);
  unsigned long posted = calls("post_send") - before;
  registered_barrier(env);
  return posted;
}

/* Ranks deregister one after the other, with no other traffic. */
static void deregister_alone(rank_env *env, uint8_t *memory) {
  for (int r = 0; r < env->size; r++) {
    registered_barrier(env);
    if (r != env->rank) continue;
    unsigned long before = calls("dereg_mr");
    RANK_OK(env, gloo_memory_deregister(memory, NULL));
    RANK_CHECK(env, calls("dereg_mr") == before + 1);
  }
  registered_barrier(env);
}

static void use_registered(rank_env *env) {
  uint8_t *memory = malloc(BYTES);
  RANK_CHECK(env, memory != NULL);
  RANK_CHECK(env, pass(env, memory, 1) > MANY);
  for (uint8_t round = 0; round < 3; round++) {
    RANK_OK(env, gloo_memory_register(memory, BYTES, NULL));
    registered_barrier(env);
    unsigned long before = calls("reg_mr");
    RANK_CHECK(env, pass(env, memory, 2 + round) < FEW);
    RANK_CHECK(env, pass(env, memory, 5 + round) < FEW);
    RANK_CHECK(env, calls("reg_mr") == before + 2);
    deregister_alone(env, memory);
    RANK_CHECK(env, pass(env, memory, 9 + round) > MANY);
  }
  free(memory);
}

static void registered_memory_is_not_copied(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(2, &o, use_registered);
}

/* Registration at one end is enough for that end. */
static void use_one_sided(rank_env *env) {
  uint8_t *memory = malloc(BYTES);
  RANK_CHECK(env, memory != NULL);
  registered_barrier(env); /* connects, which registers frames */
  for (int r = 0; r < env->size; r++) {
    if (env->rank == r) RANK_OK(env, gloo_memory_register(memory, BYTES, NULL));
    registered_barrier(env);
    unsigned long before = calls("reg_mr");
    registered_barrier(env);
    RANK_CHECK(env, pass(env, memory, (uint8_t)r) > MANY);
    RANK_CHECK(env, calls("reg_mr") == before + 1);
    if (env->rank == r) RANK_OK(env, gloo_memory_deregister(memory, NULL));
    registered_barrier(env);
  }
  free(memory);
}

static void one_end_may_have_it_alone(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(2, &o, use_one_sided);
}

/* The ranks close their devices while the memory is still registered. */
static void leave_registered(rank_env *env) {
  uint8_t *memory = env->user;
  memory += env->rank * BYTES;
  RANK_CHECK(env, pass(env, memory, 3) < FEW);
}

static void devices_go_before_the_registration(void **state) {
  (void)state;
  uint8_t *memory = malloc(2 * BYTES);
  assert_non_null(memory);
  assert_int_equal(gloo_memory_register(memory, 2 * BYTES, NULL), GLOO_OK);
  ranks_options o = {.transport = "ibv", .user = memory};
  for (int round = 0; round < 2; round++) ranks_run(2, &o, leave_registered);
  unsigned long before = calls("dereg_mr");
  assert_int_equal(gloo_memory_deregister(memory, NULL), GLOO_OK);
  assert_int_equal(calls("dereg_mr"), before);
  free(memory);
}

/* A forked child inherits the registration, but not the devices'
 * registrations. */
static int be_a_child(void *memory) {
  gloo_device *own;
  gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
  options.transport = "ibv";
  alarm(60);
  if (gloo_memory_deregister(memory, NULL) != GLOO_OK) return 1;
  if (SANITIZED_THREADS) return 0; /* a child cannot start threads then */
  if (gloo_device_create(&options, &own, NULL) != GLOO_OK) return 2;
  gloo_device_destroy(own);
  return 0;
}

static void fork_between(rank_env *env) {
  uint8_t *memory = malloc(BYTES);
  RANK_CHECK(env, memory != NULL);
  RANK_OK(env, gloo_memory_register(memory, BYTES, NULL));
  RANK_CHECK(env, pass(env, memory, 1) < FEW);
  if (env->rank == 0) {
    pid_t child = fork();
    if (child == 0) _exit(be_a_child(memory));
    int status = -1;
    RANK_CHECK(env, child > 0 && waitpid(child, &status, 0) == child);
    RANK_CHECK(env, status == 0);
  }
  RANK_CHECK(env, pass(env, memory, 2) < FEW);
  deregister_alone(env, memory);
  free(memory);
}

static void a_child_leaves_its_parents_devices_alone(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(2, &o, fork_between);
}

/* ---- with STANDIN_FAIL=reg_mr:3+, after the frames of two ranks ---------- */

static atomic_int n_refused; /* ranks are threads */

static void on_line(gloo_log_level level, const char *line, void *user) {
  (void)level;
  (void)user;
  if (strstr(line, "cannot register") != NULL &&
      strstr(line, "of gloo_memory_register") != NULL)
    atomic_fetch_add(&n_refused, 1);
}

static void use_refused(rank_env *env) {
  uint8_t *memory = malloc(BYTES);
  RANK_CHECK(env, memory != NULL);
  RANK_OK(env, gloo_memory_register(memory, BYTES, NULL));
  RANK_CHECK(env, pass(env, memory, 1) > MANY);
  unsigned long before = calls("reg_mr");
  RANK_CHECK(env, pass(env, memory, 2) > MANY);
  RANK_CHECK(env, calls("reg_mr") == before); /* asked only once */
  RANK_OK(env, gloo_memory_deregister(memory, NULL));
  free(memory);
}

static void refused_memory_is_copied(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  gloo_log_set_level(GLOO_LOG_INFO);
  gloo_log_set_sink(on_line, NULL);
  ranks_run(2, &o, use_refused);
  gloo_log_set_sink(NULL, NULL);
  assert_int_equal(atomic_load(&n_refused), 2);
}

int main(int argc, char **argv) {
  load_standin();
  if (argc > 1 && strcmp(argv[1], "refused") == 0) {
    const struct CMUnitTest refused[] = {
        cmocka_unit_test(refused_memory_is_copied),
    };
    return cmocka_run_group_tests(refused, NULL, NULL);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(registered_memory_is_not_copied),
      cmocka_unit_test(one_end_may_have_it_alone),
      cmocka_unit_test(devices_go_before_the_registration),
      cmocka_unit_test(a_child_leaves_its_parents_devices_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
