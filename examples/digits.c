/* Trains a small neural network on handwritten digits, with as many ranks as
 * `gloo run -n N` starts: gloo run -n 4 -- digits [digits.csv] */
#include "digits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model ---------------------------------------------------------- */

/* Rank 0 chooses the seed; all ranks make the same model from it. */
static bool make_model(trainer *t) {
  gloo_error error;
  uint64_t seed = t->rank == 0 ? 20 : 0;
  check(gloo_broadcast(t->context, GLOO_IN_PLACE, &seed, 1, GLOO_UINT64, 0,
                       NULL, &error),
        &error);
  t->weights = malloc(WEIGHTS * sizeof *t->weights);
  t->velocity = calloc(WEIGHTS, sizeof *t->velocity);
  t->sums = malloc((WEIGHTS + 3) * sizeof *t->sums);
  if (t->weights == NULL || t->velocity == NULL || t->sums == NULL) {
    fprintf(stderr, "digits: out of memory\n");
    return false;
  }
  mlp_init(t->weights, &seed);
  t->random = seed + (uint64_t)t->rank; /* ranks shuffle differently */
  return true;
}

/* FNV-1a over the bytes of the weights. */
static uint64_t hash_weights(const trainer *t) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  const unsigned char *bytes = (const unsigned char *)t->weights;
  for (size_t i = 0; i < WEIGHTS * sizeof *t->weights; i++) {
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

/* Returns true if all ranks have bitwise identical weights. */
static bool compare_weights(const trainer *t) {
  uint64_t mine = hash_weights(t);
  uint64_t *all = calloc((size_t)t->ranks, sizeof *all);
  if (all == NULL) return false;
  gloo_error error;
  check(gloo_allgather(t->context, &mine, all, 1, GLOO_UINT64, NULL, &error),
        &error);
  bool same = true;
  for (int r = 0; r < t->ranks; r++) {
    if (all[r] != mine) same = false;
    if (t->rank == 0) printf("weights of rank %d: %016" PRIx64 "\n", r, all[r]);
  }
  free(all);
  return same;
}

/* ---- the program -------------------------------------------------------- */

static void train(trainer *t) {
  float rate = FIRST_RATE;
  if (t->rank == 0) {
    printf("epoch  loss    accuracy  time      in communication\n");
  }
  for (int epoch = 1; epoch <= EPOCHS; epoch++, rate *= RATE_DECAY) {
    epoch_result r;
    gloo_error error;
    check(train_epoch(t, rate, &r, &error), &error);
    if (t->rank != 0) continue;
    printf("%5d  %.4f  %6.2f %%  %5.1f ms  %5.1f ms (%2.0f %%)\n", epoch,
           r.loss, 100 * r.accuracy, 1e3 * r.seconds, 1e3 * r.communicating,
           100 * r.communicating / r.seconds);
    fflush(stdout);
  }
}

static bool train_and_test(trainer *t, const images *held_out) {
  if (!make_model(t)) return false;
  if (t->rank == 0) {
    printf(
        "%zu images to train on, %zu held out, %d ranks, %zu steps of %zu "
        "images each per epoch\n",
        t->n_train, held_out->count, t->ranks, t->steps,
        t->per_step * (size_t)t->ranks);
  }
  train(t);
  double accuracy;
  gloo_error error;
  check(test_accuracy(t, held_out, &accuracy, &error), &error);
  bool same = compare_weights(t);
  bool good = accuracy >= REQUIRED_ACCURACY;
  if (t->rank != 0) return same && good;
  printf("held-out accuracy: %.2f %% (required: %.0f %%)\n", 100 * accuracy,
         100 * REQUIRED_ACCURACY);
  printf("weights are %s on all ranks\n",
         same ? "bitwise the same" : "NOT the same");
  return same && good;
}

int main(int argc, char **argv) {
  char path[4096];
  images all, held_out = {0};
  images_find(argc > 1 ? argv[1] : NULL, argv[0], path, sizeof path);
  if (!images_load(path, &all)) return 1;

  trainer t = {0};
  gloo_error error;
  check(gloo_init(NULL, &t.context, &error), &error);
  t.rank = gloo_context_rank(t.context);
  t.ranks = gloo_context_size(t.context);
  bool good =
      trainer_split(&t, &all, &held_out) && train_and_test(&t, &held_out);

  gloo_context_destroy(t.context);
  free(t.weights);
  free(t.velocity);
  free(t.sums);
  free(t.mine.list);
  free(held_out.list);
  free(all.list);
  return good ? 0 : 1;
}
