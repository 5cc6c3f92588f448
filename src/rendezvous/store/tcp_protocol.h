/* The TCP store's protocol: one request, one reply, per connection.
 *
 * Request:  u32 bytes of body, u32 operation, body
 * Reply:    u32 bytes of body, u32 status (0 - gloo_status), body
 * Numbers are little endian; a blob is a u32 length and its bytes; a key is a
 * blob whose last byte, and no other, is 0.
 *
 *   HELLO    u64 magic, u32 version, u32 how, and then
 *            0: u64 epoch, key-like blob job -> empty
 *            1: the number that the client has drawn -> that of the server, and
 *            the tag that shows that it knows the key (tcp_auth.h)
 *            2: u32 kind of TLS -> empty. TLS follows; in that the server says
 *            first whether it takes the client, as in a reply, and HELLO comes
 *            again
 *   PROVE    empty -> empty. After a HELLO of the second kind; from this
 *            request on a tag follows every frame, on both sides, which the
 *            head does not count
 *   SET      key, blob value -> empty
 *   FETCH    i64 timeout_ns, u32 want values, key-like blob alarm, u32 n,
 *            n keys
 *            -> u32 k, k blobs: the values of the first k keys (as many as fit;
 *            0 when none are wanted). GLOO_ERR_TIMEOUT -> n bytes, 1: present.
 *            GLOO_ERR_POISONED -> empty: the key `alarm` is there ("": none),
 *            and not all of the others
 *   ADD      key, i64 amount -> i64 sum
 *   COMPARE  key, blob expected, blob desired, u32 want current
 *            -> blob current, with GLOO_OK and GLOO_ERR_COMPARE
 *   APPEND   key, blob value -> empty
 *   REMOVE   key -> empty
 *   WILL     u32 n, u32 n_if, n times (key, blob value) -> empty. What is set
 *            when the connection ends before another WILL: see gli_will. With
 *            n = 0: nothing
 * Any other failure -> its sentence. The first request is HELLO. Server and
 * client have a key, and both ask for it, or neither does. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_PROTOCOL_H
#define GLI_RENDEZVOUS_STORE_TCP_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/store.h"
#include "rendezvous/store/store.h"
#include "security/keys.h"

#define GLI_TCP_MAGIC UINT64_C(0x65726f7473636c67) /* "glcstore" */
#define GLI_TCP_VERSION 5u
#define GLI_TCP_HEAD_BYTES ((size_t)8)
/* The longest hello, and the longest frame of any kind: two values and a key.
 */
#define GLI_TCP_HELLO_MAX (GLI_JOB_MAX + 64)
#define GLI_TCP_FRAME_MAX (2 * GLOO_STORE_VALUE_MAX + GLOO_STORE_KEY_MAX + 64)

/* The most keys of one FETCH: each is looked up while others wait. */
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

/* The second number of a HELLO. */
typedef enum gli_tcp_how {
  GLI_TCP_BY_NAME,
  GLI_TCP_BY_KEY,
  GLI_TCP_BY_TLS
} gli_tcp_how;

/* ---- writing a frame ---------------------------------------------------- */

/* A frame being built, in memory that grows. Running out of memory sticks:
 * look at `failed` once, at the end. */
typedef struct gli_frame {
  uint8_t *data; /* for free() */
  size_t bytes, room;
  bool failed;
} gli_frame;

/* Begin with room for a head and a tag. `expect`: for how many bytes there is
 * to be room at first. */
void gli_frame_begin(gli_frame *frame, size_t expect);
void gli_frame_put_u32(gli_frame *frame, uint32_t value);
void gli_frame_put_u64(gli_frame *frame, uint64_t value);
void gli_frame_put_bytes(gli_frame *frame, const void *data, size_t bytes);
void gli_frame_put_blob(gli_frame *frame, const void *data, size_t bytes);
void gli_frame_put_key(gli_frame *frame, const char *key);
void gli_frame_put_will(gli_frame *frame, const gli_will *will);
/* Fill in the head: `word` is the operation or the status. */
void gli_frame_end(gli_frame *frame, uint32_t word);

/* ---- reading a body ----------------------------------------------------- */

/* What is left of a body. The getters return false, for good, when it does not
 * hold what is asked for. Results point into the body. */
typedef struct gli_body {
  const uint8_t *at;
  size_t left;
} gli_body;

bool gli_body_u32(gli_body *body, uint32_t *value);
bool gli_body_u64(gli_body *body, uint64_t *value);
bool gli_body_blob(gli_body *body, size_t max_bytes, const void **data,
                   size_t *bytes);
/* A string of at least `min_bytes` and at most `max_bytes` bytes. */
bool gli_body_string(gli_body *body, size_t min_bytes, size_t max_bytes,
                     const char **text);
bool gli_body_key(gli_body *body, const char **key);

/* A will's numbers, and one after the other what it sets. The value points into
 * the body as well. */
bool gli_body_will(gli_body *body, uint32_t *n, uint32_t *n_if);
bool gli_body_will_next(gli_body *body, const char **key, gloo_value *value);

#endif
