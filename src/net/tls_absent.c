/* TLS of a build without OpenSSL, which cannot create settings. */
#include <errno.h>

#include "core/error.h"
#include "net/tls_settings.h"

gloo_status gli_tls_context_create(const gli_tls_settings *settings,
                                   gli_tls_context **context,
                                   gloo_error *error) {
  (void)settings;
  (void)context;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "TLS is on, but this library was built without OpenSSL: "
                  "build it with -Dopenssl=enabled");
}

void gli_tls_context_destroy(gli_tls_context *context) {
  (void)context;
}

gloo_status gli_tls_open(gli_tls_settings *settings, int fd, bool accepts,
                         const gli_key *key, gli_tls **tls, gloo_error *error) {
  (void)fd;
  (void)accepts;
  (void)key;
  (void)tls;
  return gli_tls_context_create(settings, NULL, error);
}

void gli_tls_destroy(gli_tls *tls) {
  (void)tls;
}

gli_tls_step gli_tls_shake_hands(gli_tls *tls) {
  (void)tls;
  errno = EBADMSG;
  return GLI_TLS_FAILED;
}

const char *gli_tls_why(const gli_tls *tls) {
  (void)tls;
  return "";
}

void gli_tls_expect_rank(gli_tls *tls, uint32_t rank, const gli_endpoint *at,
                         uint32_t n) {
  (void)tls;
  (void)rank;
  (void)at;
  (void)n;
}

bool gli_tls_is_host(gli_tls *tls, const char *name, const gli_endpoint *at) {
  (void)tls;
  (void)name;
  (void)at;
  return false;
}

bool gli_tls_is_member(gli_tls *tls, const gli_endpoint *at) {
  (void)tls;
  (void)at;
  return false;
}

gloo_status gli_tls_key(gli_tls *tls, gli_key *key, gloo_error *error) {
  (void)tls;
  (void)key;
  return gli_tls_context_create(NULL, NULL, error);
}

ssize_t gli_tls_send(gli_tls *tls, const struct iovec *parts, int count) {
  (void)tls;
  (void)parts;
  (void)count;
  errno = EBADMSG;
  return -1;
}

ssize_t gli_tls_receive(gli_tls *tls, const struct iovec *parts, int count) {
  return gli_tls_send(tls, parts, count);
}

bool gli_tls_pending(const gli_tls *tls) {
  (void)tls;
  return false;
}

bool gli_tls_unsent(const gli_tls *tls) {
  (void)tls;
  return false;
}

bool gli_tls_flush(gli_tls *tls) {
  (void)tls;
  return true;
}

void gli_tls_shut(gli_tls *tls) {
  (void)tls;
}
