/* One connection to the server of PyTorch's c10d::TCPStore, and how its
 * requests and replies are written. Used by one thread at a time.
 *
 * Request:  u8 operation, operands        Reply: what is behind the arrow
 * Numbers are in the byte order of the machine; a string is a u64 length and
 * its bytes. Several requests may be under way on one connection; replies come
 * in the order of the requests, that of WAIT when its keys are there.
 *
 *   VALIDATE     u32 magic                       (first; no reply)
 *   PING         u32 nonce                       -> the nonce
 *   SET          key, value                      (no reply)
 *   COMPARE_SET  key, expected, desired          -> what it holds afterwards,
 * or `expected` if it is absent ADD          key, i64 amount                 ->
 * i64 sum CHECK        u64 n, n keys                   -> u8 0: all are there,
 * or 1 WAIT         u64 n, n keys                   -> u8 0, once all are there
 *   CANCEL_WAIT                                  -> u8 1
 *   COUNT                                        -> i64 keys in the store
 *   DELETE       key                             -> i64 1, or 0: it is absent
 *   APPEND       key, value                      (no reply)
 *   MULTI_GET    u64 n, n keys                   -> n values
 *
 * Values have at most 8 MiB, as here, and keys 8 KiB. A server closes a
 * connection whose request it refuses, without a word. It
 * looks at the byte order in VALIDATE only: if the server's is another, one
 * kind of server closes the connection there, and the other kind falls
 * silent. */
#ifndef GLI_RENDEZVOUS_STORE_C10D_CONNECTION_H
#define GLI_RENDEZVOUS_STORE_C10D_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "gloo_c/store.h"
#include "rendezvous/store/store_conn.h"
#include "rendezvous/store/tcp_protocol.h"

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

/* ---- requests, one after the other in a frame (whose head is not sent) -- */

void gli_c10d_put_op(gli_frame *frame, gli_c10d_op op);
void gli_c10d_put_u64(gli_frame *frame, uint64_t value);
/* A string, in two pieces: either may be empty. */
void gli_c10d_put_text(gli_frame *frame, const void *first, size_t first_bytes,
                       const void *then, size_t then_bytes);

/* ---- connections -------------------------------------------------------- */

typedef struct gli_c10d_connection {
  gli_store_conn base;
  uint64_t too_long; /* bytes of a value that was refused */
} gli_c10d_connection;

/* Connects to a server and sees that it is of this kind, for a pool
 * (tcp_pool.h). Errors: those of gli_store_conn_explain. */
gloo_status gli_c10d_connection_open(const struct sockaddr_storage *address,
                                     uint64_t deadline_ns,
                                     gli_store_conn **connection,
                                     gloo_error *error);

/* ---- an exchange: send, take what is expected, finish ------------------- */

/* The frame must stay until `finish`, or until all its replies are taken. What
 * follows has to happen until the deadline. */
void gli_c10d_send(gli_c10d_connection *connection, const gli_frame *frame,
                   uint64_t deadline_ns);

/* The parts of a reply. False: failed, as `finish` will tell; so do all that
 * come after it. */
bool gli_c10d_take_u8(gli_c10d_connection *connection, uint8_t *value);
bool gli_c10d_take_u64(gli_c10d_connection *connection, uint64_t *value);
/* The data is for free(). */
bool gli_c10d_take_text(gli_c10d_connection *connection, gloo_value *value);
/* Fails the connection because a reply is malformed. */
void gli_c10d_refuse(gli_c10d_connection *connection);

/* GLOO_OK: all was sent, and the connection may be kept. Otherwise why not:
 * the errors of `open`, or GLOO_ERR_INVALID for a value that is too long;
 * close it. */
gloo_status gli_c10d_finish(gli_c10d_connection *connection, gloo_error *error);

#endif
