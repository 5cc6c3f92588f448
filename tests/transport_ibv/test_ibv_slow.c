/* Slow calls of the device: to connect a queue pair to a peer that cannot be
 * found, and to register memory. The stand-in holds such calls until the test
 * releases them; meanwhile all else goes on. Run with the stand-in in
 * LD_LIBRARY_PATH. Argument: part of the names of the cases to run; optional. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "ranks/sanitized.h"

enum {
  RTR = 1, /* as in standin.h */
  REG = 2,
  RANKS = 5,
  NEAR =
      1, /* two ranks that are no neighbours, in the ring and in the tree that */
  FAR = 4,   /* connect at the start */
  FEW = 100, /* work requests of a rank that copies nothing, and barriers */
  BYTES = 32 << 20, /* shorter regions are registered at once */
  PATIENCE_S = 60,
  MANY = 20
};

/* ---- the stand-in -------------------------------------------------------- */

static void (*hold)(int calls);
static int (*held)(void);
static int (*objects)(void);
static unsigned long (*calls)(const char *name);

static void *symbol_of(const char *name) {
  static void *library;
  if (library == NULL) library = dlopen("libibverbs.so.1", RTLD_NOW);
  void *symbol = library != NULL ? dlsym(library, name) : NULL;
  if (symbol != NULL) return symbol;
  fprintf(stderr, "this needs the stand-in for libibverbs\n");
  exit(1);
}

static void load_standin(void) {
  void *symbol = symbol_of("standin_hold");
  memcpy(&hold, &symbol, sizeof hold);
  symbol = symbol_of("standin_held");
  memcpy(&held, &symbol, sizeof held);
  symbol = symbol_of("standin_objects");
  memcpy(&objects, &symbol, sizeof objects);
  symbol = symbol_of("standin_calls");
  memcpy(&calls, &symbol, sizeof calls);
}

static void nap(void) {
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void await_held(int n) {
  while (held() < n) nap();
}

/* Lets ranks, which are threads, go on together. */
static atomic_int n_there;
static void meet(int n) {
  atomic_fetch_add(&n_there, 1);
  while (atomic_load(&n_there) < n) nap();
}

/* ---- threads that cannot be started -------------------------------------- */

static atomic_bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument);
/* Refuses the threads that look for peers. Those of a static libuv come here,
 * too, which starts the ranks. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument) {
  int detached = PTHREAD_CREATE_JOINABLE;
  if (attributes != NULL)
    (void)pthread_attr_getdetachstate(attributes, &detached);
  if (detached == PTHREAD_CREATE_DETACHED && atomic_load(&no_threads))
    return EAGAIN;
  return __real_pthread_create(thread, attributes, run, argument);
}

/* ---- peers that cannot be found ------------------------------------------ */

