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
  /* What is read, thread by thread, then the last values of x, y, z. */
  const char *outcome;
  bool allowed;
} litmus_test;

/* The outcome is a fault (MODEL_WRONG) of this scene. */
void litmus_set_up(const litmus_test *test);

#endif
