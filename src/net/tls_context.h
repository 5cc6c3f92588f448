/* OpenSSL's side of the settings: for the files of this folder that use it. */
#ifndef GLI_NET_TLS_CONTEXT_H
#define GLI_NET_TLS_CONTEXT_H

#include "net/tls_settings.h"

struct ssl_st; /* SSL */

/* A new connection by these settings, and by their files as they are now.
 * Between gli_openssl_begin and gli_openssl_end. NULL: out of memory. */
struct ssl_st *gli_tls_context_connection(const gli_tls_settings *settings);

/* The cipher that both ends have at least. */
extern const unsigned char gli_tls_cipher[2];

#endif
