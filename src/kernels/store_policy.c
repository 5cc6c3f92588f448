#include "kernels/store_policy.h"

/* Times one store in TIMED_EVERY, because timing reads the clock twice. */
enum { TIMED_EVERY = 8 };

/* Tries the other way soon, and then less and less often. */
enum { TRY_FIRST = 16, TRY_MOST = 256 };

enum { SMOOTHING = 4, OUTLIER = 4 };

static void store_policy_smooth(uint64_t *cost, uint64_t ns, size_t bytes) {
  const uint64_t most = (uint64_t)1 << 40; /* ns: 18 minutes */
  if (ns > most) ns = most;
  uint64_t sample = (ns << 20) / bytes + 1;
  /* Limits outliers: another thread may have run in between. */
  if (*cost != 0 && sample / OUTLIER > *cost) sample = *cost * OUTLIER;
  if (*cost == 0)
    *cost = sample;
  else
    *cost = *cost - *cost / SMOOTHING + sample / SMOOTHING + 1;
}

void gli_store_policy_learn(gli_store_policy *s, gli_store_bars bars,
                            bool nontemporal, uint64_t ns, size_t bytes) {
  store_policy_smooth(nontemporal ? &s->cost_nontemporal : &s->cost_cached, ns,
                      bytes);
  if (s->cost_nontemporal == 0 || s->cost_cached == 0) return;
  uint64_t halves = s->nontemporal ? bars.to_cache : bars.to_nontemporal;
  s->nontemporal = 2 * s->cost_cached / halves > s->cost_nontemporal;
}

static bool time_to_try(gli_store_policy *s) {
  if (s->try_period == 0) {
    s->try_period = TRY_FIRST;
    s->try_at = s->stores + TRY_FIRST;
  }
  if (s->stores != s->try_at) return false;
  if (s->try_period < TRY_MOST) s->try_period *= 2;
  s->try_at = s->stores + s->try_period;
  return true;
}

gli_store_way gli_store_policy_next(gli_store_policy *s) {
  s->stores++;
  bool tried = time_to_try(s);
  return (gli_store_way){.nontemporal = s->nontemporal != tried,
                         .tried = tried,
                         .timed = tried || s->stores % TIMED_EVERY == 0};
}
