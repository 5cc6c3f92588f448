/* Data-parallel training on handwritten digits: the parts.
 *
 * Every rank holds the whole model and a part of the images. In each step a
 * rank computes the gradient of some of its images, gloo_allreduce adds the
 * gradients up, and all ranks make the same step, so that their models stay the
 * same. */
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

/* Reads a file of lines "64 pixels,label". Prints the problem and returns false
 * if it cannot be used. Release with free(all->list). */
bool images_load(const char *path, images *all);

/* Chooses the file that the user names, or data/digits.csv next to
 * `program`. */
void images_find(const char *named, const char *program, char *path,
                 size_t bytes);

/* Returns the next number of a sequence (splitmix64) that is the same
 * everywhere for one seed. */
uint64_t random_next(uint64_t *state);
/* Returns a number from -1 to 1. */
float random_uniform(uint64_t *state);
void random_shuffle(uint64_t *state, size_t *list, size_t count);

/* ---- digits_mlp.c -------------------------------------------------------- */

enum { HIDDEN = 64, WEIGHTS = HIDDEN * (PIXELS + 1) + CLASSES * (HIDDEN + 1) };

/* A multilayer perceptron, 64 inputs, HIDDEN tanh units, 10 outputs (softmax).
 * Its weights, and their gradients, are one array. */
void mlp_init(float weights[WEIGHTS], uint64_t *random);

/* Adds the gradient of the loss on one image to `gradient`; returns the loss
 * (cross entropy). Sets *right if the image was classified correctly. */
float mlp_learn(const float weights[WEIGHTS], const image *one,
                float gradient[WEIGHTS], bool *right);

int mlp_classify(const float weights[WEIGHTS], const image *one);

/* ---- digits_train.c ------------------------------------------------------ */

typedef struct trainer {
  gloo_context *context;
  int rank, ranks;
  images mine;     /* training images of this rank */
  size_t n_train;  /* on all ranks */
  size_t per_step; /* images per rank and step */
  size_t steps;    /* per epoch, the same on all ranks */
  uint64_t random;
  float *weights, *velocity; /* [WEIGHTS] */
  float *sums;               /* [WEIGHTS + 3]: gradient, loss, right, images */
} trainer;

typedef struct epoch_result {
  double loss, accuracy;         /* on the training images of all ranks */
  double seconds, communicating; /* on this rank */
} epoch_result;

enum { EPOCHS = 25 };
#define FIRST_RATE 0.1f
#define RATE_DECAY 0.93f
#define REQUIRED_ACCURACY 0.95

/* Holds out every fifth image, gives this rank every P-th of the others, and
 * sets the images per step. Returns false, with a message, if memory runs
 * out. */
bool trainer_split(trainer *t, const images *all, images *held_out);

gloo_status train_epoch(trainer *t, float rate, epoch_result *result,
                        gloo_error *error);
/* Computes the fraction of `held_out` that is classified correctly; each rank
 * tests its part. */
gloo_status test_accuracy(trainer *t, const images *held_out, double *accuracy,
                          gloo_error *error);

/* Ends the program with the error's message unless status is GLOO_OK. */
void check(gloo_status status, const gloo_error *error);

#endif
