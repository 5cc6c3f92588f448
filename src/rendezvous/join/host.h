/* The identity of this host, and its address on the route to another host. */
#ifndef GLI_RENDEZVOUS_JOIN_HOST_H
#define GLI_RENDEZVOUS_JOIN_HOST_H

#include <stdint.h>

#include "gloo_c/status.h"
#include "net/endpoint.h"

/* Returns a number that the processes of one running system share. */
uint64_t gli_host_system(void);

/* Computes the key of this rank's host in plans: ranks of one host have the
 * same key. `id` is given by the user, NULL for the environment variable
 * GLOO_HOST_ID; ranks with the same text share a host. Without a text, and for
 * a transport that can use shared memory ("auto", "shm"), ranks share a host if
 * shared memory can connect them: same running system, network namespace and
 * user. For other transports they need the same system and network namespace.
 * GLOO_ERR_INVALID if the text is empty, too long or not printable. */
gloo_status gli_host_key(const char *id, const char *transport, uint64_t *key,
                         gloo_error *error);

/* Gets the numeric address of this host on the route to `host`, a name or a
 * numeric address. It resolves the name and sends nothing. It retries an
 * unknown name or a missing network until the timeout, as either may appear. ""
 * if `host` is this host's own name and resolves to loopback here only. */
enum { GLI_TOWARDS_BYTES = GLI_ENDPOINT_TEXT_BYTES };
gloo_status gli_host_towards(const char *host, int64_t timeout_ns,
                             char text[GLI_TOWARDS_BYTES], gloo_error *error);

#endif