static void sum_often(rank_env *env, gloo_context *group) {
  for (int i = 0; i < 20; i++) {
    int32_t one = 1;
    RANK_OK(env, gloo_allreduce(group, GLOO_IN_PLACE, &one, 1, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
    RANK_CHECK(env, one == FAR);
  }
}

/* Makes a group of all ranks but FAR, and connects its ranks. */
static gloo_context *group_of_others(rank_env *env) {
  static const int first[] = {0, 1, 2, 3};
  gloo_context *group = NULL;
  if (env->rank == FAR) return NULL;
  RANK_OK(env,
          gloo_context_subset(env->context, first, FAR, NULL, &group, NULL));
  sum_often(env, group);
  return group;
}

/* Connects what connects by itself at the start, or for heartbeats. */
static void connect_neighbours(rank_env *env) {
  static const int pairs[][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 4},
                                 {4, 0}, {0, 2}, {1, 3}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    int32_t word = 0;
    if (env->rank == pairs[i][0])
      RANK_OK(env, gloo_send(env->context, &word, 1, GLOO_INT32, pairs[i][1],
                             NULL, NULL));
    else if (env->rank == pairs[i][1])
      RANK_OK(env, gloo_recv(env->context, &word, 1, GLOO_INT32, pairs[i][0],
                             NULL, NULL));
  }
}

/* Begins a message between two ranks, whose queue pairs are connected from then
 * on: calls of both ranks are held. */
static gloo_request *begin_held(rank_env *env, int32_t *word) {
  gloo_request *request = NULL;
  connect_neighbours(env);
  meet(RANKS);
  if (env->rank == 0) hold(RTR);
  meet(2 * RANKS);
  if (env->rank == NEAR)
    RANK_OK(env, gloo_send_start(env->context, word, 1, GLOO_INT32, FAR, NULL,
                                 &request, NULL));
  else if (env->rank == FAR)
    RANK_OK(env, gloo_recv_start(env->context, word, 1, GLOO_INT32, NEAR, NULL,
                                 &request, NULL));
  await_held(2);
  return request;
}

static void end_held(rank_env *env, gloo_request *request, const int32_t *word,
                     const char *route) {
  gloo_answer answer;
  if (request == NULL) return;
  RANK_OK(env, gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, NULL));
  RANK_CHECK(env, *word == 7);
  gloo_request_destroy(request);
  RANK_OK(env,
          gloo_context_route(env->context, RANKS - env->rank, &answer, NULL));
  RANK_CHECK(env, strcmp(answer.text, route) == 0);
}

static void be_beside(rank_env *env) {
  int32_t word = env->rank == NEAR ? 7 : 0;
  gloo_context *group = group_of_others(env);
  gloo_request *request = begin_held(env, &word);
  if (group != NULL) sum_often(env, group);
  /* Ranks that do not poll would be missed by others. */
  nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
  if (group != NULL) sum_often(env, group);
  RANK_CHECK(env, held() == 2);
  gloo_answer answer;
  if (request != NULL)
    RANK_CHECK(env, gloo_context_route(env->context, RANKS - env->rank, &answer,
                                       NULL) == GLOO_IN_PROGRESS);
  meet(3 * RANKS);
  hold(0);
  end_held(env, request, &word, "RDMA");
  gloo_context_destroy(group);
}

static void others_go_on_while_a_peer_is_looked_for(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  setenv("GLOO_HEARTBEAT", "1", 1);
  ranks_run(RANKS, &o, be_beside);
}

/* With STANDIN_RTR=0:110 the held call fails at the end, as all others do. */
static void be_refused(rank_env *env) {
  int32_t word = env->rank == NEAR ? 7 : 0;
  gloo_context *group = group_of_others(env);
  gloo_request *request = begin_held(env, &word);
  if (group != NULL) sum_often(env, group);
  meet(3 * RANKS);
  hold(0);
  end_held(env, request, &word, "TCP");
  gloo_context_destroy(group);
}

static void what_is_not_found_goes_by_tcp(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  setenv("STANDIN_RTR", "0:110", 1);
  setenv("STANDIN_STRICT", "0", 1); /* which wants messages */
  ranks_run(RANKS, &o, be_refused);
  assert_int_equal(objects(), 0);
}

/* ---- closing ------------------------------------------------------------- */

static void leave_at_once(rank_env *env) {
  int32_t word = 7;
  gloo_request *request = begin_held(env, &word);
  gloo_context_destroy(env->context);
  env->context = NULL;
  RANK_CHECK(env, held() == 2);
  gloo_request_destroy(request);
  meet(3 * RANKS);
  hold(0);
}

static void a_context_ends_while_a_peer_is_looked_for(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(RANKS, &o, leave_at_once);
  assert_int_equal(objects(), 0);
}

/* The devices are destroyed as well: their threads release all they had. */
static void leave_held(rank_env *env) {
  int32_t word = 7;
  gloo_request *request = begin_held(env, &word);
  gloo_context_destroy(env->context);
  env->context = NULL;
  gloo_request_destroy(request);
}

