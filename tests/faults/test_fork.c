/* A rank's process forks. The child's calls and its lifetime do not affect the
 * parent's job, and every call in the child fails with the reason. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include <cmocka.h>

#include "fork_job.h"
#include "ranks/sanitized.h"

enum { COUNT = 300000, ROUNDS = 4, STORES = 6 };

static const char *transport;
static gloo_store *stores[STORES]; /* stores in addition to the rank's */

/* ---- what a child does --------------------------------------------------- */

/* Fails unless the call is refused with a message that names both processes. */
static void expect_forked(gloo_status status, const gloo_error *error) {
  char maker[32], caller[32];
  (void)snprintf(maker, sizeof maker, "process %ld,", (long)getppid());
  (void)snprintf(caller, sizeof caller, "process %ld:", (long)getpid());
  if (status != GLOO_ERR_FORKED)
    fprintf(stderr, "# status %s\n", gloo_status_string(status));
  CHECK(status == GLOO_ERR_FORKED && error->status == GLOO_ERR_FORKED);
  CHECK(strstr(error->message, maker) != NULL);
  CHECK(strstr(error->message, caller) != NULL);
}

#define FORKED(call)                 \
  do {                               \
    memset(&error, 0, sizeof error); \
    expect_forked((call), &error);   \
  } while (0)

static gloo_request *under_way, *persistent;
static gloo_context *group_under_way;

static void use_operations(void) {
  gloo_request *ops[] = {under_way, persistent};
  gloo_error error;
  for (int i = 0; i < 2; i++) {
    if (ops[i] == NULL) continue;
    CHECK(gloo_request_test(ops[i], NULL) == GLOO_ERR_FORKED);
    CHECK(gloo_request_wait(ops[i], GLOO_TIMEOUT_DEFAULT, NULL) ==
          GLOO_ERR_FORKED);
    CHECK(gloo_request_start(ops[i], NULL) == GLOO_ERR_FORKED);
    CHECK(gloo_request_cancel(ops[i], NULL) == GLOO_ERR_FORKED);
    CHECK(gloo_request_source(ops[i]) == -1);
    FORKED(gloo_request_error(ops[i], &error));
  }
}

static void use(rank *r) {
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  static float v[COUNT];
  gloo_request *op = NULL;
  gloo_context *context = NULL;
  gloo_context *c = r->context;
  FORKED(gloo_context_error(c, &error));
  FORKED(gloo_allreduce(c, GLOO_IN_PLACE, v, COUNT, GLOO_FLOAT32, GLOO_SUM, &o,
                        &error));
  FORKED(gloo_allreduce(c, GLOO_IN_PLACE, v, 4, GLOO_FLOAT32, GLOO_SUM, &o,
                        &error));
  FORKED(gloo_allreduce_start(c, GLOO_IN_PLACE, v, 4, GLOO_FLOAT32, GLOO_SUM,
                              &o, &op, &error));
  FORKED(gloo_allreduce_init(c, GLOO_IN_PLACE, v, 4, GLOO_FLOAT32, GLOO_SUM, &o,
                             &op, &error));
  FORKED(gloo_barrier(c, &o, &error));
  int other = (r->rank + 1) % RANKS;
  FORKED(gloo_send(c, v, 1, GLOO_FLOAT32, other, &o, &error));
  FORKED(gloo_recv(c, v, 1, GLOO_FLOAT32, other, &o, &error));
  FORKED(
      gloo_sendrecv(c, v, 1, other, v + 1, 1, other, GLOO_FLOAT32, &o, &error));
  FORKED(gloo_context_split(c, 0, 0, NULL, &context, &error));
  int all[RANKS] = {0, 1, 2};
  FORKED(gloo_context_subset(c, all, RANKS, NULL, &context, &error));
  FORKED(gloo_context_create(0, 1, NULL, r->device, NULL, &context, &error));
  CHECK(op == NULL && context == NULL);
  CHECK(gloo_context_rank(c) == r->rank && gloo_context_size(c) == RANKS);
  CHECK(gloo_context_world_rank(c, 1) == 1);
  use_operations();
  if (group_under_way != NULL) {
    FORKED(gloo_barrier(group_under_way, &o, &error));
    FORKED(gloo_context_error(group_under_way, &error));
  }
  FORKED(gloo_store_set(r->store, "x", "1", 1, &error));
}

