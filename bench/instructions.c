/* Small operations between two ranks that one thread drives in turn, so that
 * every poll makes progress and the number of instructions of an operation is
 * constant. bench/instructions runs this under callgrind, and counts the
 * instructions of measured_operations.
 *
 * usage: instructions TRANSPORT CASE OPERATIONS
 *        instructions --list | --about */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gloo_c/gloo_c.h"

enum { RANKS = 2, WARM_UP = 100, MAX_COUNT = 256, GIVE_UP_TESTS = 1000000 };
enum { POKE_AFTER = 2 * RANKS };

typedef struct rank_state {
  int rank;
  gloo_store *store;
  const char *transport;
  gloo_device *device;
  gloo_context *context;
  gloo_status status;
  gloo_error error;
  float in[MAX_COUNT], out[MAX_COUNT];
  gloo_request *operation; /* persistent, or the current one */
  gloo_request **many;     /* pending at the same time, and */
  float *values;           /* the one element of each */
  unsigned long tests;
} rank_state;

typedef gloo_status (*make_fn)(rank_state *r, gloo_request **operation);
typedef gloo_status (*call_fn)(rank_state *r);

/* ---- what is measured ---------------------------------------------------- */

static gloo_status make_allreduce(rank_state *r, gloo_request **operation) {
  return gloo_allreduce_init(r->context, r->in, r->out, 1, GLOO_FLOAT32,
                             GLOO_SUM, NULL, operation, NULL);
}

static gloo_status make_allreduce_1k(rank_state *r, gloo_request **operation) {
  return gloo_allreduce_init(r->context, r->in, r->out, 256, GLOO_FLOAT32,
                             GLOO_SUM, NULL, operation, NULL);
}

static gloo_status start_allreduce(rank_state *r, gloo_request **operation) {
  return gloo_allreduce_start(r->context, r->in, r->out, 1, GLOO_FLOAT32,
                              GLOO_SUM, NULL, operation, NULL);
}

static gloo_status make_barrier(rank_state *r, gloo_request **operation) {
  return gloo_barrier_init(r->context, NULL, operation, NULL);
}

static gloo_status make_broadcast(rank_state *r, gloo_request **operation) {
  return gloo_broadcast_init(r->context, r->in, r->out, 1, GLOO_FLOAT32, 0,
                             NULL, operation, NULL);
}

static gloo_status make_message(rank_state *r, gloo_request **operation) {
  if (r->rank == 0) {
    return gloo_send_init(r->context, r->in, 1, GLOO_FLOAT32, 1, NULL,
                          operation, NULL);
  }
  return gloo_recv_init(r->context, r->out, 1, GLOO_FLOAT32, 0, NULL, operation,
                        NULL);
}

/* Blocking calls, in which rank 0 need not wait for rank 1. */
static gloo_status call_broadcast(rank_state *r) {
  return gloo_broadcast(r->context, r->in, r->out, 1, GLOO_FLOAT32, 0, NULL,
                        NULL);
}

static gloo_status call_message(rank_state *r) {
  if (r->rank == 0) {
    return gloo_send(r->context, r->in, 1, GLOO_FLOAT32, 1, NULL, NULL);
  }
  return gloo_recv(r->context, r->out, 1, GLOO_FLOAT32, 0, NULL, NULL);
}

/* ---- many under way ------------------------------------------------------ */

/* One rank begins all before the other begins any: early messages are parked,
 * and those that do not fit wait to be requested. */
static gloo_status many_broadcasts(rank_state *r, unsigned long i) {
  return gloo_broadcast_start(r->context, GLOO_IN_PLACE, &r->values[i], 1,
                              GLOO_FLOAT32, 0, NULL, &r->many[i], NULL);
}

/* Each message has a tag. */
static gloo_status many_messages(rank_state *r, unsigned long i) {
  gloo_options options = GLOO_OPTIONS_INIT;
  options.tag = (unsigned)i;
  if (r->rank == 0) {
    return gloo_send_start(r->context, &r->values[i], 1, GLOO_FLOAT32, 1,
                           &options, &r->many[i], NULL);
  }
  return gloo_recv_start(r->context, &r->values[i], 1, GLOO_FLOAT32, 0,
                         &options, &r->many[i], NULL);
}

