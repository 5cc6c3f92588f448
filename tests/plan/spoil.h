/* Builds a plan with one spoilt step, as a mistake in an algorithm would. */
#ifndef GLI_TESTS_PLAN_SPOIL_H
#define GLI_TESTS_PLAN_SPOIL_H

#include "plan/plan.h"

typedef enum spoil_how {
  SPOIL_NOTHING,
  SPOIL_DROP,   /* leave the step out */
  SPOIL_TWICE,  /* do it twice */
  SPOIL_PEER,   /* talk to the next rank instead */
  SPOIL_BLOCK,  /* swap its ranges with those of step `other` */
  SPOIL_LENGTH, /* one element less */
  SPOIL_EARLY   /* do it before all others */
} spoil_how;

typedef struct spoil {
  gli_build_fn build;
  spoil_how how;
  uint32_t rank;
  size_t step, other;
} spoil;

/* Sets the fault of the next calls of spoil_build. */
void spoil_set(spoil what);

/* A gli_build_fn. */
void spoil_build(gli_builder *b, const gli_plan_params *p);

/* Returns the unspoilt plan of `rank`; free it with gli_plan_free. */
gli_plan *spoil_look(gli_build_fn build, gli_plan_params p, uint32_t rank);

#endif
