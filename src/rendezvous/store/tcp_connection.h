/* One connection of a client to the TCP store's server. Used by one thread at
 * a time. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_CONNECTION_H
#define GLI_RENDEZVOUS_STORE_TCP_CONNECTION_H

#include "net/tcp_address.h"
#include "net/tls.h"
#include "rendezvous/store/store_conn.h"
#include "rendezvous/store/tcp_auth.h"
#include "rendezvous/store/tcp_local.h"
#include "rendezvous/store/tcp_protocol.h"

typedef struct gli_tcp_connection {
  gli_store_conn base;
  gli_tcp_seal *seal;     /* NULL: frames have no tags; the connection's */
  bool has_will;          /* the server has a will that was left on it */
  gli_tcp_process holder; /* of the port, where that is another user's */
} gli_tcp_connection;

/* Connect. With `own`, a server at an address of this host must be one of this
 * user, or root's, where the system can tell (tcp_local.h). It is GLOO_ERR_AUTH
 * if another's has the port, and GLOO_ERR_PEER because of GLOO_ERR_AUTH if the
 * own one may come yet. One attempt, at most until the deadline. GLOO_ERR_PEER
 * when no server answers; GLOO_ERR_IO or GLOO_ERR_NO_MEMORY when this process
 * lacks what it takes. */
gloo_status gli_tcp_connection_open(const struct sockaddr_storage *address,
                                    bool own, uint64_t deadline_ns,
                                    gli_tcp_connection **connection,
                                    gloo_error *error);

typedef struct gli_tcp_reply {
  gloo_status status;
  uint8_t *data; /* for free() */
  gli_body body; /* in data */
} gli_tcp_reply;

/* All that follows goes through TLS, with a server at `host` (a name, or an
 * address). GLOO_ERR_AUTH if it does not show that it is that; else the errors
 * above, and the connection is of no further use. */
gloo_status gli_tcp_connection_secure(gli_tcp_connection *connection,
                                      gli_tls_settings *settings,
                                      const gli_key *key, const char *host,
                                      uint64_t deadline_ns, gloo_error *error);

/* Send a frame, with its tag if it is to have one, and wait for the reply.
 * GLOO_OK: `reply` has come, whatever its status. Otherwise (those above,
 * GLOO_ERR_PROTOCOL, GLOO_ERR_NO_MEMORY) the connection is of no further use;
 * close it. */
gloo_status gli_tcp_connection_call(gli_tcp_connection *connection,
                                    gli_frame *request, uint64_t deadline_ns,
                                    gli_tcp_reply *reply, gloo_error *error);

/* Also takes back a will, as far as that goes without waiting. */
void gli_tcp_connection_close(gli_store_conn *connection);
/* In a forked child: the connection stays the parent's. */
void gli_tcp_connection_abandon(gli_store_conn *connection);

#endif
