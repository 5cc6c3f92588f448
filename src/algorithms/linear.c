/* Scans along a chain of ranks. */
#include "plan/builder.h"

/* ---- exscan -------------------------------------------------------------- */

/* Exclusive scan, linear: from rank to rank.
 *
 * Wins: long vectors: cut into segments they flow along the chain of ranks, and
 * every rank sends and adds the vector once.
 * Cost for P ranks and m bytes: P-1 rounds; every rank but the last sends m
 * bytes.
 * Source: folklore; the definition of MPI_Exscan.
 *
 * P = 4, sum that arrives at each rank, which is its result:
 *
 *   rank     0   1   2     3
 *                0   0+1   0+1+2
 */

uint32_t gli_exscan_linear_rounds(uint32_t size) {
  return size - 1;
}

uint64_t gli_exscan_linear_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_exscan_linear(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_own(p, GLI_IN), out = gli_own(p, GLI_OUT);
  bool last = p->rank + 1 == p->size;
  if (p->rank == 0) {
    if (!last) gli_send(b, 1, in);
    return;
  }
  gli_range before = out; /* in place, OUT still holds the input */
  if (p->in_place && !last) before = gli_scratch(b, in.bytes);
  gli_recv(b, p->rank - 1, before);
  if (last) return;
  gli_range sum = gli_scratch(b, in.bytes);
  gli_reduce(b, before, in, sum);
  gli_send(b, p->rank + 1, sum);
  gli_copy(b, before, out);
}

/* ---- scan ---------------------------------------------------------------- */

/* Scan, linear: from rank to rank.
 *
 * Wins: long vectors: cut into segments they flow along the chain of ranks, and
 * every rank sends and adds the vector once.
 * Cost for P ranks and m bytes: P-1 rounds; every rank but the last sends m
 * bytes.
 * Source: folklore; the definition of MPI_Scan.
 *
 * P = 4, sum that arrives at each rank:
 *
 *   rank     0   1   2     3
 *                0   0+1   0+1+2     then its own input is added
 */

uint32_t gli_scan_linear_rounds(uint32_t size) {
  return size - 1;
}

uint64_t gli_scan_linear_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_scan_linear(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_own(p, GLI_IN), out = gli_own(p, GLI_OUT);
  if (p->rank > 0) gli_recv_reduce(b, p->rank - 1, in, out, true);
  if (p->rank + 1 < p->size) gli_send(b, p->rank + 1, p->rank == 0 ? in : out);
  if (p->rank == 0) gli_copy(b, in, out);
}
