/* TLS 1.3 for what ranks send over TCP, for networks that others can read or
 * change. docs/guide/security.md says what it promises, and when it is needed.
 *
 * Between ranks that share memory nothing is encrypted: no network sees it.
 * All ranks of a job must say the same. There is no falling back: a rank that
 * is to use TLS talks to none without.
 *
 * Errors of what takes these options: GLOO_ERR_UNSUPPORTED (a build without
 * OpenSSL 3), GLOO_ERR_INVALID (a file that is missing, is no PEM file, a key
 * that is another certificate's, a password that is wrong or lacking, a word
 * that a variable may not be; the message names it), GLOO_ERR_IO,
 * GLOO_ERR_NO_MEMORY; GLOO_ERR_AUTH where there is neither a certificate nor a
 * job's secret.
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

/* Without a certificate ranks know one another by the job's secret: the keys of
 * each connection follow from it and from numbers that both ends draw, so that
 * who learns the secret later cannot read what was sent before. With one they
 * do so by certificates that `authority` vouches for, and by the secret as well
 * where there is one.
 *
 * A certificate is rank 3's if it has the URI gloo:rank/3; one that has no such
 * URI, if it has an address of that rank's host, or the name in `name`. It is
 * used to connect and to accept, so if it says what it is for (extended key
 * usage) that must be both. */
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
