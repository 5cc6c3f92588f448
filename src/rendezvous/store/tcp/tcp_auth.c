#include "rendezvous/store/tcp/tcp_auth.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"

gloo_status gli_tcp_auth_tag(const gli_key *key, const gli_tcp_nonces *nonces,
                             uint8_t tag[GLI_TAG_BYTES], gloo_error *error) {
  gli_proofs proofs;
  const gli_part transcript[] = {{nonces->client, sizeof nonces->client},
                                 {nonces->server, sizeof nonces->server}};
  gloo_status status =
      gli_proofs_compute(key, "store", transcript, 2, &proofs, error);
  if (status == GLOO_OK) memcpy(tag, proofs.acceptor, GLI_TAG_BYTES);
  return status;
}

/* ---- frames -------------------------------------------------------------- */

/* State of one direction, which has its own key. */
typedef struct tag_line {
  gli_mac *mac;
  uint64_t frames; /* number of frames so far */
} tag_line;

struct gli_tcp_seal {
  tag_line sent, received;
};

static gloo_status tag_line_open(tag_line *line, const gli_key *key,
                                 const char *label,
                                 const gli_tcp_nonces *nonces,
                                 gloo_error *error) {
  gli_key own;
  const gli_part parts[] = {{nonces->client, sizeof nonces->client},
                            {nonces->server, sizeof nonces->server}};
  gloo_status status = gli_key_derive(key, label, parts, 2, &own, error);
  if (status == GLOO_OK) status = gli_mac_create(&own, &line->mac, error);
  gli_wipe(&own, sizeof own);
  return status;
}

gloo_status gli_tcp_seal_create(const gli_key *key, bool serves,
                                const gli_tcp_nonces *nonces,
                                gli_tcp_seal **seal, gloo_error *error) {
  gli_tcp_seal *made = calloc(1, sizeof *made);
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection of the TCP store");
  gloo_status status = tag_line_open(serves ? &made->received : &made->sent,
                                     key, "store requests", nonces, error);
  if (status == GLOO_OK)
    status = tag_line_open(serves ? &made->sent : &made->received, key,
                           "store replies", nonces, error);
  if (status == GLOO_OK) {
    *seal = made;
  } else {
    gli_tcp_seal_destroy(made);
  }
  return status;
}

void gli_tcp_seal_destroy(gli_tcp_seal *seal) {
  if (seal == NULL) return;
  gli_mac_destroy(seal->sent.mac);
  gli_mac_destroy(seal->received.mac);
  free(seal);
}

size_t gli_tcp_seal_bytes(const gli_tcp_seal *seal) {
  return seal != NULL ? GLI_TAG_BYTES : 0;
}

static bool tag_next(tag_line *line, const uint8_t *head, const uint8_t *body,
                     size_t body_bytes, uint8_t tag[GLI_TAG_BYTES]) {
  uint8_t number[8];
  gli_put_u64(number, line->frames++);
  const gli_part parts[] = {
      {number, sizeof number}, {head, GLI_TCP_HEAD_BYTES}, {body, body_bytes}};
  return gli_mac_tag(line->mac, parts, 3, tag, NULL) == GLOO_OK;
}

void gli_tcp_seal_frame(gli_tcp_seal *seal, gli_frame *frame) {
  uint8_t tag[GLI_TAG_BYTES];
  if (seal == NULL || frame->failed) return;
  if (tag_next(&seal->sent, frame->data, frame->data + GLI_TCP_HEAD_BYTES,
               frame->bytes - GLI_TCP_HEAD_BYTES, tag)) {
    gli_frame_put_bytes(frame, tag, sizeof tag);
  } else {
    frame->failed = true;
  }
}

bool gli_tcp_seal_holds(gli_tcp_seal *seal,
                        const uint8_t head[GLI_TCP_HEAD_BYTES],
                        const uint8_t *body, size_t body_bytes) {
  uint8_t tag[GLI_TAG_BYTES];
  if (seal == NULL) return true;
  return tag_next(&seal->received, head, body, body_bytes, tag) &&
         gli_tags_equal(tag, body + body_bytes);
}
