/* Order from data: which steps must wait for which. */
#ifndef GLI_PLAN_DEPEND_H
#define GLI_PLAN_DEPEND_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/plan.h"

typedef struct gli_edge {
  uint32_t from, to; /* step `to` waits for step `from` */
} gli_edge;

/* A range that a step reads or writes. */
typedef struct gli_access {
  uint64_t offset, bytes;
  uint8_t buffer;
  bool writes;
} gli_access;

/* The ranges of a step, at most this many; without the blocks of a reduction of
 * several, which are in SCRATCH. Reads come before writes. */
#define GLI_ACCESSES 4
int gli_depend_accesses(const gli_step *step, gli_access out[GLI_ACCESSES]);

/* Memory of the pass, kept from one call to the next. Zero to begin with. */
typedef struct gli_depend {
  gli_edge *edges; /* of the last call: ascending by `to`, none twice */
  size_t n_edges;
  size_t edge_capacity;
  void *arena;
  size_t arena_bytes;
  uint32_t *readers;
  size_t n_readers, reader_capacity;
} gli_depend;

/* Derive the edges between `n` steps from the ranges they share: a step waits
 * for those before it that wrote what it reads (or overwrites), and for those
 * that read what it overwrites, and a send for those in its lane. Edges that
 * others imply may be left out. Inputs order nothing, for they are not written,
 * unless they are `copied` by steps of the plan. False when out of memory.
 * Cost: sorting the ends of the ranges, then one visit per step and piece. */
bool gli_depend_derive(gli_depend *d, const gli_step *steps, uint32_t n,
                       bool copied);
void gli_depend_free(gli_depend *d);

#endif
