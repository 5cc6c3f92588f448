/* Which rank of which job this process is, from what the launcher of the job
 * put into the environment. */
#ifndef GLI_RENDEZVOUS_LAUNCH_H
#define GLI_RENDEZVOUS_LAUNCH_H

#include <stdint.h>

#include "core/error.h"
#include "rendezvous/store.h"

#define GLI_HOST_MAX ((size_t)255)

typedef struct gli_launch {
  const char
      *launcher; /* which one was recognised; "none" for one rank alone */
  uint32_t rank, size;
  char host[GLI_HOST_MAX + 1]; /* where rank 0 serves the store; "" if alone */
  uint16_t port;
  char job[GLI_JOB_MAX + 1];
  uint64_t epoch;
} gli_launch;

/* Recognised, in this order:
 *   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun, `gloo run`); all four
 *   none of these: a job of one rank
 * An empty variable counts as one that is not set.
 * GLOO_JOB_ID and GLOO_EPOCH (may be absent: "" and 0) go with each. Without
 * the first, the job is what torchrun calls it in TORCHELASTIC_RUN_ID.
 * GLOO_ERR_INVALID names the variable, its value and what is expected, or those
 * that are missing. `out` is set on success only. */
gloo_status gli_launch_read(gli_launch *out, gloo_error *error);

#endif
