/* One connection of a client to the TCP store's server. One thread at a time
 * uses it. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_CONNECTION_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_CONNECTION_H

#include "net/tcp_address.h"
#include "net/tls.h"
#include "rendezvous/store/store_conn.h"
#include "rendezvous/store/tcp/tcp_auth.h"
#include "rendezvous/store/tcp/tcp_local.h"
#include "rendezvous/store/tcp/tcp_protocol.h"

typedef struct gli_tcp_connection {
  gli_store_conn base;
  gli_tcp_seal *seal; /* seal of this connection; NULL if frames have no tags */
  bool has_will;      /* true if the server has a will of this connection */
  gli_tcp_process holder; /* the port's holder, if it is another user's */
} gli_tcp_connection;

/* Connects, in one attempt, until the deadline. With `own`, a server at an
 * address of this host must be this user's or root's, if the system can tell
 * (tcp_local.h). Returns GLOO_ERR_AUTH if another user has the port,
 * GLOO_ERR_PEER caused by GLOO_ERR_AUTH if this user's server may still come,
 * GLOO_ERR_PEER if no server answers, and GLOO_ERR_IO or GLOO_ERR_NO_MEMORY if
 * this process lacks resources. */
gloo_status gli_tcp_connection_open(const struct sockaddr_storage *address,
                                    bool own, uint64_t deadline_ns,
                                    gli_tcp_connection **connection,
                                    gloo_error *error);

typedef struct gli_tcp_reply {
  gloo_status status;
  uint8_t *data; /* for free() */
  gli_body body; /* body, within `data` */
} gli_tcp_reply;

/* Switches to TLS, with a server at `host` (a name, or an address). Returns
 * GLOO_ERR_AUTH if the server does not prove to be that host, or the errors
 * above. After a failure the connection must be closed. */
gloo_status gli_tcp_connection_secure(gli_tcp_connection *connection,
                                      gli_tls_settings *settings,
                                      const gli_key *key, const char *host,
                                      uint64_t deadline_ns, gloo_error *error);

/* Sends a frame, with a tag if the connection has them, and waits for the
 * reply. GLOO_OK: there is a reply, with any status. After another result
 * (those above, GLOO_ERR_PROTOCOL, GLOO_ERR_NO_MEMORY) the connection must be
 * closed. */
gloo_status gli_tcp_connection_call(gli_tcp_connection *connection,
                                    gli_frame *request, uint64_t deadline_ns,
                                    gli_tcp_reply *reply, gloo_error *error);

/* Closes the connection, and takes back a will if that needs no waiting. */
void gli_tcp_connection_close(gli_store_conn *connection);
/* Frees the connection in a forked child: it stays open in the parent. */
void gli_tcp_connection_abandon(gli_store_conn *connection);

#endif
