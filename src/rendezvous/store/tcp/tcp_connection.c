#include "rendezvous/store/tcp/tcp_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "core/signals.h"
#include "net/port_holder.h"
#include "net/time_limit.h"
#include "rendezvous/store/store_conn.h"
#include "rendezvous/store/tcp/tcp_local.h"

#define QUEUE_FULL_MS 2u

/* Causes of an end that store_conn.h does not define. */
enum {
  FORGED_REPLY = GLI_CONN_OTHER,
  OF_ANOTHER_USER = GLI_CONN_OTHER - 1,
  NO_LOCAL_SERVER = GLI_CONN_OTHER - 2
};

static const gli_store_words connection_words = {
    .server = "the TCP store",
    .kind = "a TCP store",
    .early =
        "a proxy or another program may use its port, or it exited at that "
        "moment",
    .closed = "the process that serves it has exited, or destroyed it",
};

/* Fills the error for another user's server. If that user has the port, no
 * server of this job will come; if it has only the name of the local socket,
 * one may still come. */
static gloo_status connection_of_another(const gli_tcp_connection *self,
                                         gloo_error *error) {
  gli_endpoint at;
  uint32_t user;
  char whose[GLI_TCP_WHOSE_BYTES];
  const gli_user here = gli_user_here();
  memcpy(&at, &self->base.address, sizeof at);
  bool has_port = gli_port_holder(&at, &user) && !gli_user_is_own(&here, user);
  gli_tcp_local_whose(&self->holder, whose);
  gli_fail(error, has_port ? GLOO_ERR_AUTH : GLOO_ERR_PEER, -1,
           "the TCP store at %s belongs to a process of another user, %s: use "
           "another port, or set GLOO_JOB_SECRET on all ranks if it is part of "
           "this job",
           gli_tcp_address_name(&self->base.address).text, whose);
  if (error != NULL) error->cause = GLOO_ERR_AUTH;
  return has_port ? GLOO_ERR_AUTH : GLOO_ERR_PEER;
}

static gloo_status connection_explain(const gli_tcp_connection *self,
                                      gloo_error *error) {
  gli_tcp_name name = gli_tcp_address_name(&self->base.address);
  switch (self->base.conn.code) {
    case OF_ANOTHER_USER:
      return connection_of_another(self, error);
    case NO_LOCAL_SERVER:
      return gli_fail(
          error, GLOO_ERR_PEER, -1,
          "cannot connect to the TCP store at %s: %s; on this host, a client "
          "without a secret connects only through its user's local socket: set "
          "GLOO_JOB_SECRET on all ranks if the server is in another network "
          "namespace, such as a container",
          name.text, uv_strerror(UV_ECONNREFUSED));
    case FORGED_REPLY:
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "data from the TCP store at %s was modified in transit",
                      name.text);
    default:
      return gli_store_conn_explain(&self->base, error);
  }
}

/* ---- open and close ------------------------------------------------------ */

/* Connects to the server's local socket, for an address of this host. Returns
 * false if the system has no such sockets. */
static bool connection_open_locally(gli_tcp_connection *self,
                                    uint64_t deadline_ns) {
  const struct sockaddr_storage *address = &self->base.address;
  gli_conn *conn = &self->base.conn;
  gli_tcp_local_way way = gli_tcp_local_connect(address);
  /* A full accept queue is retried until the deadline. */
  while (way.fd < 0 && gli_would_block(way.code) && !way.holder.local &&
         gli_deadline_left(deadline_ns) != 0) {
    uv_sleep(QUEUE_FULL_MS);
    way = gli_tcp_local_connect(address);
  }
  self->holder = way.holder;
  if (way.fd < 0 && way.code == EAFNOSUPPORT) return false;
  if (way.fd >= 0)
    (void)gli_conn_adopt(conn, NULL, way.fd);
  else if (way.holder.local)
    gli_conn_end(conn,
                 way.holder.code != 0 ? way.holder.code : OF_ANOTHER_USER);
  else if (gli_would_block(way.code))
    gli_conn_end(conn, GLI_CONN_LATE);
  else if (way.code == ECONNREFUSED && !gli_tcp_address_is_loopback(address))
    gli_conn_end(conn, NO_LOCAL_SERVER);
  else
    gli_conn_end(conn, way.code);
  return true;
}

gloo_status gli_tcp_connection_open(const struct sockaddr_storage *address,
                                    bool own, uint64_t deadline_ns,
                                    gli_tcp_connection **connection,
                                    gloo_error *error) {
  bool here = false;
  gli_tcp_connection *self = calloc(1, sizeof *self);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to the TCP store");
  gli_store_conn_init(&self->base, &connection_words, NULL, address);
  int code = own ? gli_tcp_address_is_here(address, &here) : 0;
  if (code != 0)
    gli_store_conn_fail(&self->base, code);
  else if (!here || !connection_open_locally(self, deadline_ns))
    (void)gli_store_conn_open(&self->base, deadline_ns);
  if (!gli_store_conn_ended(&self->base)) {
    *connection = self;
    return GLOO_OK;
  }
  gloo_status status = connection_explain(self, error);
  gli_tcp_connection_close(&self->base);
  return status;
}

