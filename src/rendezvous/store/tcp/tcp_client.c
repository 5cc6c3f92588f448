#include "rendezvous/store/tcp/tcp_client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "core/text.h"
#include "rendezvous/store/tcp/tcp_pool.h"

struct gli_tcp_client {
  gli_tcp_pool pool;
  int64_t timeout_ns;
  uint64_t epoch;
  bool asks;  /* true if both sides prove the key */
  bool local; /* true if servers on this host must be this user's or root's */
  gli_key key;
  gli_tls_settings *tls; /* NULL without TLS */
  gli_key tls_key;       /* key of TLS by the secret */
  char *host;
  char job[];
};

/* State of a greeting. */
typedef struct greeting {
  const gli_tcp_client *client;
  gli_tcp_connection *connection;
  gli_tcp_name server;
  uint64_t deadline_ns;
  gloo_error *error;
} greeting;

static void hello_begin(gli_frame *request, gli_tcp_how how) {
  gli_frame_begin(request, GLI_TCP_HELLO_MAX);
  gli_frame_put_u64(request, GLI_TCP_MAGIC);
  gli_frame_put_u32(request, GLI_TCP_VERSION);
  gli_frame_put_u32(request, how);
}

static gloo_status greeting_call(const greeting *g, gli_frame *request,
                                 gli_tcp_op op, gli_tcp_reply *reply) {
  gli_frame_end(request, (uint32_t)op);
  gloo_status status = gli_tcp_connection_call(g->connection, request,
                                               g->deadline_ns, reply, g->error);
  free(request->data);
  return status;
}

/* Fills the error with the server's message. */
static gloo_status client_refused(const greeting *g,
                                  const gli_tcp_reply *reply) {
  size_t bytes = reply->body.left;
  if (bytes >= GLOO_ERROR_MESSAGE_BYTES) bytes = GLOO_ERROR_MESSAGE_BYTES - 1;
  if (bytes == 0 || reply->body.at[0] == '\0')
    return gli_fail(
        g->error, reply->status, -1,
        "the TCP store at %s rejected this client without giving a reason",
        g->server.text);
  return gli_fail(g->error, reply->status, -1, "%.*s", (int)bytes,
                  (const char *)reply->body.at);
}

static gloo_status client_asked_in_vain(const greeting *g) {
  return gli_fail(
      g->error, GLOO_ERR_AUTH, -1,
      "the TCP store at %s did not prove knowledge of the job secret, which "
      "this client requires: set GLOO_JOB_SECRET or GLOO_JOB_SECRET_FILE to "
      "the same value on all ranks, or use another port",
      g->server.text);
}

static gloo_status client_has_another(const greeting *g) {
  return gli_fail(
      g->error, GLOO_ERR_AUTH, -1,
      "the TCP store at %s has a different secret, or belongs to another job "
      "or epoch: use the same ones on all ranks, or another port",
      g->server.text);
}

/* ---- TLS ----------------------------------------------------------------- */

static gloo_status greet_by_tls(const greeting *g) {
  const gli_tcp_client *self = g->client;
  gli_frame request;
  gli_tcp_reply reply;
  hello_begin(&request, GLI_TCP_BY_TLS);
  gli_frame_put_u32(&request, gli_tls_settings_kind(self->tls));
  gloo_status status = greeting_call(g, &request, GLI_TCP_HELLO, &reply);
  if (status != GLOO_OK) return status;
  status = reply.status;
  if (status != GLOO_OK) client_refused(g, &reply);
  free(reply.data);
  if (status != GLOO_OK) return status;
  return gli_tcp_connection_secure(g->connection, self->tls, &self->tls_key,
                                   self->host, g->deadline_ns, g->error);
}

/* ---- by name ------------------------------------------------------------- */