static void destroy(rank *r) {
  gloo_request_destroy(under_way);
  gloo_request_destroy(persistent);
  gloo_context_destroy(r->context);
  gloo_context_destroy(group_under_way);
  gloo_device_destroy(r->device);
  gloo_store_destroy(r->store);
  /* The child's epoll sets are closed, except those of other ranks or of
   * stores. */
  if (!r->threads && stores[0] == NULL) CHECK(job_watched() == 0);
}

static void use_and_destroy(rank *r) {
  use(r);
  destroy(r);
}

static void leave(rank *r) {
  (void)r;
}

static void execute(rank *r) {
  (void)r;
  execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
  _exit(1);
}

static rank *at_exit_for;

static void at_exit(void) {
  if (at_exit_for != NULL) gloo_context_destroy(at_exit_for->context);
}

static void leave_in_order(rank *r) {
  CHECK(atexit(at_exit) == 0);
  at_exit_for = r;
  /* A leak check would report memory that other ranks' threads had in use. */
  if (r->threads) destroy(r), _exit(0);
  exit(0);
}

/* A rank of a separate job in a forked child. */
typedef struct own_rank {
  int rank;
  gloo_store *store;
  const char *transport;
} own_rank;

static void *own_job(void *argument) {
  own_rank *own = argument;
  gloo_device_options how = GLOO_DEVICE_OPTIONS_INIT;
  gloo_device *device;
  gloo_context *context;
  how.transport = own->transport;
  OK(gloo_device_create(&how, &device, NULL));
  OK(gloo_context_create(own->rank, 2, own->store, device, NULL, &context,
                         NULL));
  void *memory;
  OK(gloo_alloc(COUNT * sizeof(float), &memory, NULL));
  float *v = memory;
  for (int i = 0; i < COUNT; i++) v[i] = (float)(own->rank + i);
  OK(gloo_allreduce(context, GLOO_IN_PLACE, v, COUNT, GLOO_FLOAT32, GLOO_SUM,
                    NULL, NULL));
  for (int i = 0; i < COUNT; i++) CHECK(v[i] == (float)(1 + 2 * i));
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  gloo_free(memory);
  return NULL;
}

static void begin_anew(rank *r) {
  own_rank own[2];
  gloo_store *store;
  pthread_t thread;
  if (SANITIZED_THREADS)
    return; /* the sanitizer forbids threads in such children */
  OK(gloo_store_memory_create(&store, NULL));
  for (int i = 0; i < 2; i++) own[i] = (own_rank){i, store, r->transport};
  CHECK(pthread_create(&thread, NULL, own_job, &own[1]) == 0);
  own_job(&own[0]);
  CHECK(pthread_join(thread, NULL) == 0);
  gloo_store_destroy(store);
  use(r);
}

static void grandchild(rank *r) {
  gloo_error error;
  char maker[32];
  (void)snprintf(maker, sizeof maker, "process %d,", r->rounds);
  CHECK(gloo_context_error(r->context, &error) == GLOO_ERR_FORKED);
  CHECK(strstr(error.message, maker) != NULL);
  destroy(r);
}

static void fork_again(rank *r) {
  r->rounds = (int)getppid();
  job_join(job_fork(r, grandchild));
  use(r);
  job_join(job_fork(r, grandchild));
  destroy(r);
}

static const scene children[] = {leave,      execute,   leave_in_order,
                                 use,        destroy,   use_and_destroy,
                                 begin_anew, fork_again};
enum { CHILDREN = sizeof children / sizeof children[0] };

/* ---- between and during operations --------------------------------------- */

/* Returns true if this rank forks. If ranks are threads only one does, since
 * the operations are global variables. */
static bool forks(const rank *r) {
  return r->threads ? r->rank == 1 : r->rank != 2;
}

