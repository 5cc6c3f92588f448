/* TLS 1.3 for traffic over TCP, for networks that others can read or change.
 * docs/guide/security.md documents its guarantees, and when it is needed.
 *
 * Traffic in shared memory is not encrypted: no network carries it. All ranks
 * of a job must agree. There is no fallback: a rank with TLS does not talk to a
 * rank without.
 *
 * Errors of functions with these options: GLOO_ERR_UNSUPPORTED (a build without
 * OpenSSL 3), GLOO_ERR_INVALID (a missing file, a file that is not PEM, a key
 * that does not match the certificate, a wrong or missing password, an invalid
 * word in a variable; the message names it), GLOO_ERR_IO, GLOO_ERR_NO_MEMORY;
 * GLOO_ERR_AUTH without both a certificate and a job secret.
 *
 * Example:
 *
 *     gloo_status open_device(gloo_device **device, gloo_error *error) {
 *       gloo_tls_options tls = GLOO_TLS_OPTIONS_INIT;
 *       tls.use = 1;
 *       tls.certificate = "/etc/job/rank3.pem";
 *       tls.authority = "/etc/job/ca.pem";
 *       gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
 *       options.tls = &tls;
 *       return gloo_device_create(&options, device, error);
 *     }
 */
#ifndef GLOO_C_TLS_H
#define GLOO_C_TLS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Without a certificate ranks authenticate by the job's secret: the keys of
 * each connection are derived from it and from nonces of both ends, with
 * forward secrecy. With a certificate ranks authenticate by certificates that
 * `authority` signed, and by the secret as well if one is set.
 *
 * A certificate is valid for rank 3 if it has the URI gloo:rank/3; a
 * certificate without such a URI, if it has an address of that rank's host, or
 * the name in `name`. It is used to connect and to accept, so an extended key
 * usage must allow both. */
typedef struct gloo_tls_options {
  size_t struct_size;
  int use; /* above 0: yes, below 0: no, 0: GLOO_TLS (1, 0), or else no */
  const char *certificate; /* PEM file: this rank's, and any between it and the
                              authority's; read again when it has changed, for
                              connections from then on. NULL:
                              GLOO_TLS_CERTIFICATE */
  const char *key;         /* PEM file with its private key; NULL: GLOO_TLS_KEY,
                              or the file of the certificate */
  const char *authority;   /* whose certificates are believed: a PEM file, or a
                              directory as `openssl rehash` makes it; NULL:
                              GLOO_TLS_AUTHORITY. Required with a certificate */
  const char
      *name; /* of the host that peers' certificates may be for, such as
                one that all of a job have; NULL: GLOO_TLS_NAME, or none.
                A client of a TCP store also takes the name of its host */
  /* Asked for the password of the key, where that has one. Writes up to `room`
   * bytes and returns how many; below 0: there is none. Called by the thread
   * that makes the device or the store, and by those that connect after the
   * files have changed. It must not call the library. */
  int (*password)(void *user, char *text, size_t room);
  void *user;
} gloo_tls_options;
#define GLOO_TLS_OPTIONS_INIT \
  { sizeof(gloo_tls_options), 0, 0, 0, 0, 0, 0, 0 }

#ifdef __cplusplus
}
#endif

#endif
