/* Order from data: the dependencies between steps. */
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

/* Returns the ranges of a step, at most GLI_ACCESSES, without the blocks of
 * REDUCE_ALL and REDUCE_MANY, which are in SCRATCH. Reads come before writes.
 */
#define GLI_ACCESSES 4
int gli_depend_accesses(const gli_step *step, gli_access out[GLI_ACCESSES]);

/* Memory of the pass, reused by the next call. Must be zeroed at first. */
typedef struct gli_depend {
  gli_edge *edges; /* edges, ascending by `to`, without duplicates */
  size_t n_edges;
  size_t edge_capacity;
  void *arena;
  size_t arena_bytes;
  uint32_t *readers;
  size_t n_readers, reader_capacity;
} gli_depend;

/* Derives the edges between `n` steps from the ranges that they share. A step
 * waits for earlier steps that wrote what it reads or overwrites, and for
 * earlier steps that read what it overwrites. A send also waits for the earlier
 * messages of its lane. Edges that others imply may be missing. Inputs order
 * nothing, because no step writes them, unless steps of the plan copy them in
 * (`copied`). Returns false if out of memory. Cost: sorting the ends of the
 * ranges, then one visit per step and piece. */
bool gli_depend_derive(gli_depend *d, const gli_step *steps, uint32_t n,
                       bool copied);
void gli_depend_free(gli_depend *d);

#endif
