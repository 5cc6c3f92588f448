/* Names of hosts, within a time; and trying again what may work a little later.
 */
#ifndef GLI_NET_LOOKUP_H
#define GLI_NET_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* ---- one look-up --------------------------------------------------------- */

/* All addresses of `host`, for sockets of `type`, with a port in figures;
 * `list` is for freeaddrinfo. Ends in time, but has a fifth of a second in any
 * case (below 0: no limit). The system's resolver can take minutes and cannot
 * be stopped, so it runs in a thread of its own, which is left alone when the
 * time is over, and ends, with its descriptors, when the resolver does. An
 * address in figures needs neither. Without a thread to be had, the look-up
 * takes as long as it takes.
 *
 * GLOO_ERR_ADDRESS: "host 'x' does not resolve: ..."; GLOO_ERR_IO,
 * GLOO_ERR_NO_MEMORY: this process lacks what it takes. `what` is how the
 * sentence begins: "the TCP store's host". */
gloo_status gli_look_up(const char *what, const char *host, const char *port,
                        int type, int64_t timeout_ns, struct addrinfo **list,
                        gloo_error *error);

/* ---- trying again -------------------------------------------------------- */

/* Names that are not known yet, routes that are not up, servers that do not
 * listen yet. The pauses begin short: of two jobs that start at one port, both
 * then see that the other is there. */
typedef struct gli_retry {
  uint64_t began_ns, deadline_ns;
  unsigned pause_ms;
  bool told;
} gli_retry;

/* `timeout_ns`: below 0: for ever. */
gli_retry gli_retry_begin(int64_t timeout_ns);

/* What is left of it; 0: nothing, -1: there is no limit. */
int64_t gli_retry_left(const gli_retry *retry);

/* Wait for a while after an attempt failed. False: the time is over. `cause`
 * (may be NULL) is logged the first time. */
bool gli_retry_pause(gli_retry *retry, const gloo_error *cause);

/* Look up again and again. */
gloo_status gli_look_up_patiently(const char *what, const char *host,
                                  const char *port, int type, gli_retry *retry,
                                  struct addrinfo **list, gloo_error *error);

#endif
