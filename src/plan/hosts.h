/* The hosts of ranks: all that a plan may know about their placement.
 *
 * Every rank has the same knowledge, or plans would not fit each other. It is
 * made once per context and never changes. */
#ifndef GLI_PLAN_HOSTS_H
#define GLI_PLAN_HOSTS_H

#include <stdint.h>

#include "gloo_c/status.h"

/* Hosts are numbered by their lowest ranks: rank 0 is on host 0. The ranks of a
 * host are counted from 0, upwards; this number is their place. */
typedef struct gli_hosts {
  uint32_t size;        /* ranks */
  uint32_t n;           /* hosts */
  uint32_t least, most; /* ranks on the host that has the fewest, the most */
  /* Ranks of one host that may talk to other hosts at the same time, at most:
   * when all talk to any rank, and when all talk to the next rank. */
  uint32_t crowd, leaving;
  const uint32_t *of; /* [size] host of each rank */
  const uint32_t *place;
  const uint32_t *ranks; /* [size] by host, then by place */
  const uint32_t *first; /* [n + 1] ranks[first[h]] is place 0 of host h */
  /* [least * n] the ranks with place i: leaders[i * n + h] is on host h. */
  const uint32_t *leaders;
  /* n ranks, each on a host of its own, among `least` such groups. */
  const struct gli_hosts *apart;
} gli_hosts;

/* From a number for each rank, equal for ranks that share a host and otherwise
 * of no meaning. Errors: GLOO_ERR_NO_MEMORY, GLOO_ERR_INVALID (no ranks). */
gloo_status gli_hosts_make(const uint64_t *keys, uint32_t size,
                           gli_hosts **hosts, gloo_error *error);
void gli_hosts_free(gli_hosts *hosts); /* NULL is allowed */

#endif
