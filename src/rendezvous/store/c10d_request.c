#include "rendezvous/store/c10d_store.h"

#include <stdlib.h>
#include <string.h>

#include "core/exhaustion.h"
#include "core/random.h"
#include "core/text.h"
#include "rendezvous/store/value.h"

/* ---- tags ---------------------------------------------------------------- */

/* A random constant. */
static const uint8_t c10d_mark[GLI_C10D_MARK_BYTES] = {
    0xf1, 0x6d, 0x0b, 0xe4, 0x93, 0x2a, 0x57, 0xc8,
    0x1e, 0xb9, 0x70, 0xad, 0x44, 0x8f, 0x35, 0xd2};

gloo_status gli_c10d_tag_make(const gli_c10d_store *self, gli_c10d_tag *tag,
                              gloo_error *error) {
  const char *what;
  memcpy(tag->bytes, c10d_mark, GLI_C10D_MARK_BYTES);
  int code = gli_random(tag->bytes + GLI_C10D_MARK_BYTES,
                        sizeof tag->bytes - GLI_C10D_MARK_BYTES, &what);
  if (code == 0) return GLOO_OK;
  return gli_fail(error, gli_exhaustion_status(code), -1,
                  "cannot draw a random number for a request to %s: %s: %s",
                  self->base.label, what, gli_exhaustion_text(code));
}

static bool c10d_marked(const void *data, size_t bytes) {
  return bytes >= GLI_C10D_MARK_BYTES &&
         memcmp(data, c10d_mark, GLI_C10D_MARK_BYTES) == 0;
}

gloo_status gli_c10d_refuse_mark(const gli_c10d_store *self, const char *key,
                                 const void *data, size_t bytes,
                                 gloo_error *error) {
  if (!c10d_marked(data, bytes)) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "the value for key '%s' begins with the %zu bytes that mark "
                  "the library's own values in %s: change the value",
                  gli_quote(key).text, GLI_C10D_MARK_BYTES, self->base.label);
}

gloo_value gli_c10d_untagged(const gloo_value *raw) {
  if (!c10d_marked(raw->data, raw->bytes) || raw->bytes < sizeof(gli_c10d_tag))
    return *raw;
  return (gloo_value){(uint8_t *)raw->data + sizeof(gli_c10d_tag),
                      raw->bytes - sizeof(gli_c10d_tag)};
}

bool gli_c10d_equal(const gloo_value *a, const gloo_value *b) {
  return gli_value_matches(a, b->data, b->bytes);
}

/* ---- requests ------------------------------------------------------------ */

void gli_c10d_put_key(const gli_c10d_store *self, gli_frame *frame,
                      const char *key) {
  gli_c10d_put_text(frame, self->prefix, self->prefix_bytes, key, strlen(key));
}

void gli_c10d_put_keys(const gli_c10d_store *self, gli_frame *frame,
                       gli_c10d_op op, const char *const *keys, size_t n_keys) {
  gli_c10d_put_op(frame, op);
  gli_c10d_put_u64(frame, n_keys);
  for (size_t i = 0; i < n_keys; i++) gli_c10d_put_key(self, frame, keys[i]);
}

void gli_c10d_put_set(const gli_c10d_store *self, gli_frame *frame,
                      gli_c10d_op op, const char *key, const void *data,
                      size_t bytes) {
  gli_c10d_put_op(frame, op);
  gli_c10d_put_key(self, frame, key);
  gli_c10d_put_text(frame, data, bytes, NULL, 0);
}

void gli_c10d_put_compare(const gli_c10d_store *self, gli_frame *frame,
                          const char *key, const gloo_value *expected,
                          const gloo_value *desired) {
  gli_c10d_put_set(self, frame, GLI_C10D_COMPARE_SET, key, expected->data,
                   expected->bytes);
  gli_c10d_put_text(frame, desired->data, desired->bytes, NULL, 0);
}

void gli_c10d_put_end(gli_frame *frame) {
  gli_c10d_put_op(frame, GLI_C10D_COUNT);
}

void gli_c10d_take_end(gli_c10d_connection *connection) {
  uint64_t keys;
  (void)gli_c10d_take_u64(connection, &keys);
}

