#include "engine/state/bell.h"

bool gli_bell_init(gli_bell *bell) {
  bell->rang = false;
  if (uv_mutex_init(&bell->lock) != 0) return false;
  if (uv_cond_init(&bell->ringing) == 0) return true;
  uv_mutex_destroy(&bell->lock);
  return false;
}

void gli_bell_destroy(gli_bell *bell) {
  uv_cond_destroy(&bell->ringing);
  uv_mutex_destroy(&bell->lock);
}

void gli_bell_ring(gli_bell *bell) {
  uv_mutex_lock(&bell->lock);
  bell->rang = true;
  uv_cond_signal(&bell->ringing);
  uv_mutex_unlock(&bell->lock);
}

void gli_bell_wait(gli_bell *bell, uint64_t limit_ns) {
  uv_mutex_lock(&bell->lock);
  if (!bell->rang)
    (void)uv_cond_timedwait(&bell->ringing, &bell->lock, limit_ns);
  bell->rang = false;
  uv_mutex_unlock(&bell->lock);
}
