#include "rendezvous/store/c10d_connection.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/lack.h"
#include "core/signals.h"
#include "net/tcp_address.h"
#include "net/tcp_socket.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/tcp_pool.h"

#define C10D_MAGIC UINT32_C(0x3c85f7ce)
#define C10D_NONCE UINT32_C(0x676c6f6f) /* "gloo" */

/* A call that fails leaves its errno in `failure`; what is no error of the
 * system has a code of its own. */
enum {
  C10D_FINE = 0,
  C10D_OUT_OF_TIME = -1, /* as of gli_store_socket_wait */
  C10D_NO_SENSE = -2,
  C10D_ENDED = -3,
  C10D_TOO_LONG = -4
};

struct gli_c10d_connection {
  void *next;
  int fd;
  int failure;
  bool greeted;
  struct sockaddr_storage address;
  const uint8_t *unsent;
  size_t unsent_bytes;
  uint64_t deadline_ns;
  uint64_t too_long; /* bytes of a value */
};

/* ---- requests ----------------------------------------------------------- */

void gli_c10d_put_op(gli_frame *frame, gli_c10d_op op) {
  const uint8_t byte = (uint8_t)op;
  gli_frame_put_bytes(frame, &byte, sizeof byte);
}

void gli_c10d_put_u64(gli_frame *frame, uint64_t value) {
  gli_frame_put_bytes(frame, &value, sizeof value);
}

void gli_c10d_put_text(gli_frame *frame, const void *first, size_t first_bytes,
                       const void *then, size_t then_bytes) {
  gli_c10d_put_u64(frame, (uint64_t)first_bytes + then_bytes);
  gli_frame_put_bytes(frame, first, first_bytes);
  gli_frame_put_bytes(frame, then, then_bytes);
}

/* ---- failures ----------------------------------------------------------- */

static void c10d_fail_with(gli_c10d_connection *self, int code) {
  if (self->failure == C10D_FINE) self->failure = code;
}

static gloo_status c10d_explain_end(const gli_c10d_connection *self,
                                    const char *where, gloo_error *error) {
  if (!self->greeted)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "what answers at %s closed the connection at once: it is "
                    "no server of a c10d store, or one on a machine of another "
                    "byte order, or it ended just then",
                    where);
  return gli_fail(error, GLOO_ERR_PEER, -1,
                  "the c10d store's server at %s closed the connection: it has "
                  "ended, or refused a request",
                  where);
}

static gloo_status c10d_explain(const gli_c10d_connection *self,
                                gloo_error *error) {
  gli_tcp_name name = gli_tcp_address_name(&self->address);
  if (self->failure > 0 && gli_lacking(self->failure))
    return gli_fail(error, gli_lack_status(self->failure), -1,
                    "cannot talk to the c10d store's server at %s: %s",
                    name.text, gli_lack_text(self->failure));
  switch (self->failure) {
    case C10D_FINE:
      return GLOO_OK;
    case C10D_OUT_OF_TIME:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the c10d store's server at %s did not answer in time",
                      name.text);
    case C10D_NO_SENSE:
      if (self->greeted)
        return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                        "the c10d store's server at %s sent a reply that makes "
                        "no sense",
                        name.text);
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "what answers at %s is not a server of a c10d store: "
                      "check host and port",
                      name.text);
    case C10D_TOO_LONG:
      return gli_fail(error, GLOO_ERR_INVALID, -1,
                      "the c10d store at %s sent a value of %" PRIu64
                      " bytes: a value has at most %zu",
                      name.text, self->too_long, GLOO_STORE_VALUE_MAX);
    case C10D_ENDED:
    case ECONNRESET:
    case EPIPE:
      return c10d_explain_end(self, name.text, error);
    default:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the c10d store's server at %s cannot be reached: %s",
                      name.text,
                      uv_strerror(uv_translate_sys_error(self->failure)));
  }
}

/* ---- an exchange -------------------------------------------------------- */

/* One step: as much as can be sent now. */
static void c10d_send_some(gli_c10d_connection *self) {
  gli_signal_guard guard;
  if (self->unsent_bytes == 0 || self->failure != C10D_FINE) return;
  gli_signal_guard_enter(&guard);
  ssize_t n = gli_store_socket_send(self->fd, self->unsent, self->unsent_bytes);
  int code = errno;
  gli_signal_guard_leave(&guard);
  if (n >= 0) {
    self->unsent += n;
    self->unsent_bytes -= (size_t)n;
  } else if (!gli_would_block(code)) {
    c10d_fail_with(self, code);
  }
}

void gli_c10d_send(gli_c10d_connection *self, const gli_frame *frame,
                   uint64_t deadline_ns) {
  self->unsent = frame->data + GLI_TCP_HEAD_BYTES;
  self->unsent_bytes = frame->bytes - GLI_TCP_HEAD_BYTES;
  self->deadline_ns = deadline_ns;
  c10d_send_some(self);
}

bool gli_c10d_await(gli_c10d_connection *self, uint64_t until_ns) {
  while (self->unsent_bytes > 0 && self->failure == C10D_FINE) {
    int code = gli_store_socket_wait(self->fd, POLLOUT, self->deadline_ns);
    c10d_fail_with(self, code);
    c10d_send_some(self);
  }
  if (self->failure != C10D_FINE) return true;
  int code = gli_store_socket_wait(self->fd, POLLIN, until_ns);
  if (code == C10D_OUT_OF_TIME) return false;
  c10d_fail_with(self, code);
  return true;
}

