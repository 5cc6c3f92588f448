/* A bell: a thread sleeps until one of several requests has ended, on devices
 * with a lock each. */
#ifndef GLI_ENGINE_STATE_BELL_H
#define GLI_ENGINE_STATE_BELL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

typedef struct gli_bell {
  uv_mutex_t lock;
  uv_cond_t ringing;
  bool rang;
} gli_bell;

/* False: out of memory or locks. */
bool gli_bell_init(gli_bell *bell);
void gli_bell_destroy(gli_bell *bell);
void gli_bell_ring(gli_bell *bell);
/* Waits until the bell rings, or has rung since the last wait, or for at most
 * the limit. */
void gli_bell_wait(gli_bell *bell, uint64_t limit_ns);

#endif
