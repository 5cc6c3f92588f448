/* The TCP store, made in ways that only the library needs. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_H
#define GLI_RENDEZVOUS_STORE_TCP_H

#include <sys/socket.h>

#include "gloo_c/store.h"

/* The client of a server at the other end of a socket, which it takes, also on
 * failure; further connections go to `address`. Of the options job, epoch and
 * timeout_ns count. GLOO_ERR_PEER, GLOO_ERR_PROTOCOL, GLOO_ERR_STALE: what is
 * there is no server, or not of this job. */
gloo_status gli_store_tcp_adopt(int fd, const struct sockaddr_storage *address,
                                const gloo_store_tcp_options *options,
                                gloo_store **store, gloo_error *error);

#endif
