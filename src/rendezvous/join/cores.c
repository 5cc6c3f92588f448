#include "rendezvous/join/cores.h"

#include <string.h>

#include "rendezvous/join/host.h"

void gli_cores_here(gli_cores *here) {
  here->system = gli_host_system();
  here->usable = gli_cpu_effective();
  gli_cpu_mask(here->mask);
}

bool gli_cores_equal(const gli_cores *a, const gli_cores *b) {
  return a->system == b->system && a->usable == b->usable &&
         memcmp(a->mask, b->mask, sizeof a->mask) == 0;
}

static uint32_t cores_count(const uint8_t *mask) {
  uint32_t n = 0;
  for (int i = 0; i < GLI_CPU_MASK_BYTES; i++)
    for (unsigned bits = mask[i]; bits != 0; bits &= bits - 1) n++;
  return n;
}

static bool is_known(const gli_cores *c) {
  static const uint8_t none[GLI_CPU_MASK_BYTES];
  return memcmp(c->mask, none, sizeof none) != 0;
}

/* cores_meets returns true if `c` may use a core of `mask`, and is_within if it
 * may use no other. An unknown set of cores counts as any set. */
static bool cores_meets(const gli_cores *c, const uint8_t *mask) {
  bool any = !is_known(c);
  for (int i = 0; i < GLI_CPU_MASK_BYTES; i++)
    any = any || (c->mask[i] & mask[i]) != 0;
  return any;
}

static bool is_within(const gli_cores *c, const uint8_t *mask) {
  int outside = 0;
  for (int i = 0; i < GLI_CPU_MASK_BYTES; i++) outside |= c->mask[i] & ~mask[i];
  return outside == 0;
}

/* Counts the ranks whose cores are all among those of this rank. */
static uint32_t cores_rivals(const gli_cores *of, uint32_t size,
                             uint32_t rank) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < size; i++) {
    if (of[i].system == of[rank].system && is_within(&of[i], of[rank].mask))
      n++;
  }
  return n;
}

/* Extends a mask by all masks that overlap it, directly or through others. */
static void cores_join(const gli_cores *of, uint32_t size, uint64_t system,
                       uint8_t *mask) {
  for (bool grew = true; grew;) {
    grew = false;
    for (uint32_t i = 0; i < size; i++) {
      if (of[i].system != system || !cores_meets(&of[i], mask)) continue;
      if (is_within(&of[i], mask)) continue;
      for (int k = 0; k < GLI_CPU_MASK_BYTES; k++) mask[k] |= of[i].mask[k];
      grew = true;
    }
  }
}

gli_sharing gli_cores_shared(const gli_cores *of, uint32_t size,
                             uint32_t rank) {
  const gli_cores *own = &of[rank];
  uint8_t mask[GLI_CPU_MASK_BYTES];
  memcpy(mask, own->mask, sizeof mask);
  cores_join(of, size, own->system, mask);
  gli_sharing s = {.ranks = 0, .cores = cores_count(mask)};
  for (uint32_t i = 0; i < size; i++) {
    if (of[i].system != own->system || !cores_meets(&of[i], mask)) continue;
    s.ranks++;
    /* A CPU quota is assumed to hold for all ranks together. */
    bool limited = !is_known(&of[i]) || of[i].usable < cores_count(of[i].mask);
    if (limited && (s.cores == 0 || of[i].usable < s.cores))
      s.cores = of[i].usable;
  }
  s.oversubscribed =
      s.ranks > s.cores || cores_rivals(of, size, rank) > own->usable;
  return s;
}

/* Returns true if each rank has one core, and at most half of the ranks start a
 * new one: all others have the core of the rank before. */
static bool are_pinned(const gli_cores *of, uint32_t size) {
  uint32_t firsts = 0;
  for (uint32_t i = 0; i < size; i++) {
    if (cores_count(of[i].mask) != 1) return false;
    if (i == 0 || !gli_cores_equal(&of[i], &of[i - 1])) firsts++;
  }
  return firsts <= size / 2;
}

gli_subscription gli_cores_subscription(const gli_cores *of, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) {
    /* Ranks mostly have the cores of the rank before. */
    if (i > 0 && gli_cores_equal(&of[i], &of[i - 1])) continue;
    if (!gli_cores_shared(of, size, i).oversubscribed) continue;
    return are_pinned(of, size) ? GLI_PINNED : GLI_OVERSUBSCRIBED;
  }
  return GLI_CORE_EACH;
}