static gloo_status greet_by_name(const greeting *g) {
  const gli_tcp_client *self = g->client;
  gli_frame request;
  gli_tcp_reply reply;
  hello_begin(&request, GLI_TCP_BY_NAME);
  gli_frame_put_u64(&request, self->epoch);
  gli_frame_put_key(&request, self->job);
  gloo_status status = greeting_call(g, &request, GLI_TCP_HELLO, &reply);
  if (status != GLOO_OK) return status;
  status = reply.status;
  if (status == GLOO_ERR_STALE) {
    gli_fail(g->error, status, -1,
             "the TCP store at %s belongs to another job or epoch than this "
             "client (job '%s', epoch %" PRIu64
             "): use the same job and epoch on all ranks, or another port",
             g->server.text, gli_quote(self->job).text, self->epoch);
  } else if (status != GLOO_OK) {
    client_refused(g, &reply);
  }
  free(reply.data);
  return status;
}

/* ---- by key -------------------------------------------------------------- */

/* Reads the nonce of the server from its challenge. Fails if the server does
 * not know the key. */
static gloo_status challenge_read(const greeting *g, const gli_tcp_reply *reply,
                                  gli_tcp_nonces *nonces) {
  uint8_t tag[GLI_TAG_BYTES];
  const uint8_t *said = reply->body.at;
  if (reply->status == GLOO_ERR_AUTH) return client_asked_in_vain(g);
  if (reply->status != GLOO_OK) return client_refused(g, reply);
  if (reply->body.left != sizeof nonces->server + sizeof tag)
    return client_asked_in_vain(g);
  memcpy(nonces->server, said, sizeof nonces->server);
  gloo_status status = gli_tcp_auth_tag(&g->client->key, nonces, tag, g->error);
  if (status != GLOO_OK) return status;
  return gli_tags_equal(tag, said + sizeof nonces->server)
             ? GLOO_OK
             : client_has_another(g);
}

static gloo_status client_prove(const greeting *g,
                                const gli_tcp_nonces *nonces) {
  gli_frame request;
  gli_tcp_reply reply;
  gli_tcp_seal *seal;
  gloo_status status =
      gli_tcp_seal_create(&g->client->key, false, nonces, &seal, g->error);
  if (status != GLOO_OK) return status;
  g->connection->seal = seal;
  gli_frame_begin(&request, GLI_TAG_BYTES);
  status = greeting_call(g, &request, GLI_TCP_PROVE, &reply);
  if (status != GLOO_OK) return status;
  status = reply.status;
  if (status != GLOO_OK) client_refused(g, &reply);
  free(reply.data);
  return status;
}

static gloo_status greet_by_key(const greeting *g) {
  gli_frame request;
  gli_tcp_reply reply;
  gli_tcp_nonces nonces;
  gloo_status status =
      gli_random_draw(nonces.client, sizeof nonces.client, g->error);
  if (status != GLOO_OK) return status;
  hello_begin(&request, GLI_TCP_BY_KEY);
  gli_frame_put_bytes(&request, nonces.client, sizeof nonces.client);
  status = greeting_call(g, &request, GLI_TCP_HELLO, &reply);
  if (status != GLOO_OK) return status;
  status = challenge_read(g, &reply, &nonces);
  free(reply.data);
  return status == GLOO_OK ? client_prove(g, &nonces) : status;
}

/* ---- connections --------------------------------------------------------- */

/* Makes one attempt at one address: connects and greets. */
static gloo_status client_open_one(const void *client,
                                   const struct sockaddr_storage *address,
                                   uint64_t deadline_ns,
                                   gli_store_conn **connection,
                                   gloo_error *error) {
  const gli_tcp_client *self = client;
  gli_tcp_connection *opened;
  gloo_status status = gli_tcp_connection_open(
      address, self->local, gli_tcp_within(deadline_ns, GLI_TCP_ATTEMPT_NS),
      &opened, error);
  if (status != GLOO_OK) return status;
  const greeting g = {
      .client = self,
      .connection = opened,
      .server = gli_tcp_address_name(address),
      .deadline_ns = gli_tcp_within(deadline_ns, GLI_TCP_GREETING_NS),
      .error = error};
  if (self->tls != NULL) status = greet_by_tls(&g);
  if (status == GLOO_OK)
    status = self->asks ? greet_by_key(&g) : greet_by_name(&g);
  if (status == GLOO_OK) {
    gli_store_conn_greeted(&opened->base);
    *connection = &opened->base;
  } else {
    gli_tcp_connection_close(&opened->base);
  }
  return status;
}

