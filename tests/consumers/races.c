/* A user's program, built with the thread sanitizer as the library is: threads
 * destroy requests, take functions back and start requests again while these
 * functions run in the library's threads, and then use, or free, what the
 * functions wrote to, with no lock of their own. With an argument it also does
 * what is a race, to see that races are found. */
#include <gloo_c/gloo_c.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RANKS = 2, THREADS = 2, ROUNDS = 30, RUNS = 3 };

#define OK(call)                                         \
  do {                                                   \
    gloo_error error;                                    \
    if ((call) != GLOO_OK) {                             \
      fprintf(stderr, "%s: %s\n", #call, error.message); \
      exit(3);                                           \
    }                                                    \
  } while (0)

typedef struct rank {
  int rank;
  gloo_store *store;
  gloo_context *context;
  pthread_t thread;
} rank;

typedef struct worker {
  rank *of;
  unsigned tag;
  pthread_t thread;
} worker;

/* The function's, until it has returned; the thread's afterwards. */
typedef struct told {
  int begun, ended;
  gloo_status status;
} told;

static void tell(void *user, gloo_request *request, gloo_status status) {
  told *t = user;
  struct timespec moment = {0, 300000};
  (void)request;
  t->begun++;
  t->status = status;
  nanosleep(&moment, NULL);
  t->ended++;
}

static void check(const told *t, int times) {
  if (t->begun == times && t->ended == times && t->status == GLOO_OK) return;
  fprintf(stderr, "a function that was called %d times has returned %d times\n",
          t->begun, t->ended);
  exit(4);
}

static told *new_told(void) {
  told *t = calloc(1, sizeof *t);
  if (t == NULL) exit(5);
  return t;
}

static void once(gloo_context *context, const gloo_options *o, int takes_back) {
  float sum[16] = {1};
  told *t = new_told();
  gloo_request *request;
  OK(gloo_allreduce_start(context, GLOO_IN_PLACE, sum, 16, GLOO_FLOAT32,
                          GLOO_SUM, o, &request, &error));
  OK(gloo_request_on_done(request, tell, t, &error));
  OK(gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, &error));
  if (takes_back) {
    OK(gloo_request_on_done(request, NULL, NULL, &error));
    check(t, t->begun);
    free(t);
  }
  gloo_request_destroy(request);
  if (takes_back) return;
  check(t, 1);
  free(t);
}

/* The results that the completion function saw, of each run of one request. */
typedef struct runs {
  int next; /* the function's alone */
  told of[RUNS];
} runs;

static void tell_next(void *user, gloo_request *request, gloo_status status) {
  runs *r = user;
  tell(&r->of[r->next++], request, status);
}

static void again(gloo_context *context, const gloo_options *o) {
  float sum[16] = {1};
  runs *r = calloc(1, sizeof *r);
  gloo_request *request;
  if (r == NULL) exit(5);
  OK(gloo_allreduce_init(context, GLOO_IN_PLACE, sum, 16, GLOO_FLOAT32,
                         GLOO_MAX, o, &request, &error));
  OK(gloo_request_on_done(request, tell_next, r, &error));
  for (int i = 0; i < RUNS; i++) {
    OK(gloo_request_start(request, &error));
    if (i > 0) check(&r->of[i - 1], 1);
    OK(gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, &error));
  }
  gloo_request_destroy(request);
  check(&r->of[RUNS - 1], 1);
  free(r);
}

static void *work(void *argument) {
  const worker *w = argument;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = w->tag;
  for (int i = 0; i < ROUNDS; i++) {
    once(w->of->context, &o, i % 2);
    if (i % 3 == 0) again(w->of->context, &o);
  }
  return NULL;
}

/* The last function is waited for by the end of the context alone. */
static void leave(rank *r) {
  float sum = 1;
  told *t = new_told();
  gloo_request *request;
  OK(gloo_allreduce_start(r->context, GLOO_IN_PLACE, &sum, 1, GLOO_FLOAT32,
                          GLOO_SUM, NULL, &request, &error));
  OK(gloo_request_on_done(request, tell, t, &error));
  OK(gloo_request_wait(request, GLOO_TIMEOUT_DEFAULT, &error));
  gloo_context_destroy(r->context);
  check(t, 1);
  free(t);
  gloo_request_destroy(request);
}

static void *take_part(void *argument) {
  rank *r = argument;
  worker workers[THREADS];
  gloo_device *device;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = "inproc";
  OK(gloo_device_create(&d, &device, &error));
  OK(gloo_context_create(r->rank, RANKS, r->store, device, NULL, &r->context,
                         &error));
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.of = r, .tag = (unsigned)i + 1};
    pthread_create(&workers[i].thread, NULL, work, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
  leave(r);
  gloo_device_destroy(device);
  return NULL;
}

static void *touch(void *argument) {
  ++*(int *)argument;
  return NULL;
}

static void race(void) {
  pthread_t thread;
  int value = 0;
  pthread_create(&thread, NULL, touch, &value);
  value++;
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  (void)argv;
  rank ranks[RANKS];
  gloo_store *store;
  OK(gloo_store_memory_create(&store, &error));
  for (int i = 0; i < RANKS; i++) {
    ranks[i] = (rank){.rank = i, .store = store};
    pthread_create(&ranks[i].thread, NULL, take_part, &ranks[i]);
  }
  for (int i = 0; i < RANKS; i++) pthread_join(ranks[i].thread, NULL);
  gloo_store_destroy(store);
  if (argc > 1) race();
  puts("no function ran when its memory was used");
  return 0;
}
