#ifndef GLI_TESTS_MODEL_LITMUS_H
#define GLI_TESTS_MODEL_LITMUS_H

#include <stdbool.h>

typedef enum litmus_order {
  LITMUS_RELAXED,
  LITMUS_ACQ_REL,
  LITMUS_SEQ_CST
} litmus_order;

typedef struct litmus_test {
  const char *name;
  int threads;
  const char *steps[3];
  /* The values read, thread by thread, then the final values of x, y, z. */
  const char *outcome;
  bool allowed;
} litmus_test;

/* Sets up a scene in which the outcome is a fault (MODEL_WRONG). */
void litmus_set_up(const litmus_test *test);

#endif
