#include "engine/state/totals.h"

#include <stdlib.h>

#include "core/ticks.h"

#define LATE_NS UINT64_C(50000)

gli_totals *gli_totals_new(uint32_t size) {
  gli_totals *totals;
  uint64_t bytes = sizeof *totals + (uint64_t)size * sizeof totals->peers[0];
  return bytes <= SIZE_MAX ? calloc(1, (size_t)bytes) : NULL;
}

uint64_t gli_tardy_ticks(void) {
  return gli_ticks_about(LATE_NS);
}