/* Receives exactly `bytes` bytes, and sends pending bytes meanwhile: a server
 * may reply to the first of several requests before it reads the others. */
static bool c10d_take(gli_c10d_connection *self, void *to, size_t bytes) {
  uint8_t *at = to;
  while (bytes > 0 && self->failure == C10D_FINE) {
    ssize_t n = gli_store_socket_receive(self->fd, at, bytes);
    if (n > 0) {
      at += n;
      bytes -= (size_t)n;
      continue;
    }
    if (n == 0 || !gli_would_block(errno)) {
      c10d_fail_with(self, n == 0 ? C10D_ENDED : errno);
      break;
    }
    short events = self->unsent_bytes > 0 ? POLLIN | POLLOUT : POLLIN;
    c10d_fail_with(self,
                   gli_store_socket_wait(self->fd, events, self->deadline_ns));
    c10d_send_some(self);
  }
  return self->failure == C10D_FINE;
}

bool gli_c10d_take_u8(gli_c10d_connection *self, uint8_t *value) {
  return c10d_take(self, value, sizeof *value);
}

bool gli_c10d_take_u64(gli_c10d_connection *self, uint64_t *value) {
  return c10d_take(self, value, sizeof *value);
}

bool gli_c10d_take_text(gli_c10d_connection *self, gloo_value *value) {
  uint64_t bytes;
  void *data = NULL;
  if (!gli_c10d_take_u64(self, &bytes)) return false;
  if (bytes > GLOO_STORE_VALUE_MAX) {
    self->too_long = bytes;
    c10d_fail_with(self, C10D_TOO_LONG);
    return false;
  }
  if (bytes > 0) {
    data = malloc((size_t)bytes);
    if (data == NULL) c10d_fail_with(self, ENOMEM);
    if (!c10d_take(self, data, (size_t)bytes)) {
      free(data);
      return false;
    }
  }
  *value = (gloo_value){data, (size_t)bytes};
  return true;
}

void gli_c10d_refuse(gli_c10d_connection *self) {
  c10d_fail_with(self, C10D_NO_SENSE);
}

gloo_status gli_c10d_finish(gli_c10d_connection *self, gloo_error *error) {
  if (self->unsent_bytes > 0) c10d_fail_with(self, C10D_NO_SENSE);
  return c10d_explain(self, error);
}

bool gli_c10d_connection_usable(gli_c10d_connection *self) {
  return gli_store_socket_wait(self->fd, POLLIN, 0) == C10D_OUT_OF_TIME;
}

/* ---- open and close ----------------------------------------------------- */

static void c10d_greet(gli_c10d_connection *self, uint64_t deadline_ns) {
  const uint32_t magic = C10D_MAGIC, nonce = C10D_NONCE;
  uint32_t echo;
  gli_frame frame;
  gli_frame_begin(&frame, 16);
  gli_c10d_put_op(&frame, GLI_C10D_VALIDATE);
  gli_frame_put_bytes(&frame, &magic, sizeof magic);
  gli_c10d_put_op(&frame, GLI_C10D_PING);
  gli_frame_put_bytes(&frame, &nonce, sizeof nonce);
  if (frame.failed) {
    c10d_fail_with(self, ENOMEM);
  } else {
    gli_c10d_send(self, &frame, deadline_ns);
    if (c10d_take(self, &echo, sizeof echo) && echo != C10D_NONCE)
      gli_c10d_refuse(self);
  }
  free(frame.data);
}

gloo_status gli_c10d_connection_open(const struct sockaddr_storage *address,
                                     uint64_t deadline_ns,
                                     gli_c10d_connection **connection,
                                     gloo_error *error) {
  gli_c10d_connection *self = calloc(1, sizeof *self);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to a c10d store");
  self->address = *address;
  self->fd = gli_socket_open(address->ss_family, SOCK_STREAM);
  c10d_fail_with(self, self->fd < 0 ? errno
                                    : gli_store_socket_connect(
                                          self->fd, address,
                                          gli_tcp_within(deadline_ns,
                                                         GLI_TCP_ATTEMPT_NS)));
  if (self->failure == C10D_FINE) {
    gli_store_socket_tune(self->fd);
    c10d_greet(self, gli_tcp_within(deadline_ns, GLI_TCP_GREETING_NS));
  }
  gloo_status status = gli_c10d_finish(self, error);
  if (status != GLOO_OK) {
    gli_c10d_connection_close(self);
    return status;
  }
  self->greeted = true;
  *connection = self;
  return GLOO_OK;
}

void gli_c10d_connection_abandon(gli_c10d_connection *self) {
  gli_fd_close(self->fd);
  free(self);
}

/* A copy in a forked child must not keep the connection. */
void gli_c10d_connection_close(gli_c10d_connection *self) {
  if (self->fd >= 0) (void)shutdown(self->fd, SHUT_RDWR);
  gli_c10d_connection_abandon(self);
}

void **gli_c10d_connection_next(void *connection) {
  gli_c10d_connection *self = connection;
  return &self->next;
}