static void a_device_ends_while_a_peer_is_looked_for(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(RANKS, &o, leave_held);
  assert_int_equal(held(), 2);
  assert_true(objects() > 0);
  hold(0);
  while (objects() > 0) nap();
}

/* ---- fork ---------------------------------------------------------------- */

static int be_a_child(rank_env *env, gloo_request *request) {
  gloo_device *own;
  gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
  options.transport = "ibv";
  int32_t word = 0;
  alarm(PATIENCE_S);
  if (gloo_send(env->context, &word, 1, GLOO_INT32, FAR, NULL, NULL) !=
      GLOO_ERR_FORKED)
    return 1;
  gloo_context_destroy(env->context);
  gloo_request_destroy(request);
  gloo_device_destroy(env->device);
  if (SANITIZED_THREADS) return 0; /* a child cannot start threads then */
  if (gloo_device_create(&options, &own, NULL) != GLOO_OK) return 2;
  gloo_device_destroy(own);
  return 0;
}

static void fork_meanwhile(rank_env *env, gloo_request *request) {
  pid_t child = fork();
  if (child == 0) _exit(be_a_child(env, request));
  int status = -1;
  RANK_CHECK(env, child > 0 && waitpid(child, &status, 0) == child);
  RANK_CHECK(env, status == 0);
}

static void fork_once(rank_env *env) {
  int32_t word = env->rank == NEAR ? 7 : 0;
  gloo_request *request = begin_held(env, &word);
  if (env->rank == NEAR) fork_meanwhile(env, request);
  RANK_CHECK(env, held() == 2);
  meet(3 * RANKS);
  hold(0);
  end_held(env, request, &word, "RDMA");
}

static void a_child_has_no_part_in_what_threads_do(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(RANKS, &o, fork_once);
  assert_int_equal(objects(), 0);
}

/* ---- many ---------------------------------------------------------------- */

/* Rank 0 sends to all others. Threads have some of the connections; those that
 * wait for a thread are made by TCP after a while. */
static void send_to_many(rank_env *env) {
  static atomic_int n_received;
  gloo_request *sent[MANY] = {NULL};
  int32_t word = 7;
  meet(MANY);
  if (env->rank == 0) hold(RTR);
  meet(2 * MANY);
  if (env->rank != 0) {
    RANK_OK(env, gloo_recv(env->context, &word, 1, GLOO_INT32, 0, NULL, NULL));
    atomic_fetch_add(&n_received, 1);
    return;
  }
  for (int r = 1; r < MANY; r++)
    RANK_OK(env, gloo_send_start(env->context, &word, 1, GLOO_INT32, r, NULL,
                                 &sent[r], NULL));
  await_held(8);
  while (atomic_load(&n_received) < MANY - 1 - 8) nap();
  RANK_CHECK(env, held() >= 8);
  hold(0);
  for (int r = 1; r < MANY; r++) {
    RANK_OK(env, gloo_request_wait(sent[r], GLOO_TIMEOUT_DEFAULT, NULL));
    gloo_request_destroy(sent[r]);
  }
}

static void who_waits_too_long_for_a_thread_goes_by_tcp(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  setenv("GLOO_HEARTBEAT", "1", 1);
  ranks_run(MANY, &o, send_to_many);
}

static void pass_without_threads(rank_env *env) {
  gloo_answer answer;
  int32_t word = env->rank;
  RANK_OK(env, gloo_broadcast(env->context, GLOO_IN_PLACE, &word, 1, GLOO_INT32,
                              1, NULL, NULL));
  RANK_OK(env, gloo_context_route(env->context, 1 - env->rank, &answer, NULL));
  RANK_CHECK(env, strcmp(answer.text, "TCP") == 0);
  RANK_CHECK(env, strstr(answer.why, " lacks a thread: ") != NULL);
}

static void without_threads_all_goes_by_tcp(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  setenv("STANDIN_STRICT", "0", 1); /* which wants messages */
  atomic_store(&no_threads, true);
  ranks_run(2, &o, pass_without_threads);
  assert_int_equal(objects(), 0);
}