/* Returns true if the connection has a will, which must stay. */
static bool client_must_keep(const gli_store_conn *connection) {
  return ((const gli_tcp_connection *)connection)->has_will;
}

static const gli_tcp_pool_kind client_pool = {
    .store = "the TCP store",
    .server = "rank 0 (or the process that serves the store)",
    .open = client_open_one,
    .must_keep = client_must_keep,
    .close = gli_tcp_connection_close,
    .abandon = gli_tcp_connection_abandon,
};

static void client_free(gli_tcp_client *self) {
  gli_wipe(&self->key, sizeof self->key);
  gli_wipe(&self->tls_key, sizeof self->tls_key);
  gli_tls_settings_release(self->tls);
  free(self->host);
  free(self);
}

gloo_status gli_tcp_client_create(const gloo_store_tcp_options *options,
                                  const gli_trust *trust, gli_tls_settings *tls,
                                  gli_tcp_client **client, gloo_error *error) {
  size_t job_bytes = strlen(options->job);
  gli_tcp_client *self = calloc(1, sizeof *self + job_bytes + 1);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a client of a TCP store");
  memcpy(self->job, options->job, job_bytes + 1);
  self->epoch = options->epoch;
  if (trust != NULL) {
    self->asks = trust->asks;
    self->local = !trust->asks && !trust->silent;
  }
  self->timeout_ns = options->timeout_ns;
  self->tls = gli_tls_settings_hold(tls);
  self->host = strdup(options->host);
  if (tls != NULL) self->local = false;
  gloo_status status = GLOO_OK;
  if (self->host == NULL)
    status = gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "no memory for a client of a TCP store");
  if (status == GLOO_OK && self->asks)
    status =
        gli_trust_store_key(trust, self->job, self->epoch, &self->key, error);
  if (status == GLOO_OK && self->asks && tls != NULL)
    status =
        gli_proofs_tls_key(&self->key, "store", NULL, 0, &self->tls_key, error);
  if (status == GLOO_OK)
    status = gli_tcp_pool_open(&self->pool, &client_pool, self, options->host,
                               options->port, options->timeout_ns, error);
  if (status == GLOO_OK) {
    *client = self;
  } else {
    client_free(self);
  }
  return status;
}

void gli_tcp_client_destroy(gli_tcp_client *self) {
  if (gli_tcp_pool_close(&self->pool)) client_free(self);
}

void gli_tcp_client_abandon(gli_tcp_client *self) {
  if (gli_tcp_pool_abandon(&self->pool)) client_free(self);
}

/* ---- calls --------------------------------------------------------------- */

gli_tcp_connection *gli_tcp_client_take(gli_tcp_client *self) {
  return (gli_tcp_connection *)gli_tcp_pool_take_idle(&self->pool);
}

void gli_tcp_client_give(gli_tcp_client *self, gli_tcp_connection *connection) {
  gli_tcp_pool_keep(&self->pool, &connection->base);
}

gloo_status gli_tcp_client_call(gli_tcp_client *self, gli_tcp_connection **own,
                                gli_frame *request, uint64_t limit_ns,
                                gli_tcp_reply *reply, gloo_error *error) {
  gloo_status status = GLOO_OK;
  gli_store_conn *taken = NULL;
  if (own != NULL && *own != NULL)
    taken = &(*own)->base;
  else
    status = gli_tcp_pool_take(&self->pool, limit_ns, &taken, error);
  if (own != NULL) *own = NULL;
  if (status != GLOO_OK) goto free_request;
  gli_tcp_connection *connection = (gli_tcp_connection *)taken;
  status = gli_tcp_connection_call(connection, request, limit_ns, reply, error);
  if (status != GLOO_OK) {
    gli_tcp_pool_drop(&self->pool, taken);
  } else if (own != NULL) {
    *own = connection;
  } else {
    gli_tcp_pool_keep(&self->pool, taken);
  }

free_request:
  free(request->data);
  return status;
}

int64_t gli_tcp_client_timeout(const gli_tcp_client *self) {
  return self->timeout_ns;
}

bool gli_tcp_client_was_first(const gli_tcp_client *self) {
  return self->pool.was_first;
}

const struct sockaddr_storage *gli_tcp_client_address(
    const gli_tcp_client *self) {
  return &self->pool.address;
}
