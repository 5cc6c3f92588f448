#include "transport_shm/shm_ring.h"

#include <uv.h>

#include "kernels/copy.h"
#include "kernels/reduce.h"

static const gli_store_bars LONG = {.to_nontemporal = 6, .to_cache = 4};
static const gli_store_bars SHORT = {.to_nontemporal = 4, .to_cache = 3};

void gli_shm_copier_learn(gli_store_policy *copier, bool nontemporal,
                          uint64_t ns, size_t bytes) {
  gli_store_policy_learn(copier,
                         bytes >= GLI_SHM_NONTEMPORAL_LONG ? LONG : SHORT,
                         nontemporal, ns, bytes);
}

static void shm_copy_copy(bool nontemporal, void *dst, const void *src,
                          size_t bytes) {
  if (nontemporal)
    gli_copy_nontemporal(dst, src, bytes);
  else
    gli_copy_bytes(dst, src, bytes);
}

void gli_shm_copy(gli_store_policy *copier, void *dst, const void *src,
                  size_t bytes) {
  gli_store_way way = gli_store_policy_next(copier);
  if (!way.timed) {
    shm_copy_copy(way.nontemporal, dst, src, bytes);
    return;
  }
  /* A trial of cached stores in a long chunk covers only its beginning. */
  size_t timed = bytes;
  if (way.tried && !way.nontemporal && bytes > GLI_SHM_NONTEMPORAL_LONG)
    timed = GLI_SHM_NONTEMPORAL_LONG;
  uint64_t begin_ns = uv_hrtime();
  shm_copy_copy(way.nontemporal, dst, src, timed);
  gli_shm_copier_learn(copier, way.nontemporal, uv_hrtime() - begin_ns, timed);
  if (timed < bytes)
    shm_copy_copy(true, (char *)dst + timed, (const char *)src + timed,
                  bytes - timed);
}
