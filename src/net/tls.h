/* TLS 1.3 over a socket that does not block: one end of one connection. It goes
 * by OpenSSL, of which nothing is seen here. A build without OpenSSL
 * (tls_absent.c) cannot make the settings, and so has no connection.
 *
 * What is written is taken whole or not at all, as far as the caller sees: what
 * the socket refuses of a record is kept here, in its encrypted form, and goes
 * first when the socket takes more. What is read may hold more than the caller
 * asked for, which no eye on the socket sees: look at gli_tls_pending before
 * waiting.
 *
 * Threads: settings belong to all; a connection to one at a time. Forks: a
 * child may destroy what its parent made. */
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

/* The credentials of an end, and those that it asks for. */
typedef enum gli_tls_kind {
  GLI_TLS_NONE, /* there is no TLS */
  GLI_TLS_BY_SECRET,
  GLI_TLS_BY_CERTIFICATE
} gli_tls_kind;

typedef struct gli_tls_settings gli_tls_settings;

/* By what `given` says (NULL: nothing), and the environment. *settings is NULL
 * where there is to be no TLS; else it is one hold. Errors: gloo_c/tls.h. */
gloo_status gli_tls_settings_read(const gloo_tls_options *given,
                                  gli_tls_settings **settings,
                                  gloo_error *error);
/* For a client of a server that is no part of the library: by certificates, of
 * the authorities that the system has where GLOO_TLS_AUTHORITY names none. This
 * end shows a certificate where GLOO_TLS_CERTIFICATE names one. */
gloo_status gli_tls_settings_read_client(gli_tls_settings **settings,
                                         gloo_error *error);
gli_tls_settings *gli_tls_settings_hold(gli_tls_settings *settings);
/* NULL is allowed, here and above. */
void gli_tls_settings_release(gli_tls_settings *settings);

/* NULL: none. */
gli_tls_kind gli_tls_settings_kind(const gli_tls_settings *settings);

/* GLOO_ERR_AUTH, if that needs a job's secret and there is none. */
gloo_status gli_tls_suffices(gli_tls_kind kind, bool has_secret,
                             gloo_error *error);

/* In words: "TLS by certificates". */
const char *gli_tls_kind_text(gli_tls_kind kind);

/* Describes a difference between the kinds of both ends, as the end of a
 * sentence that begins with the other's rank. */
typedef struct gli_tls_text {
  char text[160];
} gli_tls_text;
gli_tls_text gli_tls_differs(gli_tls_kind own, gli_tls_kind other);

/* ---- connections --------------------------------------------------------- */

typedef struct gli_tls gli_tls;

/* The socket stays the caller's. `key`: what both ends know, of BY_SECRET; not
 * looked at otherwise. */
gloo_status gli_tls_open(gli_tls_settings *settings, int fd, bool accepts,
                         const gli_key *key, gli_tls **tls, gloo_error *error);
/* Says nothing to the other end. NULL is allowed. */
void gli_tls_destroy(gli_tls *tls);

/* Go on with the handshake, as far as it goes without waiting. The end that
 * connects begins it, and reads nothing the first time: what is there by then
 * is no answer to that. */
typedef enum gli_tls_step {
  GLI_TLS_DONE,
  GLI_TLS_WAITS, /* for the other end, and for the socket if it is unsent */
  GLI_TLS_FAILED /* why: errno, or EBADMSG; see gli_tls_why */
} gli_tls_step;
gli_tls_step gli_tls_shake_hands(gli_tls *tls);

/* After EBADMSG, what is wrong: as the end of a sentence that begins with the
 * other end, such as "has a certificate that has expired". */
const char *gli_tls_why(const gli_tls *tls);

/* Before the handshake: its certificate has to be that of this rank, which
 * listens there. Where it is not both ends hear of that. Nothing is asked for
 * where ends know each other by the secret. */
void gli_tls_expect_rank(gli_tls *tls, uint32_t rank, const gli_endpoint *at,
                         uint32_t n);

/* After it: is it that of this host, to which this end has connected, or whose
 * name was looked up (NULL: not)? True where ends know each other by the
 * secret. False leaves a reason. */
bool gli_tls_is_host(gli_tls *tls, const char *name, const gli_endpoint *at);
/* ... or that of any rank? */
bool gli_tls_is_member(gli_tls *tls, const gli_endpoint *at);

/* Exports a key that the two ends of this connection alone have; after the
 * handshake. */
gloo_status gli_tls_key(gli_tls *tls, gli_key *key, gloo_error *error);

/* As sendmsg and recvmsg: -1 with errno, 0 when the other end says no more.
 * Small parts that are sent go into one record. EBADMSG: what came was not what
 * the other end sent. */
ssize_t gli_tls_send(gli_tls *tls, const struct iovec *parts, int count);
ssize_t gli_tls_receive(gli_tls *tls, const struct iovec *parts, int count);

/* Bytes have come, or the end, or an error, that no eye on the socket sees any
 * more: receiving again does not say EAGAIN, or says so of a part of a record.
 */
bool gli_tls_pending(const gli_tls *tls);
/* Bytes that count as sent and are still here. */
bool gli_tls_unsent(const gli_tls *tls);
/* Write them, as far as the socket takes them. False with errno. */
bool gli_tls_flush(gli_tls *tls);

/* Tell the other end that nothing more is sent. It may be unsent then. */
void gli_tls_shut(gli_tls *tls);

#endif
