/* Resolution of host names within a time limit, and retries of operations that
 * may succeed a little later. */
#ifndef GLI_NET_LOOKUP_H
#define GLI_NET_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* ---- one look-up --------------------------------------------------------- */

/* Resolves `host` to all its addresses, for sockets of `type`; `port` is
 * numeric, and freeaddrinfo frees `list`. Returns within the timeout, which is
 * at least 200 ms; below 0 means no limit. The system's resolver can take
 * minutes and cannot be stopped, so it runs in a detached thread, which is
 * abandoned at the timeout and ends, with its descriptors, when the resolver
 * returns. A numeric address needs no thread. If no thread can be created, the
 * look-up has no time limit.
 *
 * GLOO_ERR_ADDRESS: "host 'x' does not resolve: ..."; GLOO_ERR_IO,
 * GLOO_ERR_NO_MEMORY: a local resource ran out. `what` begins the sentence:
 * "the TCP store's host". */
gloo_status gli_look_up(const char *what, const char *host, const char *port,
                        int type, int64_t timeout_ns, struct addrinfo **list,
                        gloo_error *error);

/* ---- trying again -------------------------------------------------------- */

/* State of retries, for names that do not resolve yet, routes that are not up
 * yet, and servers that do not listen yet. The pauses start short, so that two
 * jobs that start on one port both detect each other. */
typedef struct gli_retry {
  uint64_t began_ns, deadline_ns;
  unsigned pause_ms;
  bool told;
} gli_retry;

/* Starts the time limit; `timeout_ns` below 0 means none. */
gli_retry gli_retry_begin(int64_t timeout_ns);

/* Returns the remaining time: 0 if none is left, -1 if there is no limit. */
int64_t gli_retry_left(const gli_retry *retry);

/* Time after which a wait is logged. */
#define GLI_LONG_WAIT_NS INT64_C(3000000000)
/* Returns true after that time without success, until gli_retry_tell has logged
 * the cause and the remaining time. */
bool gli_retry_is_long(const gli_retry *retry);
void gli_retry_tell(gli_retry *retry, const gloo_error *cause);

/* Pauses after a failed attempt, and logs the cause of a long wait. Returns
 * false, without a pause, after the deadline. */
bool gli_retry_pause(gli_retry *retry, const gloo_error *cause);

/* Repeats the look-up until it succeeds or the time limit expires. */
gloo_status gli_look_up_patiently(const char *what, const char *host,
                                  const char *port, int type, gli_retry *retry,
                                  struct addrinfo **list, gloo_error *error);

#endif
