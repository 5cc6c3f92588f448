/* The server of the TCP store: a table, served by one thread of its own. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_SERVER_H
#define GLI_RENDEZVOUS_STORE_TCP_SERVER_H

#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "net/tls.h"
#include "rendezvous/store/tcp_connection.h"
#include "rendezvous/store/tcp_session.h"
#include "security/trust.h"

typedef struct gli_tcp_server gli_tcp_server;

/* Whom it lets in: those that know the key that follows from `trust`; where
 * that asks nobody, of this host processes of this user (tcp_local.h), and of
 * other hosts, or where it is meant that nobody is asked, or NULL, whoever
 * knows the job's name. Bind `host` (the first of its addresses that can be)
 * and `port` (0: any free one), listen and serve. A host that does not resolve
 * is looked up again until the timeout. GLOO_ERR_ADDRESS says why that is not
 * possible: also that another program has the port at another address of
 * `host`. */
gloo_status gli_tcp_server_create(const gloo_store_tcp_options *options,
                                  const gli_trust *trust, gli_tls_settings *tls,
                                  gli_tcp_server **server, gloo_error *error);

/* Where it listens. Any thread. */
const struct sockaddr_storage *gli_tcp_server_address(
    const gli_tcp_server *server);

/* Returns the counters of the server. Any thread. */
gli_tcp_served gli_tcp_server_served(gli_tcp_server *server);
/* Returns a copy of the budget; the pointers in it mean nothing. Any thread. */
gli_tcp_budget gli_tcp_server_budget(gli_tcp_server *server);

/* A request of this process, which takes no descriptor: whatever the process
 * lacks, it can read and write the store that it serves. Takes the request's
 * memory, and waits for the reply (free its data). Any thread, several at once.
 * GLOO_ERR_NO_MEMORY. */
gloo_status gli_tcp_server_call(gli_tcp_server *server, gli_frame *request,
                                gli_tcp_op op, gli_tcp_reply *reply,
                                gloo_error *error);

/* Stop. Clients that are connected, waiting ones too, see the connection close.
 * Does not wait for them. */
void gli_tcp_server_destroy(gli_tcp_server *server);
/* In a forked child: the server goes on in the parent. */
void gli_tcp_server_abandon(gli_tcp_server *server);

#endif
