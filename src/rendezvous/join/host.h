/* Identifies this host and its address on the route to another. */
#ifndef GLI_RENDEZVOUS_JOIN_HOST_H
#define GLI_RENDEZVOUS_JOIN_HOST_H

#include <stdint.h>

#include "gloo_c/status.h"

/* A number that the processes of one running system share. */
uint64_t gli_host_system(void);

/* A number that stands for this rank's host in plans: ranks have the same when
 * they share a host. `id` is what the user says (NULL: the environment variable
 * GLOO_HOST_ID, if it is set): the same text, the same host. Otherwise, for a
 * transport ("auto", "shm") that can use shared memory, it is the same where
 * shared memory can connect two ranks: the same running system, network
 * namespace and user. For others, the same system and network namespace.
 * GLOO_ERR_INVALID when the text is empty, too long or not printable. */
gloo_status gli_host_key(const char *id, const char *transport, uint64_t *key,
                         gloo_error *error);

/* The address of this host from which `host`, a name or figures, would be
 * reached, in figures; resolves it, sends nothing. A name that is not known, or
 * a network that is not there, may come: it tries again until the timeout. ""
 * where it is this host's own name, and to it alone means loopback. */
enum { GLI_TOWARDS_BYTES = 64 };
gloo_status gli_host_towards(const char *host, int64_t timeout_ns,
                             char text[GLI_TOWARDS_BYTES], gloo_error *error);

#endif
