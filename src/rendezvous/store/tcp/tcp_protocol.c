#include "rendezvous/store/tcp/tcp_protocol.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"

void gli_frame_begin(gli_frame *frame, size_t expect) {
  *frame = (gli_frame){.room = GLI_TCP_HEAD_BYTES + expect + GLI_TAG_BYTES};
  frame->data = malloc(frame->room);
  frame->failed = frame->data == NULL;
  frame->bytes = GLI_TCP_HEAD_BYTES;
}

static bool protocol_reserve(gli_frame *frame, size_t bytes) {
  if (frame->failed) return false;
  if (bytes <= frame->room - frame->bytes) return true;
  size_t room = frame->room * 2;
  if (bytes > GLI_TCP_FRAME_MAX) goto fail;
  if (room - frame->bytes < bytes) room = frame->bytes + bytes;
  uint8_t *data = realloc(frame->data, room);
  if (data == NULL) goto fail;
  frame->data = data;
  frame->room = room;
  return true;

fail:
  frame->failed = true;
  return false;
}

void gli_frame_put_u32(gli_frame *frame, uint32_t value) {
  if (!protocol_reserve(frame, 4)) return;
  gli_put_u32(frame->data + frame->bytes, value);
  frame->bytes += 4;
}

void gli_frame_put_u64(gli_frame *frame, uint64_t value) {
  if (!protocol_reserve(frame, 8)) return;
  gli_put_u64(frame->data + frame->bytes, value);
  frame->bytes += 8;
}

void gli_frame_put_bytes(gli_frame *frame, const void *data, size_t bytes) {
  if (bytes == 0 || !protocol_reserve(frame, bytes)) return;
  memcpy(frame->data + frame->bytes, data, bytes);
  frame->bytes += bytes;
}

void gli_frame_put_blob(gli_frame *frame, const void *data, size_t bytes) {
  gli_frame_put_u32(frame, (uint32_t)bytes);
  gli_frame_put_bytes(frame, data, bytes);
}

void gli_frame_put_key(gli_frame *frame, const char *key) {
  gli_frame_put_blob(frame, key, strlen(key) + 1);
}

void gli_frame_put_will(gli_frame *frame, const gli_will *will) {
  gli_frame_put_u32(frame, (uint32_t)will->n);
  gli_frame_put_u32(frame, (uint32_t)will->n_if);
  for (size_t i = 0; i < will->n; i++) {
    gli_frame_put_key(frame, will->keys[i]);
    gli_frame_put_blob(frame, will->values[i].data, will->values[i].bytes);
  }
}

void gli_frame_end(gli_frame *frame, uint32_t word) {
  if (frame->bytes - GLI_TCP_HEAD_BYTES > GLI_TCP_FRAME_MAX)
    frame->failed = true;
  if (frame->failed) return;
  gli_put_u32(frame->data, (uint32_t)(frame->bytes - GLI_TCP_HEAD_BYTES));
  gli_put_u32(frame->data + 4, word);
}

bool gli_body_u32(gli_body *body, uint32_t *value) {
  if (body->left < 4) return false;
  *value = gli_get_u32(body->at);
  body->at += 4;
  body->left -= 4;
  return true;
}

bool gli_body_u64(gli_body *body, uint64_t *value) {
  if (body->left < 8) return false;
  *value = gli_get_u64(body->at);
  body->at += 8;
  body->left -= 8;
  return true;
}

bool gli_body_blob(gli_body *body, size_t max_bytes, const void **data,
                   size_t *bytes) {
  uint32_t length;
  if (!gli_body_u32(body, &length)) return false;
  if (length > max_bytes || length > body->left) return false;
  *data = body->at;
  *bytes = length;
  body->at += length;
  body->left -= length;
  return true;
}

bool gli_body_string(gli_body *body, size_t min_bytes, size_t max_bytes,
                     const char **text) {
  const void *data;
  size_t bytes;
  if (!gli_body_blob(body, max_bytes + 1, &data, &bytes)) return false;
  if (bytes < min_bytes + 1) return false;
  if (memchr(data, 0, bytes) != (const uint8_t *)data + bytes - 1) return false;
  *text = data;
  return true;
}

bool gli_body_key(gli_body *body, const char **key) {
  return gli_body_string(body, 1, GLOO_STORE_KEY_MAX, key);
}

bool gli_body_will(gli_body *body, uint32_t *n, uint32_t *n_if) {
  return gli_body_u32(body, n) && gli_body_u32(body, n_if) && *n_if <= *n;
}

bool gli_body_will_next(gli_body *body, const char **key, gloo_value *value) {
  const void *data;
  if (!gli_body_key(body, key) ||
      !gli_body_blob(body, GLOO_STORE_VALUE_MAX, &data, &value->bytes))
    return false;
  value->data = (void *)(uintptr_t)data;
  return true;
}