uint64_t gli_c10d_patience(const gli_c10d_store *self, uint64_t deadline_ns) {
  uint64_t soon = gli_deadline_after(GLI_C10D_GRACE_NS);
  uint64_t limit = gli_tcp_within(deadline_ns, self->timeout_ns);
  return limit > soon ? limit : soon;
}

gloo_status gli_c10d_begin(gli_c10d_store *self, gli_frame *request,
                           uint64_t limit, gli_c10d_connection **connection,
                           gloo_error *error) {
  gli_store_conn *taken;
  gloo_status status = GLOO_OK;
  if (request->failed)
    status = gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "no memory for a request to %s", self->base.label);
  if (status == GLOO_OK)
    status = gli_tcp_pool_take(&self->pool, limit, &taken, error);
  if (status != GLOO_OK) {
    free(request->data);
    return status;
  }
  *connection = (gli_c10d_connection *)taken;
  gli_c10d_send(*connection, request, limit);
  return GLOO_OK;
}

gloo_status gli_c10d_end(gli_c10d_store *self, gli_frame *request,
                         gli_c10d_connection *connection, gloo_error *error) {
  gloo_status status = gli_c10d_finish(connection, error);
  if (status == GLOO_OK) {
    gli_tcp_pool_keep(&self->pool, &connection->base);
  } else {
    gli_tcp_pool_drop(&self->pool, &connection->base);
  }
  free(request->data);
  return status;
}

/* ---- the value of a key -------------------------------------------------- */

static gloo_status c10d_compare(gli_c10d_store *self, const char *key,
                                const gloo_value *expected,
                                const gloo_value *desired, uint64_t limit,
                                gloo_value *answer, gloo_error *error) {
  gli_frame request;
  gli_c10d_connection *connection;
  gli_frame_begin(&request, 2048 + expected->bytes + desired->bytes);
  gli_c10d_put_compare(self, &request, key, expected, desired);
  gli_c10d_put_end(&request);
  *answer = (gloo_value){NULL, 0};
  gloo_status status =
      gli_c10d_begin(self, &request, limit, &connection, error);
  if (status != GLOO_OK) return status;
  (void)gli_c10d_take_text(connection, answer);
  gli_c10d_take_end(connection);
  status = gli_c10d_end(self, &request, connection, error);
  if (status != GLOO_OK) gli_value_free(answer);
  return status;
}

gloo_status gli_c10d_look(gli_c10d_store *self, const char *key, uint64_t limit,
                          bool *present, gloo_value *raw, gloo_error *error) {
  gli_c10d_tag tag;
  gloo_status status = gli_c10d_tag_make(self, &tag, error);
  if (status != GLOO_OK) return status;
  gloo_value question = {tag.bytes, sizeof tag.bytes};
  status = c10d_compare(self, key, &question, &question, limit, raw, error);
  *present = status == GLOO_OK && !gli_c10d_equal(raw, &question);
  if (!*present) gli_value_free(raw);
  return status;
}

gloo_status gli_c10d_restless(const gli_c10d_store *self, const char *key,
                              gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_PEER, -1,
      "%s kept changing its answer about key '%s' until the timeout",
      self->base.label, gli_quote(key).text);
}

gloo_status gli_c10d_settle(gli_c10d_store *self, const char *key,
                            bool *present, gloo_value *value,
                            gloo_error *error) {
  uint64_t limit = gli_c10d_patience(self, GLI_NEVER);
  for (;;) {
    gloo_value answer;
    gloo_status status = gli_c10d_look(self, key, limit, present, value, error);
    if (status != GLOO_OK) return status;
    gloo_value bare = gli_c10d_untagged(value);
    if (bare.bytes == value->bytes) return GLOO_OK;
    status = c10d_compare(self, key, value, &bare, limit, &answer, error);
    gli_value_free(value);
    gli_value_free(&answer);
    if (status == GLOO_OK && gli_deadline_left(limit) == 0)
      status = gli_c10d_restless(self, key, error);
    if (status != GLOO_OK) return status;
  }
}
