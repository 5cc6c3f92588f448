#include "plan/costs.h"

#include "core/bytes.h"

/* Shared memory and TCP within a host: measured on a virtual machine with 2
 * cores. Network: 16 Gbit/s. */
const gli_costs gli_costs_estimate = {.link = {[GLI_LINK_SHM] = {400, 125},
                                               [GLI_LINK_TCP] = {6000, 200},
                                               [GLI_LINK_FAR] = {16000, 500}},
                                      .gamma_ps = 32};

enum { VERSION = 1 };

const char *gli_link_kind_name(gli_link_kind kind) {
  static const char *const names[] = {"shm", "tcp", "far"};
  return (unsigned)kind < GLI_LINK_KINDS ? names[kind] : "?";
}

static uint32_t costs_step(uint32_t estimate, int steps) {
  return steps < 0 ? estimate >> -2 * steps : estimate << 2 * steps;
}

/* Rounds to the estimate times a power of 4 from -1 to `most`. */
static uint32_t costs_snap(uint64_t measured, uint32_t estimate, int most) {
  int steps = -1;
  while (steps < most && measured > 2 * (uint64_t)costs_step(estimate, steps)) {
    steps++;
  }
  return costs_step(estimate, steps);
}

gli_link_cost gli_costs_snap_link(gli_link_kind kind, uint64_t alpha_ns,
                                  uint64_t beta_ps) {
  const gli_link_cost *estimate = &gli_costs_estimate.link[kind];
  int most = kind == GLI_LINK_FAR ? 3 : 1;
  return (gli_link_cost){costs_snap(alpha_ns, estimate->alpha_ns, most),
                         costs_snap(beta_ps, estimate->beta_ps, most)};
}

uint32_t gli_costs_snap_gamma(uint64_t gamma_ps) {
  return costs_snap(gamma_ps, gli_costs_estimate.gamma_ps, 1);
}

/* ---- as a list of figures ------------------------------------------------ */

enum { FIGURES = 2 * GLI_LINK_KINDS + 1 };

static void costs_list(const gli_costs *costs, uint32_t figures[FIGURES]) {
  for (int i = 0; i < GLI_LINK_KINDS; i++) {
    figures[2 * i] = costs->link[i].alpha_ns;
    figures[2 * i + 1] = costs->link[i].beta_ps;
  }
  figures[2 * GLI_LINK_KINDS] = costs->gamma_ps;
}

/* FNV-1a (Fowler, Noll, Vo, 1991) over whole figures. */
uint64_t gli_costs_hash(const gli_costs *costs) {
  uint32_t figures[FIGURES];
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  costs_list(costs, figures);
  for (int i = 0; i < FIGURES; i++) {
    hash = (hash ^ figures[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

void gli_costs_encode(const gli_costs *costs, uint8_t out[GLI_COSTS_BYTES]) {
  uint32_t figures[FIGURES];
  costs_list(costs, figures);
  gli_put_u32(out, VERSION);
  for (int i = 0; i < FIGURES; i++) gli_put_u32(out + 4 + 4 * i, figures[i]);
}

_Static_assert(GLI_COSTS_BYTES == 4 + 4 * FIGURES, "version and figures");

bool gli_costs_decode(const uint8_t in[GLI_COSTS_BYTES], gli_costs *costs) {
  if (gli_get_u32(in) != VERSION) return false;
  gli_costs got;
  for (int i = 0; i < GLI_LINK_KINDS; i++) {
    uint32_t alpha_ns = gli_get_u32(in + 4 + 8 * i);
    uint32_t beta_ps = gli_get_u32(in + 8 + 8 * i);
    got.link[i] = gli_costs_snap_link((gli_link_kind)i, alpha_ns, beta_ps);
    if (got.link[i].alpha_ns != alpha_ns) return false;
    if (got.link[i].beta_ps != beta_ps) return false;
  }
  uint32_t gamma_ps = gli_get_u32(in + 4 + 8 * GLI_LINK_KINDS);
  got.gamma_ps = gli_costs_snap_gamma(gamma_ps);
  if (got.gamma_ps != gamma_ps) return false;
  *costs = got;
  return true;
}
