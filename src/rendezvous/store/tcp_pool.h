/* A client's connections to the server of a store: finding it, with patience,
 * and keeping idle connections for the next request. Every request has a
 * connection to itself while it lasts, so that a thread that waits does not
 * hold up another.
 *
 * Threads: take and keep: any, several at once. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_POOL_H
#define GLI_RENDEZVOUS_STORE_TCP_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/error.h"
#include "core/fork.h"
#include "rendezvous/store/store_conn.h"

/* For `open`: one attempt to connect, for other addresses want their turn, too;
 * and how long a server may take to answer the greeting. */
#define GLI_TCP_ATTEMPT_NS ((int64_t)3000000000)
#define GLI_TCP_GREETING_NS ((int64_t)5000000000)

typedef struct gli_tcp_pool_kind {
  const char *store;  /* in messages: "the TCP store" */
  const char *server; /* what may not be running */
  /* Connect and greet, at most until the deadline. GLOO_ERR_PEER: no server
   * there, or not yet; because of GLOO_ERR_AUTH: so far only a stranger's. */
  gloo_status (*open)(const void *client,
                      const struct sockaddr_storage *address,
                      uint64_t deadline_ns, gli_store_conn **connection,
                      gloo_error *error);
  /* Returns true if a connection is kept, however many are. NULL: it is not. */
  bool (*must_keep)(const gli_store_conn *connection);
  /* Returns true if an idle connection can still be used. NULL: it can. */
  bool (*usable)(gli_store_conn *connection);
  /* NULL: gli_store_conn_free. */
  void (*close)(gli_store_conn *connection);
  /* In a forked child: without a word to the server. NULL:
   * gli_store_conn_abandon. */
  void (*abandon)(gli_store_conn *connection);
} gli_tcp_pool_kind;

typedef struct gli_tcp_pool {
  const gli_tcp_pool_kind *kind;
  const void *client;              /* for kind->open */
  struct sockaddr_storage address; /* the one that answered */
  bool was_first;                  /* connections were refused there at first */
  uv_mutex_t lock;                 /* guards idle and n_idle */
  gli_fork_guard forks;
  gli_store_conn *idle;
  size_t n_idle;
} gli_tcp_pool;

/* Connect to one of the host's addresses, and try again until the timeout where
 * the name does not resolve yet or no server answers: it may come later.
 * GLOO_ERR_ADDRESS, GLOO_ERR_TIMEOUT, GLOO_ERR_AUTH: why it was not reached
 * until then; other failures of kind->open come at once. */
gloo_status gli_tcp_pool_open(gli_tcp_pool *pool, const gli_tcp_pool_kind *kind,
                              const void *client, const char *host,
                              uint16_t port, int64_t timeout_ns,
                              gloo_error *error);

/* False, in a forked child: the pool was in use, and its memory must stay. A
 * connection that another thread was using stays as it is. */
bool gli_tcp_pool_close(gli_tcp_pool *pool);
bool gli_tcp_pool_abandon(gli_tcp_pool *pool);

/* An idle connection, or NULL. */
gli_store_conn *gli_tcp_pool_take_idle(gli_tcp_pool *pool);

/* An idle connection, or a new one. Afterwards it is kept or dropped. */
gloo_status gli_tcp_pool_take(gli_tcp_pool *pool, uint64_t deadline_ns,
                              gli_store_conn **connection, gloo_error *error);
void gli_tcp_pool_keep(gli_tcp_pool *pool, gli_store_conn *connection);
/* Closes a connection that was taken, because it failed. */
void gli_tcp_pool_drop(gli_tcp_pool *pool, gli_store_conn *connection);

/* Returns the deadline, or the time `ns` from now if that is earlier. */
uint64_t gli_tcp_within(uint64_t deadline_ns, int64_t ns);

#endif
