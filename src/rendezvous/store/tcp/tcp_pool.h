/* The connections of a client to the server of a store: finds the server, with
 * retries, and keeps idle connections for later requests. A request uses its
 * connection exclusively, so that a waiting thread does not block another.
 *
 * Threads: take and keep: any, several at once. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_POOL_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/error.h"
#include "core/fork.h"
#include "rendezvous/store/store_conn.h"

/* Time limits for `open`: one attempt to connect, since other addresses must
 * get their turn, and the answer to the greeting. */
#define GLI_TCP_ATTEMPT_NS ((int64_t)3000000000)
#define GLI_TCP_GREETING_NS ((int64_t)5000000000)

typedef struct gli_tcp_pool_kind {
  const char *store;  /* for messages: "the TCP store" */
  const char *server; /* name of the server, which may not be running */
  /* Connects and greets, until the deadline. Returns GLOO_ERR_PEER if there is
   * no server, or not yet; caused by GLOO_ERR_AUTH if only an impostor answers
   * so far. */
  gloo_status (*open)(const void *client,
                      const struct sockaddr_storage *address,
                      uint64_t deadline_ns, gli_store_conn **connection,
                      gloo_error *error);
  /* Returns true if a connection must be kept beyond the limit. NULL: no. */
  bool (*must_keep)(const gli_store_conn *connection);
  /* Returns true if an idle connection can still be used. NULL: yes. */
  bool (*usable)(gli_store_conn *connection);
  /* NULL: gli_store_conn_free. */
  void (*close)(gli_store_conn *connection);
  /* Frees the connection in a forked child, without a message to the server.
   * NULL: gli_store_conn_abandon. */
  void (*abandon)(gli_store_conn *connection);
} gli_tcp_pool_kind;

typedef struct gli_tcp_pool {
  const gli_tcp_pool_kind *kind;
  const void *client;              /* for kind->open */
  struct sockaddr_storage address; /* address that answered */
  bool was_first;                  /* connections were refused there at first */
  uv_mutex_t lock;                 /* guards idle and n_idle */
  gli_fork_guard forks;
  gli_store_conn *idle;
  size_t n_idle;
} gli_tcp_pool;

/* Connects to one of the host's addresses, and retries until the timeout while
 * the name does not resolve or no server answers: both may change. Returns
 * GLOO_ERR_ADDRESS, GLOO_ERR_TIMEOUT or GLOO_ERR_AUTH with the cause; other
 * failures of kind->open end it at once. */
gloo_status gli_tcp_pool_open(gli_tcp_pool *pool, const gli_tcp_pool_kind *kind,
                              const void *client, const char *host,
                              uint16_t port, int64_t timeout_ns,
                              gloo_error *error);

/* End the pool. In a forked child they return false if the pool was in use: its
 * memory must stay. A connection in use by another thread stays as it is. */
bool gli_tcp_pool_close(gli_tcp_pool *pool);
bool gli_tcp_pool_abandon(gli_tcp_pool *pool);

/* Returns an idle connection, or NULL. */
gli_store_conn *gli_tcp_pool_take_idle(gli_tcp_pool *pool);

/* Takes an idle connection or opens one. Keep or drop it afterwards. */
gloo_status gli_tcp_pool_take(gli_tcp_pool *pool, uint64_t deadline_ns,
                              gli_store_conn **connection, gloo_error *error);
void gli_tcp_pool_keep(gli_tcp_pool *pool, gli_store_conn *connection);
/* Closes a connection that was taken, because it failed. */
void gli_tcp_pool_drop(gli_tcp_pool *pool, gli_store_conn *connection);

/* Returns the deadline, or the time `ns` from now if that is earlier. */
uint64_t gli_tcp_within(uint64_t deadline_ns, int64_t ns);

#endif
