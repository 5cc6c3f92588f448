#include "rendezvous/store/tcp_connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "core/lack.h"
#include "core/signals.h"
#include "net/channel.h"
#include "net/port_holder.h"
#include "rendezvous/store/tcp_local.h"

#define QUEUE_FULL_MS 2u

/* A failing call leaves its errno in `failure`; what is no error of the system
 * has a code of its own. */
enum {
  FINE = 0,
  OUT_OF_TIME = -1 /* as of gli_store_socket_wait */,
  BROKEN_REPLY = -2,
  ENDED = -3,
  FORGED_REPLY = -4,
  OF_ANOTHER_USER = -5,
  NO_LOCAL_SERVER = -6
};

struct gli_tcp_connection {
  void *next;
  gli_channel channel;
  struct sockaddr_storage address;
  int failure;
  gli_tcp_process holder; /* OF_ANOTHER_USER: it */
  bool has_will;
  gli_tcp_seal *seal; /* NULL: no tags */
  size_t got; /* bytes of the reply's head, then of head, body and tag */
  uint8_t head[GLI_TCP_HEAD_BYTES];
  uint8_t *body; /* with the tag */
  size_t body_bytes;
};

static void fail_with(gli_tcp_connection *self, int code) {
  if (self->failure == FINE) self->failure = code;
}

/* Where another user has the port itself, no server of this job will come.
 * Where only the name of its local socket is taken, it may come yet. */
static gloo_status connection_of_another(const gli_tcp_connection *self,
                                         gloo_error *error) {
  gli_endpoint at;
  uint32_t user;
  char whose[GLI_TCP_WHOSE_BYTES];
  const gli_user here = gli_user_here();
  memcpy(&at, &self->address, sizeof at);
  bool has_port = gli_port_holder(&at, &user) && !gli_user_is_own(&here, user);
  gli_tcp_local_whose(&self->holder, whose);
  gli_fail(error, has_port ? GLOO_ERR_AUTH : GLOO_ERR_PEER, -1,
           "the TCP store at %s is kept by a process of another user, of %s: "
           "use another port, or set GLOO_JOB_SECRET for all ranks if it is of "
           "this job",
           gli_tcp_address_name(&self->address).text, whose);
  if (error != NULL) error->cause = GLOO_ERR_AUTH;
  return has_port ? GLOO_ERR_AUTH : GLOO_ERR_PEER;
}

static gloo_status connection_explain(const gli_tcp_connection *self,
                                      gloo_error *error) {
  gli_tcp_name name = gli_tcp_address_name(&self->address);
  if (self->failure > 0 && gli_lacking(self->failure))
    return gli_fail(error, gli_lack_status(self->failure), -1,
                    "cannot talk to the TCP store's server at %s: %s",
                    name.text, gli_lack_text(self->failure));
  switch (self->failure) {
    case FINE:
      return GLOO_OK;
    case OUT_OF_TIME:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the TCP store's server at %s did not answer in time",
                      name.text);
    case BROKEN_REPLY:
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "what answers at %s is not a server of the TCP store: "
                      "check host and port",
                      name.text);
    case OF_ANOTHER_USER:
      return connection_of_another(self, error);
    case NO_LOCAL_SERVER:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the TCP store's server at %s cannot be reached: %s; "
                      "that is an address of this host, where a client without "
                      "a secret goes by a local socket of its own user alone: "
                      "set GLOO_JOB_SECRET for all ranks if the server is in "
                      "another network namespace, as in a container",
                      name.text, uv_strerror(UV_ECONNREFUSED));
    case EBADMSG:
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "the TCP store's server at %s %s", name.text,
                      gli_tls_why(self->channel.tls));
    case FORGED_REPLY:
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "what came from the TCP store's server at %s is not what "
                      "it sent: it was changed on its way",
                      name.text);
    case ENDED:
    case ECONNRESET:
    case EPIPE:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the TCP store's server at %s closed the connection: "
                      "the process that serves it has ended, or destroyed it",
                      name.text);
    default:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the TCP store's server at %s cannot be reached: %s",
                      name.text,
                      uv_strerror(uv_translate_sys_error(self->failure)));
  }
}

/* Until one of `events` is possible, or there is an error. False: failed. */
static bool wait_for(gli_tcp_connection *self, short events,
                     uint64_t deadline_ns) {
  fail_with(self, gli_channel_wait(&self->channel, events, deadline_ns));
  return self->failure == FINE;
}

/* ---- open and close ----------------------------------------------------- */

/* A connection over the server's local socket, for an address of this host.
 * Returns false where the system has no such sockets. */
