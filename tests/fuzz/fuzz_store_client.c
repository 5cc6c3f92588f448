/* The client of a TCP store whose server sends anything. The first byte selects
 * whether there is a secret, and whether the server's greeting is right. The
 * replies follow: a status, and a piece of bytes with a correct header, and a
 * correct tag if frames have tags. Status 255 sends the bytes unchanged. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/tcp/tcp_auth.h"
#include "security/trust.h"
#include "store_use.h"

enum { HAS_SECRET = 1, GREETS = 2, AS_IT_IS = 255 };

/* Bytes that the server will send. */
typedef struct script {
  uint8_t *data;
  size_t bytes;
} script;

static void script_add(script *s, const void *data, size_t bytes) {
  s->data = realloc(s->data, s->bytes + bytes + 1);
  fuzz_check(s->data != NULL, "there is memory");
  if (bytes > 0) memcpy(s->data + s->bytes, data, bytes);
  s->bytes += bytes;
}

static void script_reply(script *s, gli_tcp_seal *seal, uint32_t status,
                         const void *body, size_t bytes) {
  gli_frame frame;
  gli_frame_begin(&frame, bytes);
  gli_frame_put_bytes(&frame, body, bytes);
  gli_frame_end(&frame, status);
  gli_tcp_seal_frame(seal, &frame);
  if (!frame.failed) script_add(s, frame.data, frame.bytes);
  free(frame.data);
}

/* Builds the greeting. Client and server have both drawn the numbers of
 * fuzz.c. */
static gli_tcp_seal *script_greet(script *s, const void *secret,
                                  size_t secret_bytes) {
  gli_trust trust;
  gli_key key;
  gli_tcp_nonces nonces;
  gli_tcp_seal *seal;
  gloo_error error;
  struct {
    uint8_t nonce[GLI_NONCE_BYTES], tag[GLI_TAG_BYTES];
  } answer;
  if (secret == NULL) {
    script_reply(s, NULL, 0, NULL, 0);
    return NULL;
  }
  memset(&nonces, 0x5a, sizeof nonces);
  memcpy(answer.nonce, nonces.server, sizeof answer.nonce);
  if (gli_trust_read(secret, secret_bytes, &trust, &error) != GLOO_OK)
    return NULL;
  bool made =
      gli_trust_store_key(&trust, "job", 7, &key, &error) == GLOO_OK &&
      gli_tcp_auth_tag(&key, &nonces, answer.tag, &error) == GLOO_OK &&
      gli_tcp_seal_create(&key, true, &nonces, &seal, &error) == GLOO_OK;
  gli_trust_release(&trust);
  if (!made) return NULL;
  script_reply(s, NULL, 0, &answer, sizeof answer);
  script_reply(s, seal, 0, NULL, 0);
  return seal;
}

static void script_read(script *s, fuzz_input *input, gli_tcp_seal *seal) {
  while (input->left > 0) {
    uint8_t status = fuzz_take_u8(input);
    fuzz_input piece = fuzz_take_piece(input);
    if (status == AS_IT_IS)
      script_add(s, piece.at, piece.left);
    else
      script_reply(s, seal, status, piece.at, piece.left);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const char secret[] = "a secret of a job";
  fuzz_input input = {data, bytes};
  uint8_t how = fuzz_take_u8(&input);
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  script s = {NULL, 0};
  gli_tcp_seal *seal = NULL;
  gloo_store *store;
  gloo_error error;
  bool keyed = (how & HAS_SECRET) != 0 && gli_openssl_version() != NULL;
  setenv("GLOO_SECURITY", keyed ? "auth" : "off", 1);
  o.host = "127.0.0.1";
  o.port = 1;
  o.job = "job";
  o.epoch = 7;
  o.timeout_ns = 1;
  o.secret = keyed ? secret : NULL;
  o.secret_bytes = keyed ? sizeof secret : 0;
  if ((how & GREETS) != 0) seal = script_greet(&s, o.secret, o.secret_bytes);
  script_read(&s, &input, seal);
  said_by_server(s.data, s.bytes);
  gloo_status status = gloo_store_tcp_create(&o, &store, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK) {
    fuzz_use_store(store);
    gloo_store_destroy(store);
  }
  gli_tcp_seal_destroy(seal);
  free(s.data);
  return 0;
}
