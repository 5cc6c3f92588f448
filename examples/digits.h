/* Data-parallel training on handwritten digits: the parts.
 *
 * Every rank holds the whole model and a part of the images. Per step each
 * computes the gradient of its own few images, gloo_allreduce adds them up, and
 * all ranks make the same step, so that their models stay the same. */
#ifndef DIGITS_H
#define DIGITS_H

#include <gloo_c/gloo_c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- digits_data.c ------------------------------------------------------- */

enum { PIXELS = 64, CLASSES = 10 };

typedef struct image {
  float pixels[PIXELS]; /* 0 to 1 */
  int label;
} image;

typedef struct images {
  image *list;
  size_t count;
} images;

/* Read a file of lines "64 pixels,label". Prints what is wrong and returns
 * false when it cannot be used. Release with free(all->list). */
bool images_load(const char *path, images *all);

/* The file that the user names, or data/digits.csv next to `program`. */
void images_find(const char *named, const char *program, char *path,
                 size_t bytes);

/* A random sequence (splitmix64) that is the same everywhere for one seed. */
uint64_t random_next(uint64_t *state);
/* From -1 to 1. */
float random_uniform(uint64_t *state);
void random_shuffle(uint64_t *state, size_t *list, size_t count);

/* ---- digits_mlp.c -------------------------------------------------------- */

enum { HIDDEN = 64, WEIGHTS = HIDDEN * (PIXELS + 1) + CLASSES * (HIDDEN + 1) };

/* A multilayer perceptron, 64 inputs, HIDDEN tanh units, 10 outputs (softmax).
 * Its weights, and their gradients, are one array. */
void mlp_init(float weights[WEIGHTS], uint64_t *random);

/* Add the gradient of the loss on one image to `gradient`; returns the loss
 * (cross entropy). *right: was it classified correctly? */
float mlp_learn(const float weights[WEIGHTS], const image *one,
                float gradient[WEIGHTS], bool *right);

int mlp_classify(const float weights[WEIGHTS], const image *one);

/* ---- digits_train.c ------------------------------------------------------ */

typedef struct trainer {
  gloo_context *context;
  int rank, ranks;
  images mine;     /* what this rank trains on */
  size_t n_train;  /* of all ranks */
  size_t per_step; /* images of one rank in one step */
  size_t steps;    /* per epoch, the same on all ranks */
  uint64_t random;
  float *weights, *velocity; /* [WEIGHTS] */
  float *sums;               /* [WEIGHTS + 3]: gradient, loss, right, images */
} trainer;

typedef struct epoch_result {
  double loss, accuracy;         /* on the training images of all ranks */
  double seconds, communicating; /* of this rank */
} epoch_result;

enum { EPOCHS = 25 };
#define FIRST_RATE 0.1f
#define RATE_DECAY 0.93f
#define REQUIRED_ACCURACY 0.95

/* Every fifth image is held out; of the others this rank takes every P-th. And
 * how many of these make a step. False, with a message: out of memory. */
bool trainer_split(trainer *t, const images *all, images *held_out);

gloo_status train_epoch(trainer *t, float rate, epoch_result *result,
                        gloo_error *error);
/* The share of `held_out` that is classified correctly; each rank tries its
 * part. */
gloo_status test_accuracy(trainer *t, const images *held_out, double *accuracy,
                          gloo_error *error);

/* End the program with the error's message unless status is GLOO_OK. */
void check(gloo_status status, const gloo_error *error);

#endif
