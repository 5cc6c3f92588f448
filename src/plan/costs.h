/* Costs of messages and reductions: the alpha, beta and gamma on which the
 * choice of algorithms depends. Alpha and beta are given per kind of link
 * between two ranks.
 *
 * Only coarse differences count. A measured figure is rounded to the estimate
 * times the nearest power of 4: figures between half and twice the estimate
 * become the estimate, so that the same machine makes the same choices in every
 * run. Within a host the power is at most 1, because machines differ less than
 * repeated measurements; networks may be 64 times as slow as the estimate. */
#ifndef GLI_PLAN_COSTS_H
#define GLI_PLAN_COSTS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gli_link_kind {
  GLI_LINK_SHM, /* within a host, with shared memory */
  GLI_LINK_TCP, /* within a host, without shared memory */
  GLI_LINK_FAR, /* between hosts */
  GLI_LINK_KINDS
} gli_link_kind;

typedef struct gli_link_cost {
  uint32_t alpha_ns; /* time of a short message between two ranks */
  uint32_t beta_ps;  /* time per byte of a long message */
} gli_link_cost;

typedef struct gli_costs {
  gli_link_cost link[GLI_LINK_KINDS];
  uint32_t gamma_ps; /* time per byte that a reduction adds up */
} gli_costs;

/* The costs if nothing was measured. */
extern const gli_costs gli_costs_estimate;

/* "shm", "tcp", "far" */
const char *gli_link_kind_name(gli_link_kind kind);

/* Rounds measured figures to values that a table may hold. */
gli_link_cost gli_costs_snap_link(gli_link_kind kind, uint64_t alpha_ns,
                                  uint64_t beta_ps);
uint32_t gli_costs_snap_gamma(uint64_t gamma_ps);

uint64_t gli_costs_hash(const gli_costs *costs);

/* The format in which rank 0 sends costs to the others. */
#define GLI_COSTS_BYTES 32
void gli_costs_encode(const gli_costs *costs, uint8_t out[GLI_COSTS_BYTES]);
/* Returns false if a figure is not a rounded value. */
bool gli_costs_decode(const uint8_t in[GLI_COSTS_BYTES], gli_costs *costs);

#endif