static bool connection_open_locally(gli_tcp_connection *self,
                                    uint64_t deadline_ns) {
  gli_tcp_local_way way = gli_tcp_local_connect(&self->address);
  /* A full accept queue is tried again until the deadline. */
  while (way.fd < 0 && gli_would_block(way.code) && !way.holder.local &&
         gli_deadline_left(deadline_ns) != 0) {
    uv_sleep(QUEUE_FULL_MS);
    way = gli_tcp_local_connect(&self->address);
  }
  self->channel.fd = way.fd;
  self->holder = way.holder;
  if (way.fd >= 0) return true;
  if (way.code == EAFNOSUPPORT) return false;
  if (way.holder.local && way.holder.code != 0)
    fail_with(self, way.holder.code);
  else if (way.holder.local)
    fail_with(self, OF_ANOTHER_USER);
  else if (gli_would_block(way.code))
    fail_with(self, OUT_OF_TIME);
  else if (way.code == ECONNREFUSED &&
           !gli_tcp_address_is_loopback(&self->address))
    fail_with(self, NO_LOCAL_SERVER);
  else
    fail_with(self, way.code);
  return true;
}

static void connection_open_by_tcp(gli_tcp_connection *self,
                                   uint64_t deadline_ns) {
  self->channel.fd = gli_socket_open(self->address.ss_family, SOCK_STREAM);
  if (self->channel.fd < 0) {
    fail_with(self, errno);
    return;
  }
  fail_with(self, gli_store_socket_connect(self->channel.fd, &self->address,
                                           deadline_ns));
  if (self->failure == FINE) gli_store_socket_tune(self->channel.fd);
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
  self->address = *address;
  self->channel.fd = -1;
  if (own) fail_with(self, gli_tcp_address_is_here(address, &here));
  if (self->failure == FINE &&
      (!here || !connection_open_locally(self, deadline_ns)))
    connection_open_by_tcp(self, deadline_ns);
  if (self->failure == FINE) {
    *connection = self;
    return GLOO_OK;
  }
  gloo_status status = connection_explain(self, error);
  gli_tcp_connection_close(self);
  return status;
}

void gli_tcp_connection_abandon(gli_tcp_connection *self) {
  gli_channel_close(&self->channel);
  gli_tcp_seal_destroy(self->seal);
  free(self->body);
  free(self);
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
    (void)gli_channel_send(&self->channel, request.data, request.bytes);
  gli_signal_guard_leave(&guard);
  free(request.data);
}

/* A copy in a forked child must not keep the connection. */
void gli_tcp_connection_close(gli_tcp_connection *self) {
  if (self->has_will && self->failure == FINE) connection_take_back(self);
  if (self->channel.fd >= 0) (void)shutdown(self->channel.fd, SHUT_RDWR);
  gli_tcp_connection_abandon(self);
}

void gli_tcp_connection_seal(gli_tcp_connection *self, gli_tcp_seal *seal) {
  self->seal = seal;
}

void gli_tcp_connection_set_will(gli_tcp_connection *self, bool has) {
  self->has_will = has;
}

bool gli_tcp_connection_has_will(const gli_tcp_connection *self) {
  return self->has_will;
}

void **gli_tcp_connection_next(gli_tcp_connection *self) {
  return &self->next;
}

/* ---- request and reply -------------------------------------------------- */

static void connection_on_head(gli_tcp_connection *self) {
  self->body_bytes = gli_get_u32(self->head);
  if (self->body_bytes > GLI_TCP_FRAME_MAX ||
      (gli_get_u32(self->head + 4) != 0 &&
       !gli_is_failure(-(int64_t)gli_get_u32(self->head + 4)))) {
    fail_with(self, BROKEN_REPLY);
    return;
  }
  size_t bytes = self->body_bytes + gli_tcp_seal_bytes(self->seal);
  self->body = malloc(bytes > 0 ? bytes : 1);
  if (self->body == NULL) fail_with(self, ENOMEM);
}

static size_t reply_bytes(const gli_tcp_connection *self) {
  return GLI_TCP_HEAD_BYTES + self->body_bytes + gli_tcp_seal_bytes(self->seal);
}

