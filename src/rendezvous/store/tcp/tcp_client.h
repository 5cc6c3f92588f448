/* The connections of one client to the TCP store's server. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_CLIENT_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_CLIENT_H

#include "net/tcp_address.h"
#include "net/tls.h"
#include "rendezvous/store/tcp/tcp_connection.h"
#include "security/trust.h"

typedef struct gli_tcp_client gli_tcp_client;

/* Connects to the options' host and port, and retries until the options'
 * timeout: the server may start later. `trust` as in tcp_server.h.
 * GLOO_ERR_STALE, GLOO_ERR_PROTOCOL, GLOO_ERR_AUTH: another server answers.
 * GLOO_ERR_ADDRESS, GLOO_ERR_TIMEOUT: the cause of the last failed attempt. */
gloo_status gli_tcp_client_create(const gloo_store_tcp_options *options,
                                  const gli_trust *trust, gli_tls_settings *tls,
                                  gli_tcp_client **client, gloo_error *error);
void gli_tcp_client_destroy(gli_tcp_client *client);
/* Frees the client in a forked child, without a message to the server. A
 * connection that another thread was using stays as it is. */
void gli_tcp_client_abandon(gli_tcp_client *client);

/* Sends a complete request, whose memory it takes, and waits for the reply
 * until `limit_ns`. Any thread; several at once. `own` is a connection for
 * these calls alone; it is opened if NULL, and NULL again after a failure. */
gloo_status gli_tcp_client_call(gli_tcp_client *client,
                                gli_tcp_connection **own, gli_frame *request,
                                uint64_t limit_ns, gli_tcp_reply *reply,
                                gloo_error *error);

/* Takes an idle connection for calls with `own`, NULL if there is none, and
 * gives it back. */
gli_tcp_connection *gli_tcp_client_take(gli_tcp_client *client);
void gli_tcp_client_give(gli_tcp_client *client,
                         gli_tcp_connection *connection);

/* Returns the time limit of an operation without a deadline. */
int64_t gli_tcp_client_timeout(const gli_tcp_client *client);

/* Returns true if the server refused connections at first, when the client was
 * made. */
bool gli_tcp_client_was_first(const gli_tcp_client *client);

/* Returns the server's address. */
const struct sockaddr_storage *gli_tcp_client_address(
    const gli_tcp_client *client);

#endif
