#include <math.h>

#include "digits.h"

/* The layout of the array of weights: each unit's weights, then its bias. */
enum { HIDDEN_ROW = PIXELS + 1, OUTPUT_ROW = HIDDEN + 1 };
enum { OUTPUTS_AT = HIDDEN * HIDDEN_ROW };

void mlp_init(float weights[WEIGHTS], uint64_t *random) {
  /* Glorot and Bengio 2010: keeps activations in the range of tanh. */
  float hidden = sqrtf(6.0f / (PIXELS + HIDDEN));
  float output = sqrtf(6.0f / (HIDDEN + CLASSES));
  for (size_t i = 0; i < WEIGHTS; i++) {
    weights[i] = random_uniform(random) * (i < OUTPUTS_AT ? hidden : output);
  }
}

static float dot(const float *row, const float *values, size_t count) {
  float sum = row[count]; /* the bias */
  for (size_t i = 0; i < count; i++) sum += row[i] * values[i];
  return sum;
}

/* Computes the activations of the hidden units in `hidden`, and the class
 * probabilities in `outputs`. */
static void forward(const float *weights, const float *pixels, float *hidden,
                    float *outputs) {
  for (size_t h = 0; h < HIDDEN; h++) {
    /* In double: rounded to float, all C libraries return the same. */
    hidden[h] =
        (float)tanh((double)dot(weights + h * HIDDEN_ROW, pixels, PIXELS));
  }
  float largest = -INFINITY, total = 0;
  for (size_t c = 0; c < CLASSES; c++) {
    outputs[c] = dot(weights + OUTPUTS_AT + c * OUTPUT_ROW, hidden, HIDDEN);
    if (outputs[c] > largest) largest = outputs[c];
  }
  for (size_t c = 0; c < CLASSES; c++) {
    outputs[c] = (float)exp((double)(outputs[c] - largest));
    total += outputs[c];
  }
  for (size_t c = 0; c < CLASSES; c++) outputs[c] /= total;
}

static int most_probable(const float *outputs) {
  size_t best = 0;
  for (size_t c = 1; c < CLASSES; c++) {
    if (outputs[c] > outputs[best]) best = c;
  }
  return (int)best;
}

float mlp_learn(const float weights[WEIGHTS], const image *one,
                float gradient[WEIGHTS], bool *right) {
  float hidden[HIDDEN], outputs[CLASSES], blame[HIDDEN] = {0};
  forward(weights, one->pixels, hidden, outputs);
  *right = most_probable(outputs) == one->label;
  float loss = -logf(fmaxf(outputs[one->label], 1e-12f));

  for (size_t c = 0; c < CLASSES; c++) {
    float error = outputs[c] - (c == (size_t)one->label ? 1.0f : 0.0f);
    const float *row = weights + OUTPUTS_AT + c * OUTPUT_ROW;
    float *slope = gradient + OUTPUTS_AT + c * OUTPUT_ROW;
    for (size_t h = 0; h < HIDDEN; h++) {
      slope[h] += error * hidden[h];
      blame[h] += error * row[h];
    }
    slope[HIDDEN] += error;
  }
  for (size_t h = 0; h < HIDDEN; h++) {
    float error = blame[h] * (1 - hidden[h] * hidden[h]);
    float *slope = gradient + h * HIDDEN_ROW;
    for (size_t i = 0; i < PIXELS; i++) slope[i] += error * one->pixels[i];
    slope[PIXELS] += error;
  }
  return loss;
}

int mlp_classify(const float weights[WEIGHTS], const image *one) {
  float hidden[HIDDEN], outputs[CLASSES];
  forward(weights, one->pixels, hidden, outputs);
  return most_probable(outputs);
}
