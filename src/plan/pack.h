/* A compact list of steps, to be read once from the start.
 *
 * Long plans are regular: each step extends a line through two recent steps
 * (the same kind, the next slot, the next block). A packed list holds the first
 * step of each line and the length of the line. A ring of 10,000 ranks has
 * 40,000 steps per rank and packs into a dozen lines. */
#ifndef GLI_PLAN_PACK_H
#define GLI_PLAN_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/plan.h"

#define GLI_PACK_PERIODS 4 /* lines may pass through every 1st to 4th step */

typedef struct gli_pack_line {
  gli_step step;   /* first step */
  uint32_t follow; /* number of steps after `step` that the line predicts */
  uint32_t period; /* predicted from the steps `period` and 2 * period before */
} gli_pack_line;

typedef struct gli_pack {
  gli_pack_line *lines;
  size_t n_lines, capacity;
  /* read position */
  size_t line;
  uint32_t followed;
  uint64_t n_read;
  gli_step last[2 * GLI_PACK_PERIODS]; /* ring buffer of the last steps */
} gli_pack;

/* Packs `n` steps in place of the previous ones. Returns false if out of
 * memory. */
bool gli_pack_fill(gli_pack *pack, const gli_step *steps, size_t n);

/* Reads the next steps, at most `n`; returns their number. */
size_t gli_pack_take(gli_pack *pack, gli_step *steps, size_t n);
void gli_pack_free(gli_pack *pack);

#endif
