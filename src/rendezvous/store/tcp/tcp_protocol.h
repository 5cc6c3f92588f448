/* The TCP store's protocol: one request, one reply, per connection.
 *
 * Request:  u32 size of the body, u32 operation, body
 * Reply:    u32 size of the body, u32 status (0 - gloo_status), body
 * Numbers are little endian; a blob is a u32 length and its bytes; a key is a
 * blob that ends with its only zero byte.
 *
 *   HELLO    u64 magic, u32 version, u32 form, and then
 *            0: u64 epoch, key-like blob job -> empty
 *            1: the nonce of the client -> the nonce of the server, and the tag
 *            that proves that it knows the key (tcp_auth.h)
 *            2: u32 kind of TLS -> empty. TLS follows; in it the server first
 *            sends a reply that accepts or refuses the client, and HELLO is
 *            repeated
 *   PROVE    empty -> empty. After a HELLO of form 1; from this request on each
 *            frame of both sides is followed by a tag, which the head does not
 *            count
 *   SET      key, blob value -> empty
 *   FETCH    i64 timeout_ns, u32 want values, key-like blob alarm, u32 n,
 *            n keys
 *            -> u32 k, k blobs: the values of the first k keys (as many as fit;
 *            0 without `want values`). GLOO_ERR_TIMEOUT -> n bytes, 1: present.
 *            GLOO_ERR_POISONED -> empty: the key `alarm` exists ("": none),
 *            and not all of the others
 *   ADD      key, i64 amount -> i64 sum
 *   COMPARE  key, blob expected, blob desired, u32 want current
 *            -> blob current, with GLOO_OK and GLOO_ERR_COMPARE
 *   APPEND   key, blob value -> empty
 *   REMOVE   key -> empty
 *   WILL     u32 n, u32 n_if, n times (key, blob value) -> empty. The keys to
 *            set if the connection ends before another WILL: see gli_will. With
 *            n = 0: none
 * Any other failure -> its message. The first request is HELLO. Server and
 * client both have the key and require it, or neither does. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_PROTOCOL_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/store.h"
#include "rendezvous/store/store.h"
#include "security/keys.h"

#define GLI_TCP_MAGIC UINT64_C(0x65726f7473636c67) /* "glcstore" */
#define GLI_TCP_VERSION 5u
#define GLI_TCP_HEAD_BYTES ((size_t)8)
/* Size limits of a hello, and of any frame: two values and a key. */
#define GLI_TCP_HELLO_MAX (GLI_JOB_MAX + 64)
#define GLI_TCP_FRAME_MAX (2 * GLOO_STORE_VALUE_MAX + GLOO_STORE_KEY_MAX + 64)

/* Maximum number of keys of one FETCH: each is looked up while others wait. */
#define GLI_TCP_KEYS_MAX ((size_t)65536)

typedef enum gli_tcp_op {
  GLI_TCP_HELLO = 1,
  GLI_TCP_SET,
  GLI_TCP_FETCH,
  GLI_TCP_ADD,
  GLI_TCP_COMPARE,
  GLI_TCP_APPEND,
  GLI_TCP_REMOVE,
  GLI_TCP_WILL,
  GLI_TCP_PROVE
} gli_tcp_op;

/* The form of a HELLO. */
typedef enum gli_tcp_how {
  GLI_TCP_BY_NAME,
  GLI_TCP_BY_KEY,
  GLI_TCP_BY_TLS
} gli_tcp_how;

/* ---- writing a frame ----------------------------------------------------- */

/* A frame under construction, in memory that grows. A failed allocation is
 * permanent: check `failed` once, at the end. */
typedef struct gli_frame {
  uint8_t *data; /* for free() */
  size_t bytes, room;
  bool failed;
} gli_frame;

/* Begins a frame, with room for a head and a tag. `expect` is the initial room
 * for the body. */
void gli_frame_begin(gli_frame *frame, size_t expect);
void gli_frame_put_u32(gli_frame *frame, uint32_t value);
void gli_frame_put_u64(gli_frame *frame, uint64_t value);
void gli_frame_put_bytes(gli_frame *frame, const void *data, size_t bytes);
void gli_frame_put_blob(gli_frame *frame, const void *data, size_t bytes);
void gli_frame_put_key(gli_frame *frame, const char *key);
void gli_frame_put_will(gli_frame *frame, const gli_will *will);
/* Fills in the head: `word` is the operation or the status. */
void gli_frame_end(gli_frame *frame, uint32_t word);

/* ---- reading a body ------------------------------------------------------ */

/* The rest of a body. The getters return false, permanently, if the value is
 * not there. Results point into the body. */
typedef struct gli_body {
  const uint8_t *at;
  size_t left;
} gli_body;

bool gli_body_u32(gli_body *body, uint32_t *value);
bool gli_body_u64(gli_body *body, uint64_t *value);
bool gli_body_blob(gli_body *body, size_t max_bytes, const void **data,
                   size_t *bytes);
/* Gets a string of `min_bytes` to `max_bytes` bytes. */
bool gli_body_string(gli_body *body, size_t min_bytes, size_t max_bytes,
                     const char **text);
bool gli_body_key(gli_body *body, const char **key);

/* Get the numbers of a will, and then each key that it sets. The value points
 * into the body as well. */
bool gli_body_will(gli_body *body, uint32_t *n, uint32_t *n_if);
bool gli_body_will_next(gli_body *body, const char **key, gloo_value *value);

#endif
