/* Trains as `digits` does, but continues when ranks fail, and accepts new ones:
 *
 *   gloo store --port 4000
 *   gloo run -n 4 --min-ranks 1 -- elastic tcp://127.0.0.1:4000
 *   elastic tcp://127.0.0.1:4000 join
 *
 * with the same GLOO_JOB_SECRET for all. Before each epoch the ranks admit the
 * newcomers. When a call fails, the surviving ranks shrink the context. In both
 * cases they distribute the images anew, and continue from the state of rank 0,
 * which is never a newcomer: these get the last ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "digits.h"

/* Slow enough to watch. */
enum { PAUSE_MS = 200 };

typedef struct job {
  trainer t;
  gloo_store *store;
  images all, held_out;
  int32_t epoch; /* next epoch */
  bool changed;  /* the set of ranks has changed */
} job;

/* Distributes the images, and broadcasts the state of rank 0. */
static gloo_status share(job *j, gloo_error *error) {
  trainer *t = &j->t;
  t->rank = gloo_context_rank(t->context);
  t->ranks = gloo_context_size(t->context);
  if (!trainer_split(t, &j->all, &j->held_out)) exit(1);
  gloo_status status = gloo_broadcast(t->context, GLOO_IN_PLACE, &j->epoch, 1,
                                      GLOO_INT32, 0, NULL, error);
  if (status == GLOO_OK)
    status = gloo_broadcast(t->context, GLOO_IN_PLACE, t->weights, WEIGHTS,
                            GLOO_FLOAT32, 0, NULL, error);
  if (status == GLOO_OK)
    status = gloo_broadcast(t->context, GLOO_IN_PLACE, t->velocity, WEIGHTS,
                            GLOO_FLOAT32, 0, NULL, error);
  if (status != GLOO_OK) return status;
  j->changed = false;
  printf("process %ld is rank %d of %d, at epoch %d\n", (long)getpid(), t->rank,
         t->ranks, (int)j->epoch);
  fflush(stdout);
  return GLOO_OK;
}

static void take(job *j, gloo_context *context) {
  gloo_context_destroy(j->t.context);
  j->t.context = context;
  j->changed = true;
}

/* Admits newcomers. One may fail meanwhile: the others continue. */
static gloo_status take_in(job *j, gloo_error *error) {
  gloo_context *more = NULL;
  gloo_status status =
      gloo_context_grow(j->t.context, j->store, NULL, &more, error);
  if (status == GLOO_OK && more != NULL) take(j, more);
  if (status == GLOO_OK || gloo_context_error(j->t.context, NULL) != GLOO_OK)
    return status;
  fprintf(stderr, "elastic: nobody was taken in: %s\n", error->message);
  return GLOO_OK;
}

static gloo_status one_epoch(job *j, gloo_error *error) {
  trainer *t = &j->t;
  epoch_result r;
  float rate = FIRST_RATE;
  gloo_status status = j->changed ? GLOO_OK : take_in(j, error);
  if (status == GLOO_OK && j->changed) status = share(j, error);
  for (int32_t i = 1; i < j->epoch; i++) rate *= RATE_DECAY;
  if (status == GLOO_OK) status = train_epoch(t, rate, &r, error);
  if (status != GLOO_OK) return status;
  if (t->rank == 0) {
    printf("epoch %2d, %d ranks: loss %.4f, accuracy %6.2f %%\n", (int)j->epoch,
           t->ranks, r.loss, 100 * r.accuracy);
    fflush(stdout);
  }
  j->epoch++;
  nanosleep(&(struct timespec){0, PAUSE_MS * 1000000L}, NULL);
  return GLOO_OK;
}

static void go_on_with_the_rest(job *j, const gloo_error *cause) {
  gloo_context *left;
  gloo_error error;
  printf("process %ld: %s\n", (long)getpid(), cause->message);
  check(gloo_context_shrink(j->t.context, NULL, &left, &error), &error);
  take(j, left);
}

static void begin(job *j, const char *url, bool joins) {
  trainer *t = &j->t;
  gloo_error error;
  uint64_t seed = 20;
  check(gloo_store_open(url, GLOO_TIMEOUT_DEFAULT, &j->store, &error), &error);
  if (joins)
    check(gloo_context_join(j->store, NULL, NULL, GLOO_TIMEOUT_DEFAULT,
                            &t->context, &error),
          &error);
  else
    check(gloo_init(NULL, &t->context, &error), &error);
  t->weights = malloc(WEIGHTS * sizeof *t->weights);
  t->velocity = calloc(WEIGHTS, sizeof *t->velocity);
  t->sums = malloc((WEIGHTS + 3) * sizeof *t->sums);
  if (t->weights == NULL || t->velocity == NULL || t->sums == NULL) {
    fprintf(stderr, "elastic: out of memory\n");
    exit(1);
  }
  mlp_init(t->weights, &seed);
  t->random = seed + (uint64_t)getpid(); /* ranks shuffle differently */
  j->epoch = 1;
  j->changed = true;
}

int main(int argc, char **argv) {
  job j;
  char path[4096];
  gloo_error error;
  double accuracy = 0;
  bool joins = argc == 3 && strcmp(argv[2], "join") == 0;
  if (argc < 2 || (argc > 2 && !joins)) {
    fprintf(stderr, "usage: elastic STORE [join]\n");
    return 2;
  }
  memset(&j, 0, sizeof j);
  images_find(NULL, argv[0], path, sizeof path);
  if (!images_load(path, &j.all)) return 1;
  begin(&j, argv[1], joins);
  while (j.epoch <= EPOCHS)
    if (one_epoch(&j, &error) != GLOO_OK) go_on_with_the_rest(&j, &error);
  check(test_accuracy(&j.t, &j.held_out, &accuracy, &error), &error);
  if (j.t.rank == 0)
    printf("held-out accuracy with %d ranks: %.2f %% (required: %.0f %%)\n",
           j.t.ranks, 100 * accuracy, 100 * REQUIRED_ACCURACY);
  gloo_context_destroy(j.t.context);
  gloo_store_destroy(j.store);
  free(j.t.weights);
  free(j.t.velocity);
  free(j.t.sums);
  free(j.t.mine.list);
  free(j.held_out.list);
  free(j.all.list);
  return accuracy >= REQUIRED_ACCURACY ? 0 : 1;
}
