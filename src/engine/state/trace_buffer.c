#include "engine/state/trace_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "core/aligned.h"
#include "core/ticks.h"

gli_trace *gli_trace_new(uint64_t kept) {
  uint64_t room = GLI_TRACE_LEAST;
  while (room < kept && room < GLI_TRACE_MOST) room *= 2;
  size_t bytes = sizeof(gli_trace) + (size_t)room * sizeof(gli_trace_record);
  gli_trace *trace = gli_aligned_alloc(GLI_TRACE_LINE, bytes);
  if (trace == NULL) return NULL;
  memset(trace, 0, sizeof *trace); /* records are written on use */
  trace->mask = room - 1;
  trace->kept = kept < room ? kept : room;
  trace->late = (int64_t)gli_trace_late_ticks();
  trace->born = gli_moment_now();
  return trace;
}

void gli_trace_free(gli_trace *trace) {
  gli_aligned_free(trace);
}

const gli_trace_record *gli_trace_last(const gli_trace *trace, uint64_t ago) {
  if (ago >= trace->n || ago > trace->mask) return NULL;
  return &trace->records[(trace->n - 1 - ago) & trace->mask];
}

void gli_trace_signature(const gli_trace_record *record,
                         gli_header *signature) {
  const gli_trace_about *a = &record->about;
  *signature = (gli_header){.tuning = a->tuning,
                            .collective = a->collective,
                            .dtype = a->dtype,
                            .op = a->op,
                            .algorithm = a->algorithm,
                            .tag = a->tag,
                            .root = a->root,
                            .operation = record->operation,
                            .count = a->count};
}

/* ---- totals -------------------------------------------------------------- */

#define LATE_NS UINT64_C(50000)

gli_totals *gli_totals_new(uint32_t size) {
  gli_totals *totals;
  uint64_t bytes = sizeof *totals + (uint64_t)size * sizeof totals->peers[0];
  return bytes <= SIZE_MAX ? calloc(1, (size_t)bytes) : NULL;
}

uint64_t gli_trace_late_ticks(void) {
  return gli_ticks_about(LATE_NS);
}
