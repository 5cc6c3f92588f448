/* One connection to the server of PyTorch's c10d::TCPStore, and the format of
 * requests and replies. One thread at a time uses it.
 *
 * Request:  u8 operation, operands           Reply: after the arrow
 * Numbers have the byte order of the machine; a string is a u64 length and its
 * bytes. Several requests may be pending on one connection. Replies come in the
 * order of the requests; WAIT is answered when its keys exist.
 *
 *   VALIDATE     u32 magic                       (first; no reply)
 *   PING         u32 nonce                       -> the nonce
 *   SET          key, value                      (no reply)
 *   COMPARE_SET  key, expected, desired          -> the value afterwards;
 *                                                `expected` if it is absent
 *   ADD          key, i64 amount                 -> i64 sum
 *   CHECK        u64 n, n keys                   -> u8 0: all exist; or 1
 *   WAIT         u64 n, n keys                   -> u8 0, once all exist
 *   CANCEL_WAIT                                  -> u8 1
 *   COUNT                                        -> i64 keys in the store
 *   DELETE       key                             -> i64 1, or 0: it is absent
 *   APPEND       key, value                      (no reply)
 *   MULTI_GET    u64 n, n keys                   -> n values
 *
 * Values have at most 8 MiB, as in this library, and keys 8 KiB. If a server
 * refuses a request, it closes the connection without a reply. It detects
 * another byte order in VALIDATE only: then one kind of server closes the
 * connection, and the other kind stays silent. */
#ifndef GLI_RENDEZVOUS_STORE_C10D_CONNECTION_H
#define GLI_RENDEZVOUS_STORE_C10D_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "gloo_c/store.h"
#include "rendezvous/store/store_conn.h"
#include "rendezvous/store/tcp/tcp_protocol.h"

/* `QueryType` in PyTorch's TCPStoreBackend.hpp. */
typedef enum gli_c10d_op {
  GLI_C10D_VALIDATE = 0,
  GLI_C10D_SET = 1,
  GLI_C10D_COMPARE_SET = 2,
  GLI_C10D_ADD = 4,
  GLI_C10D_CHECK = 5,
  GLI_C10D_WAIT = 6,
  GLI_C10D_COUNT = 7,
  GLI_C10D_DELETE = 8,
  GLI_C10D_APPEND = 9,
  GLI_C10D_MULTI_GET = 10,
  GLI_C10D_CANCEL_WAIT = 12,
  GLI_C10D_PING = 13
} gli_c10d_op;

/* ---- requests, appended to a frame (whose head is not sent) -------------- */

void gli_c10d_put_op(gli_frame *frame, gli_c10d_op op);
void gli_c10d_put_u64(gli_frame *frame, uint64_t value);
/* Appends a string, given in two parts; either may be empty. */
void gli_c10d_put_text(gli_frame *frame, const void *first, size_t first_bytes,
                       const void *then, size_t then_bytes);

/* ---- connections --------------------------------------------------------- */

typedef struct gli_c10d_connection {
  gli_store_conn base;
  uint64_t too_long; /* size of a value that was refused */
} gli_c10d_connection;

/* Connects to a c10d server and verifies its kind. A pool (tcp_pool.h) calls
 * it. Errors: those of gli_store_conn_explain. */
gloo_status gli_c10d_connection_open(const struct sockaddr_storage *address,
                                     uint64_t deadline_ns,
                                     gli_store_conn **connection,
                                     gloo_error *error);

/* ---- an exchange: send, take the replies, finish ------------------------- */

/* Sends the requests of a frame. The frame must stay valid until `finish`, or
 * until all its replies are taken. The deadline also applies to the replies. */
void gli_c10d_send(gli_c10d_connection *connection, const gli_frame *frame,
                   uint64_t deadline_ns);

/* Take the parts of a reply. They return false after a failure, which `finish`
 * reports; then later calls fail as well. */
bool gli_c10d_take_u8(gli_c10d_connection *connection, uint8_t *value);
bool gli_c10d_take_u64(gli_c10d_connection *connection, uint64_t *value);
/* Takes a string; free its data with free(). */
bool gli_c10d_take_text(gli_c10d_connection *connection, gloo_value *value);
/* Fails the connection because a reply is malformed. */
void gli_c10d_refuse(gli_c10d_connection *connection);

/* Returns GLOO_OK if all requests were sent and the connection can be kept.
 * Otherwise close it; errors: those of `open`, or GLOO_ERR_INVALID for a value
 * that is too long. */
gloo_status gli_c10d_finish(gli_c10d_connection *connection, gloo_error *error);

#endif
