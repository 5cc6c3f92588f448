/* What messages and reductions cost: the alpha, beta and gamma that choices of
 * algorithms go by, for each kind of link between two ranks.
 *
 * Only coarse differences count. A measured figure is kept as the estimate
 * times a power of 4, the nearest one: figures within half and twice the
 * estimate are the estimate, so that the same machine leads to the same choices
 * from one run to the next. Within a host, where machines differ less than the
 * moments at which they are measured, the power is at most 1; networks may be
 * 64 times as slow as the estimate. */
#ifndef GLI_PLAN_COSTS_H
#define GLI_PLAN_COSTS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gli_link_kind {
  GLI_LINK_SHM, /* within a host, where ranks can share memory */
  GLI_LINK_TCP, /* within a host, where they cannot */
  GLI_LINK_FAR, /* between hosts */
  GLI_LINK_KINDS
} gli_link_kind;

typedef struct gli_link_cost {
  uint32_t alpha_ns; /* of a short message, from one rank to another */
  uint32_t beta_ps;  /* of each byte of a long one */
} gli_link_cost;

typedef struct gli_costs {
  gli_link_cost link[GLI_LINK_KINDS];
  uint32_t gamma_ps; /* of each byte that a reduction adds up */
} gli_costs;

/* Where nothing was measured. */
extern const gli_costs gli_costs_estimate;

/* "shm", "tcp", "far" */
const char *gli_link_kind_name(gli_link_kind kind);

/* Measured figures as such a table may hold them. */
gli_link_cost gli_costs_snap_link(gli_link_kind kind, uint64_t alpha_ns,
                                  uint64_t beta_ps);
uint32_t gli_costs_snap_gamma(uint64_t gamma_ps);

uint64_t gli_costs_hash(const gli_costs *costs);

/* As rank 0 sends it to the others. */
#define GLI_COSTS_BYTES 32
void gli_costs_encode(const gli_costs *costs, uint8_t out[GLI_COSTS_BYTES]);
/* False when a figure is none that settling gives. */
bool gli_costs_decode(const uint8_t in[GLI_COSTS_BYTES], gli_costs *costs);

#endif
