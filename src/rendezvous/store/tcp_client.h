/* The connections of one client to the TCP store's server. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_CLIENT_H
#define GLI_RENDEZVOUS_STORE_TCP_CLIENT_H

#include "net/tcp_address.h"
#include "net/tls.h"
#include "rendezvous/store/tcp_connection.h"
#include "security/trust.h"

typedef struct gli_tcp_client gli_tcp_client;

/* Connect to the options' host and port, trying again until the options'
 * timeout: the server may come later. `trust` as in tcp_server.h.
 * GLOO_ERR_STALE, GLOO_ERR_PROTOCOL, GLOO_ERR_AUTH: what answers is not our
 * server.
 * GLOO_ERR_ADDRESS, GLOO_ERR_TIMEOUT: why it was not reached until then. */
gloo_status gli_tcp_client_create(const gloo_store_tcp_options *options,
                                  const gli_trust *trust, gli_tls_settings *tls,
                                  gli_tcp_client **client, gloo_error *error);
void gli_tcp_client_destroy(gli_tcp_client *client);
/* In a forked child: without a word to the server. A connection that another
 * thread was using stays as it is. */
void gli_tcp_client_abandon(gli_tcp_client *client);

/* Send a request that is complete (its memory is taken) and wait for the reply
 * until `limit_ns`. Any thread; several at once. `own`: a connection for these
 * calls alone, opened where it is NULL, and NULL again when it has failed. */
gloo_status gli_tcp_client_call(gli_tcp_client *client,
                                gli_tcp_connection **own, gli_frame *request,
                                uint64_t limit_ns, gli_tcp_reply *reply,
                                gloo_error *error);

/* Have a connection for calls of one's own, and give it back; NULL when there
 * is none at the moment. */
gli_tcp_connection *gli_tcp_client_take(gli_tcp_client *client);
void gli_tcp_client_give(gli_tcp_client *client,
                         gli_tcp_connection *connection);

/* How long an operation may take that has no deadline. */
int64_t gli_tcp_client_timeout(const gli_tcp_client *client);

/* Did it refuse connections when the client was made, and listen later? */
bool gli_tcp_client_was_first(const gli_tcp_client *client);

/* The server's. */
const struct sockaddr_storage *gli_tcp_client_address(
    const gli_tcp_client *client);

#endif