static void connection_free(gli_tcp_connection *self) {
  gli_conn_close(&self->base.conn);
  gli_tcp_seal_destroy(self->seal);
  free(self);
}

void gli_tcp_connection_abandon(gli_store_conn *connection) {
  gli_conn_forked(&connection->conn);
  connection_free((gli_tcp_connection *)connection);
}

static void connection_take_back(gli_tcp_connection *self) {
  gli_signal_guard guard;
  gli_frame request;
  gli_frame_begin(&request, 8);
  gli_frame_put_will(&request, &(gli_will){.n = 0});
  gli_frame_end(&request, GLI_TCP_WILL);
  gli_tcp_seal_frame(self->seal, &request);
  gli_signal_guard_enter(&guard);
  if (!request.failed)
    (void)gli_conn_write(&self->base.conn, request.data, request.bytes);
  gli_signal_guard_leave(&guard);
  free(request.data);
}

void gli_tcp_connection_close(gli_store_conn *connection) {
  gli_tcp_connection *self = (gli_tcp_connection *)connection;
  if (self->has_will && !gli_store_conn_ended(connection))
    connection_take_back(self);
  connection_free(self);
}

/* ---- request and reply --------------------------------------------------- */

static void connection_read_body(gli_tcp_connection *self,
                                 const uint8_t head[GLI_TCP_HEAD_BYTES],
                                 gli_tcp_reply *reply) {
  gli_store_conn *base = &self->base;
  size_t bytes = gli_get_u32(head);
  uint32_t status = gli_get_u32(head + 4);
  if (bytes > GLI_TCP_FRAME_MAX ||
      (status != 0 && !gli_is_failure(-(int64_t)status))) {
    gli_store_conn_fail(base, GLI_CONN_NONSENSE);
    return;
  }
  size_t whole = bytes + gli_tcp_seal_bytes(self->seal);
  uint8_t *data = malloc(whole > 0 ? whole : 1);
  if (data == NULL) gli_store_conn_fail(base, ENOMEM);
  if (gli_store_conn_take(base, data, whole) &&
      !gli_tcp_seal_holds(self->seal, head, data, bytes))
    gli_store_conn_fail(base, FORGED_REPLY);
  *reply = (gli_tcp_reply){-(gloo_status)status, data, {data, bytes}};
}

/* Receives the reply to `request`, which may be empty: then the server speaks
 * first. */
static gloo_status connection_exchange(gli_tcp_connection *self,
                                       const gli_frame *request,
                                       uint64_t deadline_ns,
                                       gli_tcp_reply *reply,
                                       gloo_error *error) {
  uint8_t head[GLI_TCP_HEAD_BYTES];
  *reply = (gli_tcp_reply){.data = NULL};
  gli_store_conn_send(&self->base, request->data, request->bytes, deadline_ns);
  if (gli_store_conn_take(&self->base, head, sizeof head))
    connection_read_body(self, head, reply);
  if (!gli_store_conn_ended(&self->base) &&
      gli_store_conn_finish(&self->base, NULL) == GLOO_OK)
    return GLOO_OK;
  free(reply->data);
  return connection_explain(self, error);
}

gloo_status gli_tcp_connection_call(gli_tcp_connection *self,
                                    gli_frame *request, uint64_t deadline_ns,
                                    gli_tcp_reply *reply, gloo_error *error) {
  gli_tcp_seal_frame(self->seal, request);
  if (request->failed)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a request");
  return connection_exchange(self, request, deadline_ns, reply, error);
}

/* ---- TLS ----------------------------------------------------------------- */

gloo_status gli_tcp_connection_secure(gli_tcp_connection *self,
                                      gli_tls_settings *settings,
                                      const gli_key *key, const char *host,
                                      uint64_t deadline_ns, gloo_error *error) {
  const gli_frame nothing = {.bytes = 0};
  gli_tcp_reply reply;
  gloo_status status = gli_store_conn_secure(&self->base, settings, key, host,
                                             deadline_ns, error);
  if (status != GLOO_OK) return status;
  /* The server reports whether it accepts this client's certificate. */
  status = connection_exchange(self, &nothing, deadline_ns, &reply, error);
  if (status != GLOO_OK) return status;
  status = reply.status;
  if (status != GLOO_OK) /* with the server's message */
    gli_fail(error, status, -1, "%.*s", (int)reply.body.left,
             (const char *)reply.body.at);
  free(reply.data);
  return status;
}
