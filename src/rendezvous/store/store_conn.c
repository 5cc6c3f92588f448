#include "rendezvous/store/store_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/signals.h"
#include "net/interfaces.h"
#include "net/progress.h"
#include "net/tcp_address.h"

/* Detects a lost host within 20 s. */
enum { KEEPALIVE_IDLE_S = 10, KEEPALIVE_INTERVAL_S = 1, KEEPALIVE_PROBES = 10 };

void gli_store_conn_tune(int fd) {
  gli_socket_tune(fd, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES);
}

void gli_store_conn_init(gli_store_conn *self, const gli_store_words *words,
                         const char *name,
                         const struct sockaddr_storage *address) {
  *self = (gli_store_conn){.words = words, .name = name, .address = *address};
  gli_conn_init(&self->conn, NULL, NULL);
}

bool gli_store_conn_open(gli_store_conn *self, uint64_t deadline_ns) {
  const gli_endpoint *to = (const gli_endpoint *)&self->address;
  int code = gli_conn_open(&self->conn, NULL, to->any.sa_family);
  if (code == 0) code = gli_conn_connect(&self->conn, to);
  if (code != 0) gli_conn_end(&self->conn, code);
  if (!gli_conn_finish(&self->conn, deadline_ns)) return false;
  gli_store_conn_tune(self->conn.watch.fd);
  return true;
}

gloo_status gli_store_conn_secure(gli_store_conn *self,
                                  gli_tls_settings *settings,
                                  const gli_key *key, const char *host,
                                  uint64_t deadline_ns, gloo_error *error) {
  gli_endpoint at;
  gli_conn *conn = &self->conn;
  gloo_status status = gli_conn_secure(conn, settings, false, key, error);
  if (status != GLOO_OK) return status;
  if (gli_conn_finish(conn, deadline_ns)) {
    memcpy(&at, &self->address, sizeof at);
    gli_endpoint_unmap(&at);
    if (gli_tls_is_host(conn->tls, host, &at)) return GLOO_OK;
    gli_conn_end(conn, EBADMSG);
  }
  return gli_store_conn_explain(self, error);
}

void gli_store_conn_greeted(gli_store_conn *self) {
  self->greeted = true;
  gli_conn_move(&self->conn, GLI_CONN_UP);
}

/* ---- requests and replies ------------------------------------------------ */

static bool store_conn_unsent(const gli_store_conn *self) {
  return self->out_sent < self->out_bytes;
}

/* Sends as much as the system accepts now. */
static void store_conn_send_some(gli_store_conn *self) {
  gli_signal_guard guard;
  if (!store_conn_unsent(self) || gli_store_conn_ended(self)) return;
  gli_signal_guard_enter(&guard);
  ssize_t n = gli_conn_write(&self->conn, self->out + self->out_sent,
                             self->out_bytes - self->out_sent);
  int code = errno;
  gli_signal_guard_leave(&guard);
  if (n >= 0)
    self->out_sent += (size_t)n;
  else if (code == EPIPE || code == ECONNRESET)
    self->out_sent = self->out_bytes; /* the server's reason may be readable */
  else if (!gli_would_block(code))
    gli_conn_end(&self->conn, code);
}

void gli_store_conn_send(gli_store_conn *self, const void *data, size_t bytes,
                         uint64_t deadline_ns) {
  self->out = data;
  self->out_bytes = bytes;
  self->out_sent = 0;
  gli_store_conn_flush(self, deadline_ns);
}

void gli_store_conn_flush(gli_store_conn *self, uint64_t deadline_ns) {
  self->asked = store_conn_unsent(self);
  self->deadline_ns = deadline_ns;
  store_conn_send_some(self);
}

/* Waits until unsent bytes can be sent, or with `reads` until there is
 * something to read. */
static void store_conn_wait(gli_store_conn *self, bool reads) {
  gli_signal_guard guard;
  int events = reads ? GLI_READABLE : 0;
  if (store_conn_unsent(self)) events |= GLI_WRITABLE;
  gli_signal_guard_enter(&guard);
  int code = gli_conn_wait(&self->conn, events, self->deadline_ns);
  gli_signal_guard_leave(&guard);
  if (code != 0) gli_conn_end(&self->conn, code);
  store_conn_send_some(self);
}

bool gli_store_conn_await(gli_store_conn *self, uint64_t until_ns) {
  while (store_conn_unsent(self) && !gli_store_conn_ended(self))
    store_conn_wait(self, false);
  if (gli_store_conn_ended(self)) return true;
  int code = gli_conn_wait(&self->conn, GLI_READABLE, until_ns);
  if (code == GLI_CONN_LATE) return false;
  if (code != 0) gli_conn_end(&self->conn, code);
  self->asked = false;
  return true;
}

size_t gli_store_conn_receive(gli_store_conn *self, void *to, size_t room) {
  while (!gli_store_conn_ended(self)) {
    /* A reply cannot have arrived before the first wait. */
    ssize_t n = -1;
    errno = EAGAIN;
    if (!self->asked) n = gli_conn_read(&self->conn, to, room);
    if (n > 0) return (size_t)n;
    if (n == 0)
      gli_conn_end(&self->conn, GLI_CONN_CLOSED);
    else if (!gli_would_block(errno))
      gli_conn_end(&self->conn, errno);
    else
      store_conn_wait(self, true);
    self->asked = false;
  }
  return 0;
}

bool gli_store_conn_take(gli_store_conn *self, void *to, size_t bytes) {
  uint8_t *at = to;
  while (bytes > 0) {
    size_t n = gli_store_conn_receive(self, at, bytes);
    if (n == 0) return false;
    at += n;
    bytes -= n;
  }
  return !gli_store_conn_ended(self);
}

