/* Blocks that lie apart in memory of the caller's: the plan runs on one buffer,
 * which they are copied to before it, and copied from after it. */
#include "engine/memory/memory.h"
#include "kernels/copy.h"

void gli_staging_begin(const gli_staging *s) {
  for (size_t i = 0; i < s->n_before; i++) {
    gli_copy_bytes(s->pieces[i].to, s->pieces[i].from, s->pieces[i].bytes);
  }
}

void gli_staging_end(const gli_staging *s) {
  const gli_piece *after = s->pieces + s->n_before;
  for (size_t i = 0; i < s->n_after; i++) {
    gli_copy_bytes(after[i].to, after[i].from, after[i].bytes);
  }
}