/* Reads the rest of the head, or of what follows it. */
static void connection_read_some(gli_tcp_connection *self) {
  uint8_t *to;
  size_t missing;
  if (self->body != NULL) {
    to = self->body + (self->got - GLI_TCP_HEAD_BYTES);
    missing = reply_bytes(self) - self->got;
  } else {
    to = self->head + self->got;
    missing = GLI_TCP_HEAD_BYTES - self->got;
  }
  ssize_t n = gli_channel_receive(&self->channel, to, missing);
  if (n < 0 && gli_would_block(errno)) return;
  if (n <= 0) {
    fail_with(self, n < 0 ? errno : ENDED);
    return;
  }
  self->got += (size_t)n;
  if (self->got == GLI_TCP_HEAD_BYTES && self->body == NULL)
    connection_on_head(self);
}

static bool is_complete(const gli_tcp_connection *self) {
  return self->body != NULL && self->got == reply_bytes(self);
}

/* How much of it is written now. */
static size_t write_some(gli_tcp_connection *self, const uint8_t *data,
                         size_t bytes) {
  ssize_t n = gli_channel_send(&self->channel, data, bytes);
  if (n >= 0) return (size_t)n;
  if (gli_would_block(errno)) return 0;
  /* A server that closes may have sent its reason: read that first. */
  if (errno == EPIPE || errno == ECONNRESET) return bytes;
  fail_with(self, errno);
  return 0;
}

static void connection_exchange(gli_tcp_connection *self,
                                const gli_frame *request,
                                uint64_t deadline_ns) {
  size_t written = write_some(self, request->data, request->bytes);
  while (self->failure == FINE &&
         (written < request->bytes || !is_complete(self))) {
    short events = is_complete(self) ? 0 : POLLIN;
    if (written < request->bytes) events |= POLLOUT;
    if (!wait_for(self, events, deadline_ns)) return;
    if (written < request->bytes)
      written +=
          write_some(self, request->data + written, request->bytes - written);
    if (!is_complete(self)) connection_read_some(self);
  }
}

static gli_tcp_reply connection_take_reply(gli_tcp_connection *self) {
  const gli_tcp_reply reply = {-(gloo_status)gli_get_u32(self->head + 4),
                               self->body,
                               {self->body, self->body_bytes}};
  self->body = NULL;
  return reply;
}

gloo_status gli_tcp_connection_call(gli_tcp_connection *self,
                                    gli_frame *request, uint64_t deadline_ns,
                                    gli_tcp_reply *reply, gloo_error *error) {
  gli_signal_guard guard;
  self->got = 0;
  gli_tcp_seal_frame(self->seal, request);
  if (request->failed)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a request");
  gli_signal_guard_enter(&guard);
  connection_exchange(self, request, deadline_ns);
  gli_signal_guard_leave(&guard);
  if (self->failure == FINE &&
      !gli_tcp_seal_holds(self->seal, self->head, self->body, self->body_bytes))
    fail_with(self, FORGED_REPLY);
  if (self->failure != FINE) return connection_explain(self, error);
  *reply = connection_take_reply(self);
  return GLOO_OK;
}

/* ---- TLS ---------------------------------------------------------------- */

/* The server says whether it takes this client's certificate. */
static gloo_status connection_be_welcomed(gli_tcp_connection *self,
                                          uint64_t deadline_ns,
                                          gloo_error *error) {
  gli_signal_guard guard;
  const gli_frame nothing = {.bytes = 0};
  self->got = 0;
  gli_signal_guard_enter(&guard);
  connection_exchange(self, &nothing, deadline_ns);
  gli_signal_guard_leave(&guard);
  if (self->failure != FINE) return GLOO_ERR_PEER;
  gli_tcp_reply reply = connection_take_reply(self);
  gloo_status status = reply.status;
  if (status != GLOO_OK) /* in the server's words */
    gli_fail(error, status, -1, "%.*s", (int)reply.body.left,
             (const char *)reply.body.at);
  free(reply.data);
  return status;
}

gloo_status gli_tcp_connection_secure(gli_tcp_connection *self,
                                      gli_tls_settings *settings,
                                      const gli_key *key, const char *host,
                                      uint64_t deadline_ns, gloo_error *error) {
  gli_tcp_name name = gli_tcp_address_name(&self->address);
  int code = gli_channel_secure(&self->channel, settings, key, host,
                                &self->address, deadline_ns, error);
  if (code == EPROTO) return error != NULL ? error->status : GLOO_ERR_AUTH;
  fail_with(self, code >= 0 ? code : OUT_OF_TIME);
  gloo_status status = GLOO_OK;
  if (self->failure == FINE)
    status = connection_be_welcomed(self, deadline_ns, error);
  if (self->failure == EBADMSG)
    return gli_fail(error, GLOO_ERR_AUTH, -1, "the TCP store at %s %s",
                    name.text, gli_tls_why(self->channel.tls));
  return self->failure == FINE ? status : connection_explain(self, error);
}
