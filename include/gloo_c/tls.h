/* TLS 1.3 for traffic over TCP, for networks that others can read or modify.
 * docs/guide/security.md documents its guarantees, and when to use it.
 *
 * Traffic in shared memory is not encrypted, because no network carries it. All
 * ranks of a job must use the same settings. There is no fallback: a rank with
 * TLS does not connect to a rank without.
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
  /* Positive: on, negative: off, 0: GLOO_TLS (1 or 0), off if unset. */
  int use;
  /* PEM file with the certificate of this rank and any intermediate
   * certificates; reloaded for new connections after a change. NULL:
   * GLOO_TLS_CERTIFICATE. */
  const char *certificate;
  /* PEM file with its private key; NULL: GLOO_TLS_KEY, or the certificate file.
   */
  const char *key;
  /* Trusted authorities: a PEM file, or a directory prepared with `openssl
   * rehash`; NULL: GLOO_TLS_AUTHORITY. Required with a certificate. */
  const char *authority;
  /* Host name that certificates of peers may have instead of their own, such as
   * a name shared by all ranks of a job; NULL: GLOO_TLS_NAME, or none. A client
   * of a TCP store also accepts the name of its host. */
  const char *name;
  /* Callback for the password of an encrypted key. Writes up to `room` bytes
   * and returns their number, or a negative value for no password. Called by
   * the thread that creates the device or the store, and by connecting threads
   * after the files have changed. It must not call the library. */
  int (*password)(void *user, char *text, size_t room);
  void *user;
} gloo_tls_options;
#define GLOO_TLS_OPTIONS_INIT \
  { sizeof(gloo_tls_options), 0, 0, 0, 0, 0, 0, 0 }

#ifdef __cplusplus
}
#endif

#endif
