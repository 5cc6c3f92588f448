/* TLS 1.3 on a non-blocking socket: one end of one connection. It uses OpenSSL,
 * which this header hides. A build without OpenSSL (tls_absent.c) cannot create
 * settings, and so has no connections.
 *
 * Writes take all of the data or none, as seen by the caller: the part of a
 * record that the socket does not accept is buffered in encrypted form, and
 * sent first when the socket accepts more. Reads may take more from the socket
 * than the caller requests: check gli_tls_pending before waiting.
 *
 * Threads: settings may be shared; one thread at a time uses a connection.
 * Forks: a child may destroy the objects of its parent. */
#ifndef GLI_NET_TLS_H
#define GLI_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "gloo_c/status.h"
#include "gloo_c/tls.h"
#include "net/endpoint.h"
#include "security/keys.h"

/* ---- settings ------------------------------------------------------------ */

/* Credentials of an end, and those that it requires of the other end. */
typedef enum gli_tls_kind {
  GLI_TLS_NONE, /* plaintext */
  GLI_TLS_BY_SECRET,
  GLI_TLS_BY_CERTIFICATE
} gli_tls_kind;

typedef struct gli_tls_settings gli_tls_settings;

/* Reads the settings from `given` (may be NULL) and the environment. *settings
 * is held by the caller, NULL if TLS is off. Errors: gloo_c/tls.h. */
gloo_status gli_tls_settings_read(const gloo_tls_options *given,
                                  gli_tls_settings **settings,
                                  gloo_error *error);
/* Reads the settings for a client of a server outside the library: it requires
 * a certificate, of the system's authorities unless GLOO_TLS_AUTHORITY is set,
 * and presents one if GLOO_TLS_CERTIFICATE is set. */
gloo_status gli_tls_settings_read_client(gli_tls_settings **settings,
                                         gloo_error *error);
gli_tls_settings *gli_tls_settings_hold(gli_tls_settings *settings);
/* Drops a reference. NULL is allowed, here and above. */
void gli_tls_settings_release(gli_tls_settings *settings);

/* Returns GLI_TLS_NONE for NULL. */
gli_tls_kind gli_tls_settings_kind(const gli_tls_settings *settings);

/* Returns GLOO_ERR_AUTH if the kind requires a job secret and none is set. */
gloo_status gli_tls_suffices(gli_tls_kind kind, bool has_secret,
                             gloo_error *error);

/* Returns a description such as "TLS by certificates". */
const char *gli_tls_kind_text(gli_tls_kind kind);

/* Describes a difference between the kinds of both ends, as the end of a
 * sentence that begins with the other's rank. */
typedef struct gli_tls_text {
  char text[160];
} gli_tls_text;
gli_tls_text gli_tls_differs(gli_tls_kind own, gli_tls_kind other);

/* ---- connections --------------------------------------------------------- */

typedef struct gli_tls gli_tls;

/* Opens one end of a connection. The caller keeps the socket. `key` is shared
 * by both ends; it is used with BY_SECRET only. */
gloo_status gli_tls_open(gli_tls_settings *settings, int fd, bool accepts,
                         const gli_key *key, gli_tls **tls, gloo_error *error);
/* Frees a connection without notifying the other end. NULL is allowed. */
void gli_tls_destroy(gli_tls *tls);

/* Continues the handshake as far as possible without waiting. The first call of
 * the connecting end reads nothing: no earlier data can be an answer. */
typedef enum gli_tls_step {
  GLI_TLS_DONE,
  GLI_TLS_WAITS, /* for the other end, and for the socket if unsent */
  GLI_TLS_FAILED /* with errno; see gli_tls_why for EBADMSG */
} gli_tls_step;
gli_tls_step gli_tls_shake_hands(gli_tls *tls);

/* Returns the cause of EBADMSG, as the end of a sentence that begins with the
 * other end, such as "has a certificate that has expired". */
const char *gli_tls_why(const gli_tls *tls);

/* Requires, before the handshake, the certificate of this rank, which listens
 * at these addresses. Otherwise both ends fail. No effect with BY_SECRET. */
void gli_tls_expect_rank(gli_tls *tls, uint32_t rank, const gli_endpoint *at,
                         uint32_t n);

/* Returns true if the certificate is that of the host to which this end has
 * connected, or whose `name` was looked up (may be NULL), after the handshake.
 * Always true with BY_SECRET. Stores a reason before it returns false. */
bool gli_tls_is_host(gli_tls *tls, const char *name, const gli_endpoint *at);
/* Returns true if the certificate is that of any rank. */
bool gli_tls_is_member(gli_tls *tls, const gli_endpoint *at);

/* Exports a key that only these two ends have, after the handshake. */
gloo_status gli_tls_key(gli_tls *tls, gli_key *key, gloo_error *error);

/* Like sendmsg and recvmsg: return -1 with errno, or 0 if the other end sends
 * no more. Small parts share a record. EBADMSG: the data was changed. */
ssize_t gli_tls_send(gli_tls *tls, const struct iovec *parts, int count);
ssize_t gli_tls_receive(gli_tls *tls, const struct iovec *parts, int count);

/* Returns true if input, the end of the stream or an error is buffered, so the
 * socket does not become readable for it. Receiving then fails with EAGAIN only
 * if a part of a record is all that has arrived. */
bool gli_tls_pending(const gli_tls *tls);
/* Returns true if bytes that count as sent are still buffered. */
bool gli_tls_unsent(const gli_tls *tls);
/* Writes them, as far as the socket accepts them. Returns false with errno. */
bool gli_tls_flush(gli_tls *tls);

/* Notifies the other end that no more is sent. The notice may be unsent. */
void gli_tls_shut(gli_tls *tls);

#endif
