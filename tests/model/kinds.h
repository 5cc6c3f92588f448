/* Kinds of locations, for planted faults. */
#ifndef GLI_TESTS_MODEL_KINDS_H
#define GLI_TESTS_MODEL_KINDS_H

enum {
  KIND_SEQUENCE = 1,
  KIND_SLOTS_TAKEN,
  KIND_BYTES_TAKEN,
  KIND_WANTS,
  KIND_ASLEEP,
  KIND_SLEEPERS,
  KIND_REVOKED,
  KIND_OTHER
};

#endif
