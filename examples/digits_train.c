#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "digits.h"

enum { AT_LOSS = WEIGHTS, AT_RIGHT, AT_IMAGES, SUMS };
enum { STEP_IMAGES = 32, HOLD_OUT_EVERY = 5 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void check(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  fprintf(stderr, "digits: %s\n", error->message);
  exit(1);
}

/* All ranks make the same number of steps, even with one image less. */
static void plan_steps(trainer *t) {
  size_t ranks = (size_t)t->ranks;
  size_t most = (t->n_train + ranks - 1) / ranks;
  t->per_step = STEP_IMAGES > ranks ? STEP_IMAGES / ranks : 1;
  t->steps = (most + t->per_step - 1) / t->per_step;
}

bool trainer_split(trainer *t, const images *all, images *held_out) {
  free(t->mine.list);
  free(held_out->list);
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
  plan_steps(t);
  return true;
}

/* Computes this rank's part of a step: sums over its images. */
static void learn(trainer *t, const size_t *order, size_t first) {
  memset(t->sums, 0, SUMS * sizeof *t->sums);
  size_t end = first + t->per_step;
  if (end > t->mine.count) end = t->mine.count;
  for (size_t i = first; i < end; i++) {
    bool right;
    t->sums[AT_LOSS] +=
        mlp_learn(t->weights, &t->mine.list[order[i]], t->sums, &right);
    t->sums[AT_RIGHT] += right ? 1.0f : 0.0f;
    t->sums[AT_IMAGES] += 1;
  }
}

/* Gradient descent with momentum on the mean over all ranks' images. */
static void step(trainer *t, float rate) {
  float count = t->sums[AT_IMAGES];
  if (count == 0) return;
  for (int i = 0; i < WEIGHTS; i++) {
    t->velocity[i] = 0.9f * t->velocity[i] + t->sums[i] / count;
    t->weights[i] -= rate * t->velocity[i];
  }
}

gloo_status train_epoch(trainer *t, float rate, epoch_result *result,
                        gloo_error *error) {
  double start = now();
  memset(result, 0, sizeof *result);
  size_t *order = malloc((t->mine.count + 1) * sizeof *order);
  if (order == NULL) {
    fprintf(stderr, "digits: out of memory\n");
    exit(1);
  }
  for (size_t i = 0; i < t->mine.count; i++) order[i] = i;
  random_shuffle(&t->random, order, t->mine.count);

  gloo_status status = GLOO_OK;
  for (size_t i = 0; i < t->steps; i++) {
    learn(t, order, i * t->per_step);
    double before = now();
    status = gloo_allreduce(t->context, GLOO_IN_PLACE, t->sums, SUMS,
                            GLOO_FLOAT32, GLOO_SUM, NULL, error);
    if (status != GLOO_OK) break;
    result->communicating += now() - before;
    step(t, rate);
    result->loss += (double)t->sums[AT_LOSS] / (double)t->n_train;
    result->accuracy += (double)t->sums[AT_RIGHT] / (double)t->n_train;
  }
  free(order);
  result->seconds = now() - start;
  return status;
}

gloo_status test_accuracy(trainer *t, const images *held_out, double *accuracy,
                          gloo_error *error) {
  int64_t right = 0;
  for (size_t i = (size_t)t->rank; i < held_out->count; i += (size_t)t->ranks) {
    const image *one = &held_out->list[i];
    if (mlp_classify(t->weights, one) == one->label) right++;
  }
  gloo_status status = gloo_allreduce(t->context, GLOO_IN_PLACE, &right, 1,
                                      GLOO_INT64, GLOO_SUM, NULL, error);
  *accuracy = (double)right / (double)held_out->count;
  return status;
}
