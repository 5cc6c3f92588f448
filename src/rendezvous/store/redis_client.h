/* Connections of one client to a Redis server. Any thread, several at once. */
#ifndef GLI_RENDEZVOUS_STORE_REDIS_CLIENT_H
#define GLI_RENDEZVOUS_STORE_REDIS_CLIENT_H

#include "rendezvous/store/redis_connection.h"
#include "rendezvous/store/store_url.h"

#define GLI_REDIS_PORT 6379u /* if the URL has none */

typedef struct gli_redis_client gli_redis_client;

/* Connects, and retries until the timeout while there is no server or it is not
 * ready. With `tls` the connection uses TLS, and the server must prove to be
 * the URL's host. `store` is that of a connection; `key` is a key that this
 * client may read. Errors: GLOO_ERR_TIMEOUT, GLOO_ERR_ADDRESS (the name does
 * not resolve), GLOO_ERR_INVALID (the server refuses the password),
 * GLOO_ERR_AUTH (the server's certificate is not trusted, or it refuses the
 * client's), those of TLS (gloo_c/tls.h), and those of connections. */
gloo_status gli_redis_client_create(const gli_store_url *url, bool tls,
                                    const char *store, const char *key,
                                    int64_t timeout_ns,
                                    gli_redis_client **client,
                                    gloo_error *error);

/* Takes a connection for this thread, and gives it back. It is closed if it is
 * not `fine`. */
gloo_status gli_redis_client_take(gli_redis_client *client,
                                  uint64_t deadline_ns,
                                  gli_redis_connection **connection,
                                  gloo_error *error);
void gli_redis_client_give(gli_redis_client *client,
                           gli_redis_connection *connection, bool fine);

/* Returns the time to give up on a silent server, in a call with a deadline. */
uint64_t gli_redis_client_patience(const gli_redis_client *client,
                                   uint64_t deadline_ns);

void gli_redis_client_destroy(gli_redis_client *client);
/* Frees the client in a forked child, in place of destroy. */
void gli_redis_client_abandon(gli_redis_client *client);

/* Fills the error for an error reply, and frees the reply. */
gloo_status gli_redis_refused(const char *store, redisReply *reply,
                              gloo_error *error);

#endif
