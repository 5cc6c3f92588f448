/* Trains as `digits` does, but continues when ranks fail, and accepts new ones:
 *
 *   gloo store --port 4000
 *   GLOO_STORE=tcp://127.0.0.1:4000 gloo run -n 4 --min-ranks 1 -- elastic
 *   GLOO_STORE=tcp://127.0.0.1:4000 GLOO_JOIN=1 elastic
 *
 * with the same GLOO_JOB_SECRET for all. An epoch in which a rank fails is
 * repeated by the others, from the weights that rank `root` has. */
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
  images all, held_out;
} job;

/* Distributes the images anew, and broadcasts the state of the root. */
static gloo_status share(gloo_context *context, int root,
                         gloo_elastic_reason reason, void *user,
                         gloo_error *error) {
  static const char *const reasons[] = {"it starts", "ranks failed",
                                        "ranks joined"};
  job *j = user;
  trainer *t = &j->t;
  t->context = context;
  t->rank = gloo_context_rank(context);
  t->ranks = gloo_context_size(context);
  if (!trainer_split(t, &j->all, &j->held_out)) exit(1);
  gloo_status status = gloo_broadcast(context, GLOO_IN_PLACE, t->weights,
                                      WEIGHTS, GLOO_FLOAT32, root, NULL, error);
  if (status == GLOO_OK)
    status = gloo_broadcast(context, GLOO_IN_PLACE, t->velocity, WEIGHTS,
                            GLOO_FLOAT32, root, NULL, error);
  if (status != GLOO_OK) return status;
  printf("process %ld is rank %d of %d: %s\n", (long)getpid(), t->rank,
         t->ranks, reasons[reason]);
  fflush(stdout);
  return GLOO_OK;
}

static gloo_status train(trainer *t, int epoch, gloo_error *error) {
  epoch_result r;
  float rate = FIRST_RATE;
  for (int i = 1; i < epoch; i++) rate *= RATE_DECAY;
  gloo_status status = train_epoch(t, rate, &r, error);
  if (status != GLOO_OK) {
    printf("process %ld: %s\n", (long)getpid(), error->message);
    return status;
  }
  if (t->rank == 0)
    printf("epoch %2d, %d ranks: loss %.4f, accuracy %6.2f %%\n", epoch,
           t->ranks, r.loss, 100 * r.accuracy);
  fflush(stdout);
  nanosleep(&(struct timespec){0, PAUSE_MS * 1000000L}, NULL);
  return GLOO_OK;
}

static void begin(job *j, const char *program) {
  trainer *t = &j->t;
  char path[4096];
  uint64_t seed = 20;
  images_find(NULL, program, path, sizeof path);
  if (!images_load(path, &j->all)) exit(1);
  t->weights = malloc(WEIGHTS * sizeof *t->weights);
  t->velocity = calloc(WEIGHTS, sizeof *t->velocity);
  t->sums = malloc((WEIGHTS + 3) * sizeof *t->sums);
  if (t->weights == NULL || t->velocity == NULL || t->sums == NULL) {
    fprintf(stderr, "elastic: out of memory\n");
    exit(1);
  }
  mlp_init(t->weights, &seed);
  t->random = seed + (uint64_t)getpid(); /* ranks shuffle differently */
}

int main(int argc, char **argv) {
  job j;
  gloo_error error;
  gloo_elastic *elastic;
  gloo_status status = GLOO_OK, next;
  int64_t done = 0;
  double accuracy = 0;
  (void)argc;
  memset(&j, 0, sizeof j);
  begin(&j, argv[0]);
  gloo_elastic_options options = GLOO_ELASTIC_OPTIONS_INIT;
  options.sync = share;
  options.user = &j;
  options.steps = EPOCHS;
  check(gloo_elastic_create(NULL, &options, &elastic, &error), &error);
  while ((next = gloo_elastic_next(elastic, status, &done, &error)) ==
             GLOO_OK &&
         done < EPOCHS) {
    status = train(&j.t, (int)done + 1, &error);
    if (status == GLOO_OK) done++;
  }
  check(next, &error);
  check(test_accuracy(&j.t, &j.held_out, &accuracy, &error), &error);
  if (j.t.rank == 0)
    printf("held-out accuracy with %d ranks: %.2f %% (required: %.0f %%)\n",
           j.t.ranks, 100 * accuracy, 100 * REQUIRED_ACCURACY);
  gloo_elastic_destroy(elastic);
  free(j.t.weights);
  free(j.t.velocity);
  free(j.t.sums);
  free(j.t.mine.list);
  free(j.held_out.list);
  free(j.all.list);
  return accuracy >= REQUIRED_ACCURACY ? 0 : 1;
}