/* The operations are matched by their init calls. */
static gloo_status many_persistent(rank_state *r, unsigned long i) {
  gloo_options options = GLOO_OPTIONS_INIT;
  options.matched_by_init = 1;
  gloo_status status = GLOO_OK;
  if (r->many[i] == NULL) {
    status = gloo_broadcast_init(r->context, GLOO_IN_PLACE, &r->values[i], 1,
                                 GLOO_FLOAT32, 0, &options, &r->many[i], NULL);
  }
  return status == GLOO_OK ? gloo_request_start(r->many[i], NULL) : status;
}

/* A case with many pending operations. `expected`, below, is rank 1's first
 * output for the inputs 1 and 2. */
struct many_case {
  gloo_status (*start)(rank_state *r, unsigned long i);
  unsigned long n;
  int receivers_first; /* rank 1 begins all before rank 0 does */
};
#define MANY(name, start, n, receivers_first)                     \
  {                                                               \
    name, make_broadcast, 1, 1, NULL, &(const struct many_case) { \
      start, n, receivers_first                                   \
    }                                                             \
  }
static const struct test_case {
  const char *name;
  make_fn make;
  int persistent;
  float expected;
  call_fn call;                 /* called after the warm-up instead */
  const struct many_case *many; /* instead of both, once; may be NULL */
} cases[] = {
    {"allreduce_4", make_allreduce, 1, 3, NULL, NULL},
    {"allreduce_4_anew", start_allreduce, 0, 3, NULL, NULL},
    {"allreduce_1024", make_allreduce_1k, 1, 3, NULL, NULL},
    {"barrier", make_barrier, 1, 0, NULL, NULL},
    {"broadcast_4", make_broadcast, 1, 1, NULL, NULL},
    {"broadcast_4_call", make_broadcast, 1, 1, call_broadcast, NULL},
    {"sendrecv_4", make_message, 1, 1, NULL, NULL},
    {"sendrecv_4_call", make_message, 1, 1, call_message, NULL},
    MANY("broadcasts_500", many_broadcasts, 500, 0),
    MANY("broadcasts_20000", many_broadcasts, 20000, 0),
    MANY("messages_500", many_messages, 500, 0),
    MANY("messages_20000", many_messages, 20000, 0),
    MANY("receives_500", many_messages, 500, 1),
    MANY("receives_20000", many_messages, 20000, 1),
    MANY("persistent_500", many_persistent, 500, 0),
    MANY("persistent_20000", many_persistent, 20000, 0),
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* ---- two ranks ----------------------------------------------------------- */

static void connect_rank(void *user) {
  rank_state *r = user;
  gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
  options.transport = r->transport;
  options.no_helper = 1;
  r->status = gloo_device_create(&options, &r->device, &r->error);
  if (r->status != GLOO_OK) return;
  r->status = gloo_context_create(r->rank, RANKS, r->store, r->device, NULL,
                                  &r->context, &r->error);
}

static gloo_status fail(rank_state *r, gloo_status status) {
  gloo_error error;
  error.message[0] = 0;
  if (r->operation != NULL) gloo_request_error(r->operation, &error);
  fprintf(stderr, "instructions: rank %d: %s: %s\n", r->rank,
          gloo_status_string(status), error.message);
  return status;
}

static gloo_status begin(const struct test_case *c, rank_state *r) {
  gloo_status status = c->persistent ? gloo_request_start(r->operation, NULL)
                                     : c->make(r, &r->operation);
  return status == GLOO_OK ? status : fail(r, status);
}

/* Tests both ranks in turn until they are done. A completed rank may still have
 * to send while the two connect. */
static gloo_status finish(const struct test_case *c, rank_state ranks[RANKS]) {
  int running = RANKS, done[RANKS] = {0};
  for (unsigned long tries = 0; running > 0; tries++) {
    rank_state *r = &ranks[tries % RANKS];
    if (done[r->rank]) {
      if (tries > POKE_AFTER) gloo_context_error(r->context, &r->error);
      continue;
    }
    r->tests++;
    gloo_status status = gloo_request_test(r->operation, NULL);
    if (status == GLOO_IN_PROGRESS && tries < GIVE_UP_TESTS) continue;
    if (status != GLOO_OK) return fail(r, status);
    done[r->rank] = 1;
    running--;
    if (!c->persistent) gloo_request_destroy(r->operation);
    if (!c->persistent) r->operation = NULL;
  }
  return GLOO_OK;
}

static gloo_status one_operation(const struct test_case *c,
                                 rank_state ranks[RANKS]) {
  for (int r = 0; r < RANKS; r++) {
    gloo_status status = begin(c, &ranks[r]);
    if (status != GLOO_OK) return status;
  }
  return finish(c, ranks);
}

static gloo_status one_call(const struct test_case *c,
                            rank_state ranks[RANKS]) {
  for (int r = 0; r < RANKS; r++) {
    gloo_status status = c->call(&ranks[r]);
    if (status != GLOO_OK) return fail(&ranks[r], status);
  }
  return GLOO_OK;
}

/* Tests the pending operations, and then destroys them in reverse order. */
static gloo_status finish_many(rank_state ranks[RANKS], unsigned long n) {
  for (unsigned long i = 0; i < n; i++) {
    int over = 0;
    for (unsigned long tries = 0; over < RANKS; tries++) {
      rank_state *r = &ranks[tries % RANKS];
      r->tests++;
      gloo_status status = gloo_request_test(r->many[i], NULL);
      if (status == GLOO_IN_PROGRESS && tries < GIVE_UP_TESTS) {
        over = 0;
        continue;
      }
      if (status != GLOO_OK) return fail(r, status);
      over++;
    }
  }
  for (unsigned long i = n; i-- > 0;) {
    for (int r = 0; r < RANKS; r++) {
      gloo_request_destroy(ranks[r].many[i]);
      ranks[r].many[i] = NULL;
    }
  }
  return GLOO_OK;
}

static gloo_status begin_many(const struct test_case *c, rank_state *r) {
  for (unsigned long i = 0; i < c->many->n; i++) {
    gloo_status status = c->many->start(r, i);
    if (status != GLOO_OK) return fail(r, status);
  }
  return GLOO_OK;
}

/* Tests each request once, as a program with other work does. */
static gloo_status look_at_many(const struct test_case *c, rank_state *r) {
  for (unsigned long i = 0; i < c->many->n; i++) {
    gloo_status status = gloo_request_test(r->many[i], NULL);
    if (status < 0) return fail(r, status);
  }
  return GLOO_OK;
}

static gloo_status all_under_way(const struct test_case *c,
                                 rank_state ranks[RANKS]) {
  rank_state *first = &ranks[c->many->receivers_first];
  gloo_status status = begin_many(c, first);
  if (status == GLOO_OK) status = look_at_many(c, first);
  if (status == GLOO_OK) status = begin_many(c, &ranks[1 - first->rank]);
  return status == GLOO_OK ? finish_many(ranks, c->many->n) : status;
}

/* callgrind counts from the call of this function to its return. */
static gloo_status measured_operations(const struct test_case *c,
                                       rank_state ranks[RANKS],
                                       unsigned long count) {
  if (c->many) return all_under_way(c, ranks);
  for (unsigned long i = 0; i < count; i++) {
    gloo_status status = c->call ? one_call(c, ranks) : one_operation(c, ranks);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

/* The volatile pointer keeps the compiler from inlining or cloning the
 * function. */
static gloo_status (*volatile operations)(const struct test_case *,
                                          rank_state *,
                                          unsigned long) = measured_operations;

static gloo_status warm_up(const struct test_case *c, rank_state ranks[RANKS]) {
  for (unsigned long i = 0; i < WARM_UP; i++) {
    gloo_status status = one_operation(c, ranks);
    if (status != GLOO_OK) return status;
  }
  for (unsigned long i = 0; i < WARM_UP && c->call; i++) {
    gloo_status status = one_call(c, ranks);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

static gloo_status make_many(const struct test_case *c, rank_state *r) {
  if (c->many == NULL) return GLOO_OK;
  r->many = calloc(c->many->n, sizeof(gloo_request *));
  r->values = calloc(c->many->n, sizeof(float));
  if (r->many == NULL || r->values == NULL) return GLOO_ERR_NO_MEMORY;
  for (unsigned long i = 0; i < c->many->n; i++)
    r->values[i] = r->rank == 0 ? (float)i : -1;
  return GLOO_OK;
}

static int came_through(const struct test_case *c, const rank_state *r) {
  for (unsigned long i = 0; c->many && i < c->many->n; i++) {
    if (r->values[i] >= (float)i && r->values[i] <= (float)i) continue;
    fprintf(stderr, "instructions: %s: result %lu is %g\n", c->name, i,
            (double)r->values[i]);
    return 0;
  }
  return 1;
}

static gloo_status measure(const struct test_case *c, rank_state ranks[RANKS],
                           unsigned long count) {
  for (int r = 0; r < RANKS && c->persistent; r++) {
    gloo_status status = c->make(&ranks[r], &ranks[r].operation);
    if (status == GLOO_OK) status = make_many(c, &ranks[r]);
    if (status != GLOO_OK) return fail(&ranks[r], status);
  }
  if (c->many) count = c->many->n;
  gloo_status status = warm_up(c, ranks);
  if (status != GLOO_OK) return status;
  ranks[0].tests = ranks[1].tests = 0;
  status = operations(c, ranks, count);
  for (int r = 0; r < RANKS; r++) gloo_request_destroy(ranks[r].operation);
  if (status != GLOO_OK) return status;
  if (ranks[1].out[0] < c->expected || ranks[1].out[0] > c->expected) {
    fprintf(stderr, "instructions: %s: the result is %g, not %g\n", c->name,
            (double)ranks[1].out[0], (double)c->expected);
    return GLOO_ERR_INTERNAL;
  }
  if (!came_through(c, &ranks[1])) return GLOO_ERR_INTERNAL;
  printf("operations %lu tests %lu %lu\n", count, ranks[0].tests,
         ranks[1].tests);
  return GLOO_OK;
}

static int run(const char *transport, const struct test_case *c,
               unsigned long count) {
  static rank_state ranks[RANKS];
  gloo_store *store;
  if (gloo_store_memory_create(&store, NULL) != GLOO_OK) return 1;
  uv_thread_t threads[RANKS];
  int started = 0;
  for (; started < RANKS; started++) {
    rank_state *r = &ranks[started];
    *r = (rank_state){.rank = started, .store = store, .transport = transport};
    for (int i = 0; i < MAX_COUNT; i++) r->in[i] = (float)(started + 1);
    if (uv_thread_create(&threads[started], connect_rank, r) != 0) break;
  }
  int good = started == RANKS;
  for (int r = 0; r < started; r++) {
    uv_thread_join(&threads[r]);
    if (ranks[r].status == GLOO_OK) continue;
    fprintf(stderr, "instructions: rank %d: %s\n", r, ranks[r].error.message);
    good = 0;
  }
  good = good && measure(c, ranks, count) == GLOO_OK;
  for (int r = 0; r < RANKS; r++) {
    gloo_context_destroy(ranks[r].context);
    free(ranks[r].many);
    free(ranks[r].values);
  }
  for (int r = 0; r < RANKS; r++) gloo_device_destroy(ranks[r].device);
  gloo_store_destroy(store);
  return good ? 0 : 1;
}

/* ---- the command --------------------------------------------------------- */

/* Prints the settings that the counts depend on. */
static int about(void) {
#ifdef __clang__
  const char *compiler = "clang";
#else
  const char *compiler = "gcc";
#endif
#ifdef __OPTIMIZE__
  const char *optimized = "optimized";
#else
  const char *optimized = "not optimized";
#endif
#ifdef __SANITIZE_ADDRESS__
  optimized = "with AddressSanitizer";
#endif
#ifdef __VERSION__
  printf("%s %s, %s\n", compiler, __VERSION__, optimized);
#else
  printf("%s, %s\n", compiler, optimized);
#endif
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--about") == 0) return about();
  for (int i = 0; i < N_CASES; i++) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) puts(cases[i].name);
    if (argc != 4 || strcmp(argv[2], cases[i].name) != 0) continue;
    unsigned long count = strtoul(argv[3], NULL, 10);
    if (count > 0) return run(argv[1], &cases[i], count);
  }
  if (argc == 2 && strcmp(argv[1], "--list") == 0) return 0;
  fprintf(stderr,
          "usage: instructions TRANSPORT CASE OPERATIONS | --list | --about\n");
  return 2;
}