/* ---- registration -------------------------------------------------------- */

static void slow_barrier(rank_env *env) {
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void slow_fill(uint8_t *memory) {
  for (size_t i = 0; i < BYTES; i++) memory[i] = (uint8_t)(i % 251);
}

static bool slow_is_filled(const uint8_t *memory) {
  size_t i = 0;
  while (i < BYTES && memory[i] == (uint8_t)(i % 251)) i++;
  return i == BYTES;
}

/* Sends from rank 0 to rank 1. Returns the number of work requests posted
 * meanwhile. */
static unsigned long slow_pass(rank_env *env, uint8_t *memory) {
  slow_barrier(env);
  unsigned long before = calls("post_send");
  slow_barrier(env);
  if (env->rank == 0) {
    RANK_OK(env,
            gloo_send(env->context, memory, BYTES, GLOO_UINT8, 1, NULL, NULL));
  } else {
    memset(memory, 0, BYTES);
    RANK_OK(env,
            gloo_recv(env->context, memory, BYTES, GLOO_UINT8, 0, NULL, NULL));
    RANK_CHECK(env, slow_is_filled(memory));
  }
  slow_barrier(env);
  unsigned long posted = calls("post_send") - before;
  slow_barrier(env);
  return posted;
}

/* Copies are made while both ranks register the memory, and not afterwards. */
static void send_while_registered(rank_env *env) {
  uint8_t *memory = calloc(1, BYTES);
  RANK_CHECK(env, memory != NULL);
  RANK_OK(env, gloo_memory_register(memory, BYTES, NULL));
  if (env->rank == 0) slow_fill(memory);
  slow_barrier(env);
  if (env->rank == 0) hold(REG);
  RANK_CHECK(env, slow_pass(env, memory) > BYTES / 8192);
  RANK_CHECK(env, held() == 2);
  slow_barrier(env);
  if (env->rank == 0) hold(0);
  while (slow_pass(env, memory) >= FEW) nap();
  RANK_OK(env, gloo_memory_deregister(memory, NULL));
  free(memory);
}

static void messages_go_on_while_memory_is_registered(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(2, &o, send_while_registered);
  assert_int_equal(objects(), 0);
}

/* A window is used by messages while its memory is registered, and may be
 * destroyed and deregistered before that has ended. */
static void deregister_meanwhile(rank_env *env) {
  uint8_t *memory = calloc(1, BYTES);
  gloo_window *window;
  uint64_t word = 7, back = 0;
  RANK_CHECK(env, memory != NULL);
  RANK_OK(env, gloo_memory_register(memory, BYTES, NULL));
  RANK_OK(env,
          gloo_window_create(env->context, memory, BYTES, NULL, &window, NULL));
  if (env->rank == 0) hold(REG);
  slow_barrier(env);
  RANK_OK(env,
          gloo_window_put(window, 1 - env->rank, 0, &word, sizeof word, NULL));
  RANK_OK(env, gloo_window_flush(window, 1 - env->rank, NULL));
  await_held(2);
  RANK_OK(env,
          gloo_window_get(window, 1 - env->rank, 0, &back, sizeof back, NULL));
  RANK_OK(env, gloo_window_flush(window, 1 - env->rank, NULL));
  RANK_CHECK(env, back == 7);
  RANK_OK(env, gloo_window_destroy(window, NULL));
  unsigned long before = calls("dereg_mr");
  RANK_OK(env, gloo_memory_deregister(memory, NULL));
  free(memory);
  RANK_CHECK(env, held() == 2);
  slow_barrier(env);
  RANK_CHECK(env, calls("dereg_mr") == before);
  slow_barrier(env);
  if (env->rank == 0) hold(0);
  while (calls("dereg_mr") < before + 2) nap();
}

static void memory_is_deregistered_while_it_is_registered(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(2, &o, deregister_meanwhile);
  assert_int_equal(objects(), 0);
}

/* A window whose owner's memory is being registered is used by messages, and by
 * the device once that has ended: then the reads are the only work requests. */
static void get_later(rank_env *env) {
  uint8_t *memory = calloc(2, BYTES), *here = memory + BYTES;
  gloo_window *window;
  RANK_CHECK(env, memory != NULL);
  RANK_OK(env, gloo_memory_register(memory, BYTES, NULL));
  RANK_OK(env, gloo_memory_register(here, BYTES, NULL));
  if (env->rank == 1) slow_fill(memory);
  RANK_OK(env,
          gloo_window_create(env->context, memory, BYTES, NULL, &window, NULL));
  if (env->rank == 0) {
    unsigned long posted = FEW, reads = BYTES >> 20;
    hold(REG);
    for (int i = 0; i < 2; i++) {
      RANK_OK(env, gloo_window_get(window, 1, 0, here, 1, NULL));
      RANK_OK(env, gloo_window_flush(window, 1, NULL));
    }
    await_held(1);
    hold(0);
    while (posted > reads) {
      unsigned long before = calls("post_send");
      memset(here, 0, BYTES);
      RANK_OK(env, gloo_window_get(window, 1, 0, here, BYTES, NULL));
      RANK_OK(env, gloo_window_flush(window, 1, NULL));
      posted = calls("post_send") - before;
      RANK_CHECK(env, slow_is_filled(here));
    }
  }
  RANK_OK(env, gloo_window_destroy(window, NULL));
  RANK_OK(env, gloo_memory_deregister(memory, NULL));
  RANK_OK(env, gloo_memory_deregister(here, NULL));
  free(memory);
}

static void a_window_is_by_rdma_once_it_is_registered(void **state) {
  (void)state;
  ranks_options o = {.transport = "ibv"};
  ranks_run(2, &o, get_later);
  assert_int_equal(objects(), 0);
}

/* ---- each case in a process ---------------------------------------------- */

typedef struct slow_case {
  const char *name;
  void (*run)(void **state);
} slow_case;

#define SLOW_CASE(f) \
  { #f, f }
static const slow_case cases[] = {
    SLOW_CASE(others_go_on_while_a_peer_is_looked_for),
    SLOW_CASE(what_is_not_found_goes_by_tcp),
    SLOW_CASE(a_context_ends_while_a_peer_is_looked_for),
    SLOW_CASE(a_device_ends_while_a_peer_is_looked_for),
    SLOW_CASE(a_child_has_no_part_in_what_threads_do),
    SLOW_CASE(who_waits_too_long_for_a_thread_goes_by_tcp),
    SLOW_CASE(without_threads_all_goes_by_tcp),
    SLOW_CASE(messages_go_on_while_memory_is_registered),
    SLOW_CASE(memory_is_deregistered_while_it_is_registered),
    SLOW_CASE(a_window_is_by_rdma_once_it_is_registered),
};
enum { CASES = sizeof cases / sizeof cases[0] };

static _Noreturn void run_in_child(const slow_case *one) {
  const struct CMUnitTest test = {.name = one->name, .test_func = one->run};
  alarm(PATIENCE_S);
  if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) exit(2);
  load_standin();
  exit(_cmocka_run_group_tests(one->name, &test, 1, NULL, NULL));
}

static void ends_well(void **state) {
  const slow_case *one = *(const slow_case **)*state;
  int status = -1;
  fflush(stdout);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) run_in_child(one);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

int main(int argc, char **argv) {
  static const slow_case *states[CASES];
  struct CMUnitTest tests[CASES];
  size_t n = 0;
  for (int i = 0; i < CASES; i++) {
    if (argc > 1 && strstr(cases[i].name, argv[1]) == NULL) continue;
    states[i] = &cases[i];
    tests[n++] = (struct CMUnitTest){.name = cases[i].name,
                                     .test_func = ends_well,
                                     .initial_state = &states[i]};
  }
  return _cmocka_run_group_tests("ibv_slow", tests, n, NULL, NULL);
}
