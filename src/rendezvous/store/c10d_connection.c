#include "rendezvous/store/c10d_connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "net/tcp_address.h"
#include "rendezvous/store/tcp/tcp_pool.h"

#define C10D_MAGIC UINT32_C(0x3c85f7ce)
#define C10D_NONCE UINT32_C(0x676c6f6f) /* "gloo" */

/* Cause of an end that store_conn.h does not define: a value's length. */
enum { C10D_TOO_LONG = GLI_CONN_OTHER };

static const gli_store_words c10d_words = {
    .server = "the c10d store's server",
    .kind = "a server of a c10d store",
    .early =
        "it is not a c10d store server, has another byte order, or exited at "
        "that moment",
    .closed = "it has exited, or refused a request",
};

/* ---- requests ------------------------------------------------------------ */

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

/* ---- an exchange --------------------------------------------------------- */

void gli_c10d_send(gli_c10d_connection *self, const gli_frame *frame,
                   uint64_t deadline_ns) {
  gli_store_conn_send(&self->base, frame->data + GLI_TCP_HEAD_BYTES,
                      frame->bytes - GLI_TCP_HEAD_BYTES, deadline_ns);
}

bool gli_c10d_take_u8(gli_c10d_connection *self, uint8_t *value) {
  return gli_store_conn_take(&self->base, value, sizeof *value);
}

bool gli_c10d_take_u64(gli_c10d_connection *self, uint64_t *value) {
  return gli_store_conn_take(&self->base, value, sizeof *value);
}

bool gli_c10d_take_text(gli_c10d_connection *self, gloo_value *value) {
  uint64_t bytes;
  void *data = NULL;
  if (!gli_c10d_take_u64(self, &bytes)) return false;
  if (bytes > GLOO_STORE_VALUE_MAX) {
    self->too_long = bytes;
    gli_store_conn_fail(&self->base, C10D_TOO_LONG);
    return false;
  }
  if (bytes > 0) {
    data = malloc((size_t)bytes);
    if (data == NULL) gli_store_conn_fail(&self->base, ENOMEM);
    if (!gli_store_conn_take(&self->base, data, (size_t)bytes)) {
      free(data);
      return false;
    }
  }
  *value = (gloo_value){data, (size_t)bytes};
  return true;
}

void gli_c10d_refuse(gli_c10d_connection *self) {
  gli_store_conn_fail(&self->base, GLI_CONN_NONSENSE);
}

gloo_status gli_c10d_finish(gli_c10d_connection *self, gloo_error *error) {
  if (self->base.conn.code != C10D_TOO_LONG)
    return gli_store_conn_finish(&self->base, error);
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the c10d store at %s sent a value of %" PRIu64
                  " bytes; the limit is %zu",
                  gli_tcp_address_name(&self->base.address).text,
                  self->too_long, GLOO_STORE_VALUE_MAX);
}

/* ---- open and close ------------------------------------------------------ */

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
    gli_store_conn_fail(&self->base, ENOMEM);
  } else {
    gli_c10d_send(self, &frame, deadline_ns);
    if (gli_store_conn_take(&self->base, &echo, sizeof echo) &&
        echo != C10D_NONCE)
      gli_c10d_refuse(self);
  }
  free(frame.data);
}

gloo_status gli_c10d_connection_open(const struct sockaddr_storage *address,
                                     uint64_t deadline_ns,
                                     gli_store_conn **connection,
                                     gloo_error *error) {
  gli_c10d_connection *self = calloc(1, sizeof *self);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to a c10d store");
  gli_store_conn_init(&self->base, &c10d_words, NULL, address);
  if (gli_store_conn_open(&self->base,
                          gli_tcp_within(deadline_ns, GLI_TCP_ATTEMPT_NS)))
    c10d_greet(self, gli_tcp_within(deadline_ns, GLI_TCP_GREETING_NS));
  gloo_status status = gli_c10d_finish(self, error);
  if (status != GLOO_OK) {
    gli_store_conn_free(&self->base);
    return status;
  }
  gli_store_conn_greeted(&self->base);
  *connection = &self->base;
  return GLOO_OK;
}
