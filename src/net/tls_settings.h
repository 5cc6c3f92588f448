/* TLS settings of this process, for the files of this folder. */
#ifndef GLI_NET_TLS_SETTINGS_H
#define GLI_NET_TLS_SETTINGS_H

#include <stdatomic.h>

#include "net/tls.h"

/* OpenSSL's side of it (tls_context.c). */
typedef struct gli_tls_context gli_tls_context;

struct gli_tls_settings {
  atomic_uint holds;
  gli_tls_kind kind;
  /* Files, of BY_CERTIFICATE; `key` may be that of the certificate. */
  char *certificate, *key, *authority; /* NULL: none, in a client alone */
  char *name;                          /* NULL: none */
  int (*password)(void *user, char *text, size_t room);
  void *user;
  gli_tls_context *context;
};

/* Read the files. */
gloo_status gli_tls_context_create(const gli_tls_settings *settings,
                                   gli_tls_context **context,
                                   gloo_error *error);
/* NULL is allowed. */
void gli_tls_context_destroy(gli_tls_context *context);

#endif
