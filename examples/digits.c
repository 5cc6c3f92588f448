/* Trains a small neural network on handwritten digits, with as many ranks as
 * `gloo run -n N` starts: gloo run -n 4 -- digits [digits.csv] */
#include "digits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS = 25, STEP_IMAGES = 32, HOLD_OUT_EVERY = 5 };
static const float first_rate = 0.1f, rate_decay = 0.93f;
static const double required_accuracy = 0.95;

/* ---- data --------------------------------------------------------------- */

/* The file named by the user, or data/digits.csv next to this program. */
static void find_data(int argc, char **argv, char *path, size_t bytes) {
  if (argc > 1) {
    snprintf(path, bytes, "%s", argv[1]);
    return;
  }
  const char *slash = strrchr(argv[0], '/');
  int directory = slash != NULL ? (int)(slash - argv[0]) + 1 : 0;
  snprintf(path, bytes, "%.*sdata/digits.csv", directory, argv[0]);
}

/* Every fifth image is held out; of the others this rank takes every P-th. */
static bool split(const images *all, trainer *t, images *held_out) {
  t->mine.list = malloc(all->count * sizeof *all->list);
  held_out->list = malloc(all->count * sizeof *all->list);
  if (t->mine.list == NULL || held_out->list == NULL) {
    fprintf(stderr, "digits: out of memory\n");
    return false;
  }
  t->mine.count = held_out->count = t->n_train = 0;
  for (size_t i = 0; i < all->count; i++) {
    if (i % HOLD_OUT_EVERY == HOLD_OUT_EVERY - 1) {
      held_out->list[held_out->count++] = all->list[i];
      continue;
    }
    if (t->n_train++ % (size_t)t->ranks != (size_t)t->rank) continue;
    t->mine.list[t->mine.count++] = all->list[i];
  }
  return true;
}

/* All ranks make the same number of steps, also those with an image less. */
static void plan_steps(trainer *t) {
  size_t ranks = (size_t)t->ranks;
  size_t most = (t->n_train + ranks - 1) / ranks;
  t->per_step = STEP_IMAGES > ranks ? STEP_IMAGES / ranks : 1;
  t->steps = (most + t->per_step - 1) / t->per_step;
}

/* ---- the model ---------------------------------------------------------- */

/* Rank 0 chooses the seed; all make the same model of it. */
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
  t->random = seed + (uint64_t)t->rank; /* each shuffles its own images */
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

/* Do all ranks hold the same weights, to the last bit? */
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
  float rate = first_rate;
  if (t->rank == 0) {
    printf("epoch  loss    accuracy  time      in communication\n");
  }
  for (int epoch = 1; epoch <= EPOCHS; epoch++, rate *= rate_decay) {
    epoch_result r;
    train_epoch(t, rate, &r);
    if (t->rank != 0) continue;
    printf("%5d  %.4f  %6.2f %%  %5.1f ms  %5.1f ms (%2.0f %%)\n", epoch,
           r.loss, 100 * r.accuracy, 1e3 * r.seconds, 1e3 * r.communicating,
           100 * r.communicating / r.seconds);
    fflush(stdout);
  }
}

static bool train_and_test(trainer *t, const images *held_out) {
  if (!make_model(t)) return false;
  plan_steps(t);
  if (t->rank == 0) {
    printf(
        "%zu images to train on, %zu held out, %d ranks, %zu steps of %zu "
        "images each per epoch\n",
        t->n_train, held_out->count, t->ranks, t->steps,
        t->per_step * (size_t)t->ranks);
  }
  train(t);
  double accuracy = test_accuracy(t, held_out);
  bool same = compare_weights(t);
  bool good = accuracy >= required_accuracy;
  if (t->rank != 0) return same && good;
  printf("held-out accuracy: %.2f %% (required: %.0f %%)\n", 100 * accuracy,
         100 * required_accuracy);
  printf("weights are %s on all ranks\n",
         same ? "bitwise the same" : "NOT the same");
  return same && good;
}

int main(int argc, char **argv) {
  char path[4096];
  images all, held_out = {0};
  find_data(argc, argv, path, sizeof path);
  if (!images_load(path, &all)) return 1;

  trainer t = {0};
  gloo_error error;
  check(gloo_init(NULL, &t.context, &error), &error);
  t.rank = gloo_context_rank(t.context);
  t.ranks = gloo_context_size(t.context);
  bool good = split(&all, &t, &held_out) && train_and_test(&t, &held_out);

  gloo_context_destroy(t.context);
  free(t.weights);
  free(t.velocity);
  free(t.sums);
  free(t.mine.list);
  free(held_out.list);
  free(all.list);
  return good ? 0 : 1;
}
