/* A store client's connection to its server: requests and replies, with a
 * deadline for both. One thread at a time uses it. The client of each kind of
 * server defines the protocol. */
#ifndef GLI_RENDEZVOUS_STORE_STORE_CONN_H
#define GLI_RENDEZVOUS_STORE_STORE_CONN_H

#include "core/error.h"
#include "net/conn.h"

/* The words that messages use for a kind of server. */
typedef struct gli_store_words {
  const char *server; /* "the TCP store's server"; NULL: see `name` below */
  const char *kind;   /* "a server of the TCP store" */
  const char *early;  /* cause of a connection that ends before the greeting */
  const char *closed; /* cause of a connection that ends later */
} gli_store_words;

typedef struct gli_store_conn {
  struct gli_store_conn *next; /* list of the pool */
  gli_conn conn;
  const gli_store_words *words;
  const char *name; /* the server, if words->server is NULL; the owner's */
  struct sockaddr_storage address;
  bool greeted; /* true once the server has proved its kind */
  bool asked;   /* a request was sent, and no reply has begun */
  uint64_t deadline_ns;
  const uint8_t *out; /* bytes to be sent; owned by the caller */
  size_t out_bytes, out_sent;
} gli_store_conn;

/* Prepares a connection to `address`, without a socket. */
void gli_store_conn_init(gli_store_conn *self, const gli_store_words *words,
                         const char *name,
                         const struct sockaddr_storage *address);
/* Sets keepalive on either end's socket. */
void gli_store_conn_tune(int fd);
/* Connects, until the deadline. Returns false on failure. */
bool gli_store_conn_open(gli_store_conn *self, uint64_t deadline_ns);
/* Begins TLS with a server at `host` (a name, or an address). Errors: those of
 * gli_store_conn_explain, and GLOO_ERR_AUTH if the server does not prove to be
 * that host. */
gloo_status gli_store_conn_secure(gli_store_conn *self,
                                  gli_tls_settings *settings,
                                  const gli_key *key, const char *host,
                                  uint64_t deadline_ns, gloo_error *error);
/* Notes that the server has proved its kind. */
void gli_store_conn_greeted(gli_store_conn *self);

/* Sends bytes, which must stay valid until gli_store_conn_finish. Waiting for
 * the reply sends the bytes that the system does not accept at once. The
 * deadline applies to the reply too. */
void gli_store_conn_send(gli_store_conn *self, const void *data, size_t bytes,
                         uint64_t deadline_ns);
/* Sends the rest of `out`, to which an owner may append requests. */
void gli_store_conn_flush(gli_store_conn *self, uint64_t deadline_ns);
/* Waits until a reply begins or the connection ends. Returns false if neither
 * happens by `until_ns`. */
bool gli_store_conn_await(gli_store_conn *self, uint64_t until_ns);
/* Receives 1 to `room` bytes. Returns their number, or 0 if the connection has
 * ended. */
size_t gli_store_conn_receive(gli_store_conn *self, void *to, size_t room);
/* Receives exactly `bytes` bytes. Returns false if the connection has ended. */
bool gli_store_conn_take(gli_store_conn *self, void *to, size_t bytes);

/* Ends the connection because the server broke its protocol, or for a cause
 * that the owner defines. */
void gli_store_conn_fail(gli_store_conn *self, int code);
static inline bool gli_store_conn_ended(const gli_store_conn *self) {
  return self->conn.state == GLI_CONN_ENDED;
}
/* Ends an exchange, after all its replies. Returns GLOO_OK if the connection
 * can be kept. */
gloo_status gli_store_conn_finish(gli_store_conn *self, gloo_error *error);
/* Fills the error for a connection that has ended. GLOO_ERR_PEER: no server
 * answers, or it has closed the connection. GLOO_ERR_PROTOCOL: it is another
 * kind of server, or its data was altered. GLOO_ERR_AUTH: TLS failed.
 * GLOO_ERR_IO, GLOO_ERR_NO_MEMORY: this process lacks resources. */
gloo_status gli_store_conn_explain(const gli_store_conn *self,
                                   gloo_error *error);

/* Closes the connection and frees its memory, which begins with `self`. */
void gli_store_conn_free(gli_store_conn *self);
/* Frees the memory in a forked child: the parent keeps the connection. */
void gli_store_conn_abandon(gli_store_conn *self);

/* Returns true if the server stays silent until `until_ns`, between requests.
 * Returns false if it closes the connection or sends an unsolicited reply. */
bool gli_store_conn_rests(gli_store_conn *self, uint64_t until_ns);

#endif