static void between(rank *r) {
  for (int i = 0; i < RANKS; i++) job_work(r, r->context); /* connects */
  int before = job_descriptors();
  for (int i = 0; i < CHILDREN; i++) {
    if (forks(r)) job_join(job_fork(r, children[i]));
    job_work(r, r->context);
  }
  if (!r->threads) CHECK(job_descriptors() <= before);
}

static void fork_during(rank *r, bool in_group, const scene child) {
  static float shared[RANKS][COUNT];
  float *v = shared[r->rank];
  gloo_context *c = r->context, *group = NULL;
  if (in_group) OK(gloo_context_split(c, 0, 0, NULL, &group, NULL));
  for (int i = 0; i < COUNT; i++) v[i] = (float)(r->rank + i % 5);
  gloo_request *op, *again;
  OK(gloo_barrier_init(in_group ? group : c, NULL, &again, NULL));
  OK(gloo_request_start(again, NULL));
  OK(gloo_allreduce_start(in_group ? group : c, GLOO_IN_PLACE, v, COUNT,
                          GLOO_FLOAT32, GLOO_SUM, NULL, &op, NULL));
  if (forks(r)) {
    under_way = op;
    persistent = again;
    group_under_way = group;
    job_join(job_fork(r, child));
    under_way = persistent = NULL;
    group_under_way = NULL;
  }
  OK(gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  OK(gloo_request_wait(again, GLOO_TIMEOUT_DEFAULT, NULL));
  for (int i = 0; i < COUNT; i++)
    CHECK(v[i] == (float)(RANKS * (RANKS - 1) / 2 + RANKS * (i % 5)));
  gloo_request_destroy(op);
  gloo_request_destroy(again);
  gloo_context_destroy(group);
  job_work(r, c);
}

static void during(rank *r) {
  for (int i = 0; i < CHILDREN; i++) {
    fork_during(r, false, children[i]);
    fork_during(r, true, children[i]);
  }
}

/* ---- another thread is in the library ------------------------------------ */

static void *receive(void *argument) {
  rank *r = argument;
  int32_t value = 0;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = 7;
  OK(gloo_recv(r->context, &value, 1, GLOO_INT32, 0, &o, NULL));
  CHECK(value == 42);
  return NULL;
}

static void beside_a_thread(rank *r) {
  for (int i = 0; i < CHILDREN; i++) {
    if (r->rank == 1) {
      pthread_t thread;
      CHECK(pthread_create(&thread, NULL, receive, r) == 0);
      for (int k = 0; k < ROUNDS; k++) job_join(job_fork(r, children[i]));
      OK(gloo_send(r->context, &(int32_t){1}, 1, GLOO_INT32, 0, NULL, NULL));
      CHECK(pthread_join(thread, NULL) == 0);
    } else if (r->rank == 0) {
      int32_t token;
      gloo_options o = GLOO_OPTIONS_INIT;
      o.tag = 7;
      OK(gloo_recv(r->context, &token, 1, GLOO_INT32, 1, NULL, NULL));
      OK(gloo_send(r->context, &(int32_t){42}, 1, GLOO_INT32, 1, &o, NULL));
    }
    job_work(r, r->context);
  }
}

/* ---- in the middle of a call --------------------------------------------- */

/* A custom operation that forks, as popen() does. */
static void sum_and_fork(const gloo_custom_args *args) {
  void *user = args->user;
  const void *left = args->left;
  const void *right = args->right;
  size_t count = args->count;
  void *result = args->result;
  for (size_t i = 0; i < count; i++)
    ((int32_t *)result)[i] =
        ((const int32_t *)left)[i] + ((const int32_t *)right)[i];
  job_join(job_fork(user, execute));
}

static void within_a_custom_operation(rank *r) {
  gloo_custom_op_options how = GLOO_CUSTOM_OP_OPTIONS_INIT;
  gloo_options o = GLOO_OPTIONS_INIT;
  how.user = r;
  OK(gloo_custom_op_create(sum_and_fork, &how, &o.custom, NULL));
  for (int k = 0; k < ROUNDS; k++) {
    int32_t v = r->rank;
    OK(gloo_allreduce(r->context, GLOO_IN_PLACE, &v, 1, GLOO_INT32, GLOO_CUSTOM,
                      &o, NULL));
    CHECK(v == RANKS * (RANKS - 1) / 2);
  }
  gloo_custom_op_destroy(o.custom);
  job_work(r, r->context);
}

/* ---- a long-lived child -------------------------------------------------- */

/* The child waits until this pipe is closed. */
static int hold[2];

static void live(rank *r) {
  (void)r;
  char byte;
  close(hold[1]);
  while (read(hold[0], &byte, 1) > 0) {
  }
}

/* Forks without the handlers of pthread_atfork(). */
static pid_t live_unseen(void) {
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  CHECK(child >= 0);
  if (child > 0) return child;
  char byte;
  syscall(SYS_close, hold[1]);
  syscall(SYS_read, hold[0], &byte, 1);
  syscall(SYS_exit_group, 0);
  return 0;
}

static void live_through(rank *r, bool unseen) {
  pid_t child = 0;
  CHECK(!forks(r) || pipe(hold) == 0);
  gloo_context_destroy(r->context);
  r->context = job_meet(r, unseen ? "first/" : "seen first/");
  OK(gloo_barrier(r->context, NULL, NULL));
  if (forks(r)) child = unseen ? live_unseen() : job_fork(r, live);
  for (int k = 0; k < ROUNDS; k++) {
    char name[32];
    (void)snprintf(name, sizeof name, "%d.%d/", unseen, k);
    job_work(r, r->context);
    gloo_context_destroy(r->context);
    r->context = job_meet(r, name);
  }
  job_work(r, r->context);
  if (!forks(r)) return;
  close(hold[1]);
  job_join(child);
  close(hold[0]);
}

/* Descriptors of destroyed contexts leave the epoll sets. */
static void lives_on(rank *r) {
  live_through(r, false);
  live_through(r, true);
  job_work(r, r->context);
}

static void watches_nothing(rank *r) {
  const struct timespec moment = {0, 1000000};
  job_work(r, r->context);
  CHECK(pipe(hold) == 0);
  pid_t child = live_unseen();
  job_work(r, r->context);
  gloo_context_destroy(r->context);
  /* A device drops stale descriptors at its next operation. */
  r->context = job_meet(r, "b/");
  gloo_context_destroy(r->context);
  bool stale = true; /* a thread may still be closing some of the descriptors */
  for (int i = 0; i < 10000 && (stale = job_stale() > 0); i++) {
    gloo_context *alone;
    OK(gloo_context_create(0, 1, NULL, r->device, NULL, &alone, NULL));
    gloo_error error;
    OK(gloo_context_error(alone, &error));
    gloo_context_destroy(alone);
    nanosleep(&moment, NULL);
  }
  CHECK(!stale);
  close(hold[1]);
  job_join(child);
  close(hold[0]);
  r->context = job_meet(r, "c/");
  job_work(r, r->context);
}

/* Waits until the job has ended, and with it the rank. */
static void outlive(rank *r) {
  char byte;
  (void)r;
  close(job_over[1]);
  CHECK(read(job_over[0], &byte, 1) == 0);
}

/* A rank exits silently while its child lives; the others must still notice. */
static void dies_before_its_child(rank *r) {
  int32_t v = 1;
  job_work(r, r->context);
  if (r->rank == 1) {
    (void)job_fork(r, outlive);
    _exit(0);
  }
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.timeout_ns = INT64_C(100000000000);
  CHECK(gloo_allreduce(r->context, GLOO_IN_PLACE, &v, 1, GLOO_INT32, GLOO_SUM,
                       &o, &error) == GLOO_ERR_PEER);
  CHECK(error.rank == 1);
}

/* ---- stores -------------------------------------------------------------- */

static void expect_refused(gloo_store *store) {
  gloo_error error;
  const char *key = "key";
  gloo_value value = {NULL, 0};
  int64_t sum;
  FORKED(gloo_store_set(store, key, "1", 1, &error));
  FORKED(gloo_store_get(store, key, GLOO_TIMEOUT_NOW, &value, &error));
  FORKED(gloo_store_wait(store, &key, 1, GLOO_TIMEOUT_NOW, &error));
  FORKED(gloo_store_add(store, key, 1, &sum, &error));
  FORKED(gloo_store_compare_and_set(store, key, "1", 1, "2", 1, NULL, &error));
  FORKED(
      gloo_store_multi_get(store, &key, 1, GLOO_TIMEOUT_NOW, &value, &error));
  FORKED(gloo_store_multi_set(store, &key, &(gloo_value){"1", 1}, 1, &error));
  FORKED(gloo_store_append(store, key, "1", 1, &error));
  FORKED(gloo_store_delete(store, key, &error));
}

static gloo_status lent_set(void *user, const char *key, const void *data,
                            size_t bytes) {
  (void)user, (void)key, (void)data, (void)bytes;
  return GLOO_OK;
}

static gloo_status lent_get(void *user, const char *key, int64_t timeout_ns,
                            gloo_value *value) {
  (void)user, (void)key, (void)timeout_ns;
  *value = (gloo_value){NULL, 0};
  return GLOO_OK;
}

static gloo_status lent_wait(void *user, const char *const *keys, size_t n,
                             int64_t timeout_ns) {
  (void)user, (void)keys, (void)n, (void)timeout_ns;
  return GLOO_OK;
}

static void lent_destroy(void *user) {
  ++*(int *)user;
}

static int destroyed;

static void use_stores(rank *r) {
  (void)r;
  for (int i = 0; i < STORES; i++) expect_refused(stores[i]);
  CHECK(gloo_store_tcp_port(stores[2]) != 0);
  for (int i = STORES; i-- > 0;) gloo_store_destroy(stores[i]);
  CHECK(destroyed == 0);
}

static void *wait_for_key(void *argument) {
  gloo_value value;
  OK(gloo_store_get(argument, "late", -1, &value, NULL));
  free(value.data);
  return NULL;
}

static void stores_answer(void) {
  for (int i = 0; i < STORES; i++) {
    gloo_value value;
    OK(gloo_store_set(stores[i], "key", "1", 1, NULL));
    OK(gloo_store_get(stores[i], "key", GLOO_TIMEOUT_NOW, &value, NULL));
    CHECK(i == 5 || (value.bytes == 1 && *(char *)value.data == '1'));
    free(value.data);
  }
}

static void open_stores(rank *r) {
  char directory[100];
  (void)snprintf(directory, sizeof directory, "%s/more", r->directory);
  gloo_store_file_options file = GLOO_STORE_FILE_OPTIONS_INIT;
  file.directory = directory;
  gloo_store_tcp_options tcp = GLOO_STORE_TCP_OPTIONS_INIT;
  tcp.host = "127.0.0.1";
  gloo_store_callbacks lent = {.struct_size = sizeof lent,
                               .user = &destroyed,
                               .set = lent_set,
                               .get = lent_get,
                               .wait = lent_wait,
                               .add = NULL,
                               .destroy = lent_destroy};
  OK(gloo_store_memory_create(&stores[0], NULL));
  OK(gloo_store_file_create(&file, &stores[1], NULL));
  tcp.serve = 1;
  OK(gloo_store_tcp_create(&tcp, &stores[2], NULL));
  tcp.serve = 0;
  tcp.port = gloo_store_tcp_port(stores[2]);
  OK(gloo_store_tcp_create(&tcp, &stores[3], NULL));
  OK(gloo_store_prefix_create(stores[3], "p/", &stores[4], NULL));
  OK(gloo_store_callbacks_create(&lent, &stores[5], NULL));
}

/* The port of a destroyed server is free, even while a child lives. */
static void serve_again(uint16_t port) {
  gloo_store_tcp_options tcp = GLOO_STORE_TCP_OPTIONS_INIT;
  tcp.host = "127.0.0.1";
  tcp.port = port;
  tcp.serve = 1;
  gloo_error error;
  gloo_store *store;
  gloo_status status = gloo_store_tcp_create(&tcp, &store, &error);
  if (status != GLOO_OK) fprintf(stderr, "# %s\n", error.message);
  OK(status);
  OK(gloo_store_set(store, "key", "1", 1, NULL));
  gloo_store_destroy(store);
}

static void stores_survive(rank *r) {
  if (r->rank != 1) return;
  open_stores(r);
  stores_answer();
  job_join(job_fork(r, leave_in_order));
  stores_answer();
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    CHECK(pthread_create(&threads[i], NULL, wait_for_key, stores[3 * i]) == 0);
  for (int k = 0; k < ROUNDS; k++) {
    job_join(job_fork(r, destroy));
    stores_answer();
  }
  pid_t child = job_fork(r, use_stores);
  job_join(child);
  stores_answer();
  for (int i = 0; i < 2; i++)
    OK(gloo_store_set(stores[3 * i], "late", "1", 1, NULL));
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(pipe(hold) == 0);
  child = job_fork(r, live);
  uint16_t port = gloo_store_tcp_port(stores[2]);
  for (int i = STORES; i-- > 0;) gloo_store_destroy(stores[i]);
  CHECK(destroyed == 1);
  serve_again(port);
  close(hold[1]);
  job_join(child);
  close(hold[0]);
}

/* ---- memory -------------------------------------------------------------- */

static float *memory;

static void use_memory(rank *r) {
  for (int i = 0; i < COUNT; i++) CHECK(memory[i] == (float)r->rank);
  memory[COUNT] = 1;
  gloo_free(memory);
  destroy(r);
}

static void memory_is_shared(rank *r) {
  void *got;
  OK(gloo_alloc((COUNT + 1) * sizeof(float), &got, NULL));
  float *v = got;
  for (int k = 0; k < ROUNDS; k++) {
    for (int i = 0; i < COUNT; i++) v[i] = (float)r->rank;
    v[COUNT] = 0;
    if (forks(r)) {
      memory = v;
      job_join(job_fork(r, use_memory));
      CHECK(v[COUNT] == 1); /* written by the child: the memory is shared */
    }
    OK(gloo_allreduce(r->context, GLOO_IN_PLACE, v, COUNT, GLOO_FLOAT32,
                      GLOO_SUM, NULL, NULL));
    for (int i = 0; i < COUNT; i++)
      CHECK(v[i] == (float)(RANKS * (RANKS - 1) / 2));
  }
  gloo_free(v);
}

/* -------------------------------------------------------------------------- */

static void play(scene body) {
  assert_int_equal(job_run(transport, body), 0);
}

static void children_between_calls(void **state) {
  (void)state;
  play(between);
}

static void children_during_operations(void **state) {
  (void)state;
  play(during);
}

static void children_beside_a_blocked_thread(void **state) {
  (void)state;
  play(beside_a_thread);
}

static void children_of_custom_operations(void **state) {
  (void)state;
  play(within_a_custom_operation);
}

static void contexts_end_while_a_child_lives(void **state) {
  (void)state;
  play(lives_on);
}

static void ended_contexts_are_not_watched(void **state) {
  (void)state;
  play(watches_nothing);
}

static void a_child_does_not_hide_a_death(void **state) {
  (void)state;
  play(dies_before_its_child);
}

static void stores_go_on(void **state) {
  (void)state;
  play(stores_survive);
}

static void shared_memory_stays(void **state) {
  (void)state;
  play(memory_is_shared);
}

int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "auto";
  const struct CMUnitTest all[] = {
      cmocka_unit_test(children_between_calls),
      cmocka_unit_test(children_during_operations),
      cmocka_unit_test(children_beside_a_blocked_thread),
      cmocka_unit_test(children_of_custom_operations),
      cmocka_unit_test(contexts_end_while_a_child_lives),
      cmocka_unit_test(stores_go_on),
      cmocka_unit_test(shared_memory_stays),
      /* Tests of connections between processes; inproc has none. */
      cmocka_unit_test(ended_contexts_are_not_watched),
      cmocka_unit_test(a_child_does_not_hide_a_death),
  };
  const struct CMUnitTest threads[] = {all[0], all[1], all[2], all[3],
                                       all[4], all[5], all[6]};
  if (strcmp(transport, "inproc") == 0)
    return cmocka_run_group_tests(threads, NULL, NULL);
  return cmocka_run_group_tests(all, NULL, NULL);
}
