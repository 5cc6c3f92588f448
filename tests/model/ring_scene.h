/* A sender and a receiver that use only a ring. */
#ifndef GLI_TESTS_MODEL_RING_SCENE_H
#define GLI_TESTS_MODEL_RING_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "messages.h"

typedef struct ring_script {
  const char *name;
  uint32_t data_bytes, chunk;
  uint32_t first; /* records that have passed before */
  int n, cut;     /* message `cut` ends early when room runs out; -1: none */
  bool early;     /* a fault: the receiver gives room back before it reads */
  uint32_t lengths[MESSAGES_MAX];
} ring_script;

void ring_scene_set_up(const ring_script *script);

#endif
