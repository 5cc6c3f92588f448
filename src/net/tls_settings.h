/* Representation of TLS settings, shared by the files of this folder. */
#ifndef GLI_NET_TLS_SETTINGS_H
#define GLI_NET_TLS_SETTINGS_H

#include <stdatomic.h>

#include "net/tls.h"

/* OpenSSL's part of the settings (tls_context.c). */
typedef struct gli_tls_context gli_tls_context;

struct gli_tls_settings {
  atomic_uint holds;
  gli_tls_kind kind;
  /* Files of BY_CERTIFICATE; `key` may be the file of the certificate. */
  char *certificate, *key, *authority; /* NULL if not set, in clients only */
  char *name;                          /* NULL if not set */
  int (*password)(void *user, char *text, size_t room);
  void *user;
  gli_tls_context *context;
};

/* Reads the files. */
gloo_status gli_tls_context_create(const gli_tls_settings *settings,
                                   gli_tls_context **context,
                                   gloo_error *error);
/* NULL is allowed. */
void gli_tls_context_destroy(gli_tls_context *context);

#endif
