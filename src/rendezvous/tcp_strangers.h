/* Who connects to a TCP store's server, and how many of them there may be. With
 * the server's lock held. */
#ifndef GLI_RENDEZVOUS_TCP_STRANGERS_H
#define GLI_RENDEZVOUS_TCP_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>

#include "rendezvous/tcp_queue.h"

/* So many may not have said hello. A new one is always taken: the oldest of
 * them gives way to it. */
#define GLI_TCP_STRANGERS_MAX ((size_t)256)

typedef struct gli_tcp_service gli_tcp_service;

/* How many sessions a server has at most: 65,536, or half of the descriptors
 * that this process may open now, so that some are left for its own
 * connections. */
size_t gli_tcp_sessions_max(void);

/* It has connected. It has said hello, or is closed: idempotent. */
void gli_strangers_join(gli_session *session);
void gli_strangers_leave(gli_session *session);

/* Close the one that has waited longest with its hello. False: there is none.
 */
bool gli_strangers_give_way(gli_tcp_service *service);

#endif
