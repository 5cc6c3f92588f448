/* The hosts of the ranks: everything that a plan may know about their
 * placement.
 *
 * Every rank has the same knowledge; otherwise plans would not match. It is
 * created once per context and never changes. */
#ifndef GLI_PLAN_HOSTS_H
#define GLI_PLAN_HOSTS_H

#include <stdint.h>

#include "gloo_c/status.h"

/* Hosts are numbered in the order of their lowest ranks, so rank 0 is on host
 * 0. The place of a rank is its number on its host, from 0, in ascending order.
 */
typedef struct gli_hosts {
  uint32_t size;        /* ranks */
  uint32_t n;           /* hosts */
  uint32_t least, most; /* the fewest and the most ranks on a host */
  /* Most ranks of one host that send to other hosts at the same time: if all
   * send to any rank (`crowd`), to the next rank (`leaving`). */
  uint32_t crowd, leaving;
  const uint32_t *of; /* [size] host of each rank */
  const uint32_t *place;
  const uint32_t *ranks; /* [size] ranks, sorted by host, then by place */
  const uint32_t *first; /* [n + 1] ranks[first[h]] is place 0 of host h */
  /* [least * n] the ranks with place i: leaders[i * n + h] is on host h. */
  const uint32_t *leaders;
  /* n ranks, each on its own host: one of `least` concurrent groups. */
  const struct gli_hosts *apart;
} gli_hosts;

/* Creates the table from one key per rank. Ranks share a host if their keys are
 * equal. Errors: GLOO_ERR_NO_MEMORY, GLOO_ERR_INVALID (no ranks). */
gloo_status gli_hosts_make(const uint64_t *keys, uint32_t size,
                           gli_hosts **hosts, gloo_error *error);
void gli_hosts_free(gli_hosts *hosts); /* NULL is allowed */

#endif
