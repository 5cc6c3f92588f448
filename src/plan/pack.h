/* Long lists of steps in little memory, to be read once from the start.
 *
 * Long plans are regular: each step continues a straight line through one of
 * the steps just before it (the same kind, the next slot, the next block). A
 * packed list holds a step where a line begins, and how far the line goes. A
 * ring of 10,000 ranks has 40,000 steps per rank and packs into a dozen of
 * lines. */
#ifndef GLI_PLAN_PACK_H
#define GLI_PLAN_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/plan.h"

#define GLI_PACK_PERIODS 4 /* lines may pass through every 1st .. 4th step */

typedef struct gli_pack_line {
  gli_step step;   /* as it is */
  uint32_t follow; /* number of steps behind it that can be told */
  uint32_t period; /* from the steps `period` and 2 * period before each */
} gli_pack_line;

typedef struct gli_pack {
  gli_pack_line *lines;
  size_t n_lines, capacity;
  /* where reading is */
  size_t line;
  uint32_t followed;
  uint64_t n_read;
  gli_step last[2 * GLI_PACK_PERIODS]; /* a ring of the last ones */
} gli_pack;

/* Packs `n` steps in place of the previous ones. Returns false if out of
 * memory. */
bool gli_pack_fill(gli_pack *pack, const gli_step *steps, size_t n);

/* Take the next at most `n` steps; returns how many there were. */
size_t gli_pack_take(gli_pack *pack, gli_step *steps, size_t n);
void gli_pack_free(gli_pack *pack);

#endif
