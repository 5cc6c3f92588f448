/* A client of a Redis server: its connections. Any thread, several at once. */
#ifndef GLI_RENDEZVOUS_STORE_REDIS_CLIENT_H
#define GLI_RENDEZVOUS_STORE_REDIS_CLIENT_H

#include "rendezvous/store/redis_connection.h"
#include "rendezvous/store/store_url.h"

#define GLI_REDIS_PORT 6379u /* unless the URL has one */

typedef struct gli_redis_client gli_redis_client;

/* Connect, and try again until the timeout when there is no server yet, or it
 * is not ready. With `tls` all is said through that, with a server that shows
 * that it is the URL's host. `store` as for a connection; `key` is one that
 * this client may look at. GLOO_ERR_TIMEOUT, GLOO_ERR_ADDRESS (its name does
 * not resolve), GLOO_ERR_INVALID (it refuses the password), GLOO_ERR_AUTH (its
 * certificate is not believed, or it refuses this client's), those of TLS
 * (gloo_c/tls.h), and those of connections. */
gloo_status gli_redis_client_create(const gli_store_url *url, bool tls,
                                    const char *store, const char *key,
                                    int64_t timeout_ns,
                                    gli_redis_client **client,
                                    gloo_error *error);

/* A connection for this thread alone, until it is given back. One that is not
 * `fine` is closed. */
gloo_status gli_redis_client_take(gli_redis_client *client,
                                  uint64_t deadline_ns,
                                  gli_redis_connection **connection,
                                  gloo_error *error);
void gli_redis_client_give(gli_redis_client *client,
                           gli_redis_connection *connection, bool fine);

/* When to give up on a server that stays silent, in a call that has until the
 * deadline. */
uint64_t gli_redis_client_patience(const gli_redis_client *client,
                                   uint64_t deadline_ns);

void gli_redis_client_destroy(gli_redis_client *client);
/* Instead of destroy, in a forked child. */
void gli_redis_client_abandon(gli_redis_client *client);

/* Fills the error for a reply that is one, and frees the reply. */
gloo_status gli_redis_refused(const char *store, redisReply *reply,
                              gloo_error *error);

#endif
