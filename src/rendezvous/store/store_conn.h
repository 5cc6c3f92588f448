/* A store client's connection to its server: requests go out and replies come
 * in, with a deadline for both. One thread at a time uses it; what it says is
 * for the client of each kind of server. */
#ifndef GLI_RENDEZVOUS_STORE_STORE_CONN_H
#define GLI_RENDEZVOUS_STORE_STORE_CONN_H

#include "core/error.h"
#include "net/conn.h"

/* Sentences of messages about a kind of server. */
typedef struct gli_store_words {
  const char *server; /* "the TCP store's server"; NULL: see `name` below */
  const char *kind;   /* "a server of the TCP store" */
  const char *early;  /* why it closes a connection before it has greeted */
  const char *closed; /* and after that */
} gli_store_words;

typedef struct gli_store_conn {
  struct gli_store_conn *next; /* in the list of its pool */
  gli_conn conn;
  const gli_store_words *words;
  const char *name; /* the server, where words->server is NULL; the owner's */
  struct sockaddr_storage address;
  bool greeted; /* the server has shown that it is one */
  bool asked;   /* a request went out, and no reply has begun */
  uint64_t deadline_ns;
  const uint8_t *out; /* bytes to be sent; the owner's */
  size_t out_bytes, out_sent;
} gli_store_conn;

/* Prepares a connection to `address`, without a socket. */
void gli_store_conn_init(gli_store_conn *self, const gli_store_words *words,
                         const char *name,
                         const struct sockaddr_storage *address);
/* Sets keepalive on either end's socket. */
void gli_store_conn_tune(int fd);
/* Connects, at most until the deadline. Returns false if that failed. */
bool gli_store_conn_open(gli_store_conn *self, uint64_t deadline_ns);
/* Makes TLS with a server at `host` (a name, or an address). Errors: those of
 * gli_store_conn_explain, and GLOO_ERR_AUTH if the server does not show that it
 * is that host. */
gloo_status gli_store_conn_secure(gli_store_conn *self,
                                  gli_tls_settings *settings,
                                  const gli_key *key, const char *host,
                                  uint64_t deadline_ns, gloo_error *error);
/* The server has shown that it is of this kind. */
void gli_store_conn_greeted(gli_store_conn *self);

/* Sends bytes, which must stay until gli_store_conn_finish. What the system
 * does not take at once follows while a reply is waited for. The deadline holds
 * for the reply as well. */
void gli_store_conn_send(gli_store_conn *self, const void *data, size_t bytes,
                         uint64_t deadline_ns);
/* Sends the rest of `out`, to which an owner may append requests. */
void gli_store_conn_flush(gli_store_conn *self, uint64_t deadline_ns);
/* Waits until a reply begins, or the connection has ended. Returns false if
 * neither has happened by then. */
bool gli_store_conn_await(gli_store_conn *self, uint64_t until_ns);
/* Receives 1 to `room` bytes. Returns how many, 0 if the connection has
 * ended. */
size_t gli_store_conn_receive(gli_store_conn *self, void *to, size_t room);
/* Receives exactly `bytes` bytes. Returns false if the connection has ended. */
bool gli_store_conn_take(gli_store_conn *self, void *to, size_t bytes);

/* Ends the connection because the server broke its protocol, or for a cause of
 * the owner's. */
void gli_store_conn_fail(gli_store_conn *self, int code);
static inline bool gli_store_conn_ended(const gli_store_conn *self) {
  return self->conn.state == GLI_CONN_ENDED;
}
/* All replies have come. Returns GLOO_OK if the connection can be kept. */
gloo_status gli_store_conn_finish(gli_store_conn *self, gloo_error *error);
/* Fills the error for a connection that has ended: GLOO_ERR_PEER: no server
 * answers, or it has closed the connection; GLOO_ERR_PROTOCOL: it is another
 * kind of server, or what it sent was changed; GLOO_ERR_AUTH: TLS failed;
 * GLOO_ERR_IO, GLOO_ERR_NO_MEMORY: what this process lacks. */
gloo_status gli_store_conn_explain(const gli_store_conn *self,
                                   gloo_error *error);

/* Closes the connection and frees its memory, of which it is the first part. */
void gli_store_conn_free(gli_store_conn *self);
/* Frees the memory in a forked child: the connection stays the parent's. */
void gli_store_conn_abandon(gli_store_conn *self);

/* Between requests: returns true if the server stays silent until then, false
 * if it has closed the connection or says what was not asked for. */
bool gli_store_conn_rests(gli_store_conn *self, uint64_t until_ns);

#endif
