/* The server of the TCP store: a table, and a thread that serves it. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_SERVER_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_SERVER_H

#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "net/tls.h"
#include "rendezvous/store/tcp/tcp_connection.h"
#include "rendezvous/store/tcp/tcp_session.h"
#include "security/trust.h"

typedef struct gli_tcp_server gli_tcp_server;

/* Creates a server and starts it. With a secret in `trust`, clients must know
 * the key derived from it. Without one (and without TLS) clients of this host
 * must be processes of this user (tcp_local.h), and clients of other hosts must
 * know the job's name. The job's name is enough for all clients if `trust` is
 * NULL or authentication was switched off. The server binds `host` (the first
 * usable address of it) and `port` (0: any free one). It resolves an unknown
 * host again until the timeout. GLOO_ERR_ADDRESS holds the cause if it cannot
 * listen, also if another program has the port at another address of `host`. */
gloo_status gli_tcp_server_create(const gloo_store_tcp_options *options,
                                  const gli_trust *trust, gli_tls_settings *tls,
                                  gli_tcp_server **server, gloo_error *error);

/* Returns the address of the listener. Any thread. */
const struct sockaddr_storage *gli_tcp_server_address(
    const gli_tcp_server *server);

/* Returns the counters of the server. Any thread. */
gli_tcp_served gli_tcp_server_served(gli_tcp_server *server);
/* Returns a copy of the budget; its pointers are not valid. Any thread. */
gli_tcp_budget gli_tcp_server_budget(gli_tcp_server *server);

/* Executes a request of this process. It uses no descriptor, so that the
 * process can use the store that it serves whatever it lacks. Takes the
 * request's memory, and waits for the reply (free its data). Any thread,
 * several at once. GLOO_ERR_NO_MEMORY. */
gloo_status gli_tcp_server_call(gli_tcp_server *server, gli_frame *request,
                                gli_tcp_op op, gli_tcp_reply *reply,
                                gloo_error *error);

/* Stops the server and closes the connections of all clients, also of waiting
 * ones. Does not wait for them. */
void gli_tcp_server_destroy(gli_tcp_server *server);
/* Frees the server in a forked child: it continues in the parent. */
void gli_tcp_server_abandon(gli_tcp_server *server);

#endif