bool gli_store_conn_rests(gli_store_conn *self, uint64_t until_ns) {
  return gli_conn_wait(&self->conn, GLI_READABLE, until_ns) == GLI_CONN_LATE;
}

/* ---- ending -------------------------------------------------------------- */

void gli_store_conn_fail(gli_store_conn *self, int code) {
  gli_conn_end(&self->conn, code);
}

/* Ends the exchange. A reply before its request was sent is an error. */
gloo_status gli_store_conn_finish(gli_store_conn *self, gloo_error *error) {
  if (store_conn_unsent(self)) gli_conn_end(&self->conn, GLI_CONN_NONSENSE);
  self->out_bytes = self->out_sent = 0;
  return gli_store_conn_ended(self) ? gli_store_conn_explain(self, error)
                                    : GLOO_OK;
}

/* Formats " from 10.0.0.2 on eth0", or "". */
static void store_conn_way(const gli_store_conn *self, char way[GLI_WAY_BYTES],
                           const char **lack) {
  const gli_endpoint *to = (const gli_endpoint *)&self->address;
  gli_interfaces own;
  way[0] = '\0';
  *lack = NULL;
  if (gli_interfaces_read(&own, NULL) != GLOO_OK) return;
  gli_interfaces_way(&own, to, way);
  *lack = gli_interfaces_lack(&own, to);
  gli_interfaces_free(&own);
}

/* Fills the error for a server that is silent. */
static gloo_status store_conn_silent(const gli_store_conn *self,
                                     const char *name, gloo_error *error) {
  gli_endpoint here, there;
  gli_tcp_progress now = {0};
  int fd = self->conn.watch.fd;
  bool known = fd >= 0 && gli_tcp_socket_progress(fd, &now);
  char way[GLI_WAY_BYTES];
  const char *lack, *cause = "";
  if (fd >= 0 && !gli_conn_ends(&self->conn, &here, &there)) {
    store_conn_way(self, way, &lack);
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "%s did not answer in time: no packet comes back (sent%s), "
                    "because the address is wrong, its host is down, or a "
                    "firewall drops packets to this port",
                    name, way);
  }
  if (known && now.repeats > 0 && now.queued >= now.segment)
    cause = ": the path drops long packets; " GLI_MTU_ADVICE;
  else if (known && (self->greeted || self->conn.tls != NULL) &&
           !gli_endpoint_same_address(&here, &there) &&
           gli_tcp_progress_unproved(&now))
    cause = ": it is stopped, or the path drops long packets; " GLI_MTU_ADVICE;
  else if (fd >= 0 && !self->greeted)
    cause =
        ": it accepts connections and sends nothing, because it is "
        "stopped, or a proxy or another program listens there";
  return gli_fail(error, GLOO_ERR_PEER, -1, "%s did not answer in time%s", name,
                  cause);
}

/* Fills the error for an address to which no connection can be made. */
static gloo_status store_conn_unconnected(const gli_store_conn *self,
                                          const char *name, int code,
                                          gloo_error *error) {
  gli_tcp_name at = gli_tcp_address_name(&self->address);
  bool named = self->name != NULL;
  bool unreachable = code == ENETUNREACH || code == EHOSTUNREACH;
  char way[GLI_WAY_BYTES] = "";
  const char *lack = NULL;
  if (unreachable) store_conn_way(self, way, &lack);
  if (unreachable && lack == NULL)
    lack =
        "use an address of its host to which this host has a route, and "
        "check that no firewall rejects the port";
  return gli_fail(error, GLOO_ERR_PEER, -1,
                  "cannot connect to %s%s%s%s%s: %s%s%s", name,
                  named ? " (" : "", named ? at.text : "", named ? ")" : "",
                  way, uv_strerror(uv_translate_sys_error(code)),
                  lack != NULL ? "; " : "", lack != NULL ? lack : "");
}

gloo_status gli_store_conn_explain(const gli_store_conn *self,
                                   gloo_error *error) {
  const gli_store_words *words = self->words;
  gli_tcp_name at = gli_tcp_address_name(&self->address);
  char named[128];
  const char *name = self->name;
  int code = self->conn.code;
  if (name == NULL) {
    (void)snprintf(named, sizeof named, "%s at %s", words->server, at.text);
    name = named;
  }
  if (code > 0 && gli_is_exhaustion(code))
    return gli_fail(error, gli_exhaustion_status(code), -1,
                    "cannot connect to %s: %s", name,
                    gli_exhaustion_text(code));
  switch (code) {
    case GLI_CONN_LATE:
      return store_conn_silent(self, name, error);
    case GLI_CONN_NONSENSE:
      if (!self->greeted)
        return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                        "%s sent an invalid reply: the program that listens "
                        "there is not %s; check host and port",
                        name, words->kind);
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1, "%s sent an invalid reply",
                      name);
    case EBADMSG: /* TLS may refuse after the handshake */
      return gli_fail(error, self->greeted ? GLOO_ERR_PROTOCOL : GLOO_ERR_AUTH,
                      -1, "%s %s", name, gli_tls_why(self->conn.tls));
    case GLI_CONN_CLOSED:
    case ECONNRESET:
    case EPIPE:
      return gli_fail(error, GLOO_ERR_PEER, -1, "%s closed the connection: %s",
                      name, self->greeted ? words->closed : words->early);
    default:
      return store_conn_unconnected(self, name, code, error);
  }
}

void gli_store_conn_free(gli_store_conn *self) {
  gli_conn_close(&self->conn);
  free(self);
}

void gli_store_conn_abandon(gli_store_conn *self) {
  gli_conn_forked(&self->conn);
  gli_store_conn_free(self);
}
