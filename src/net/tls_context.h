/* OpenSSL's part of the settings, private to the files of this folder. */
#ifndef GLI_NET_TLS_CONTEXT_H
#define GLI_NET_TLS_CONTEXT_H

#include "net/tls_settings.h"

struct ssl_st; /* SSL */

/* Creates a connection, after reloading changed files of the settings, between
 * gli_openssl_begin and gli_openssl_end. Returns NULL if out of memory. */
struct ssl_st *gli_tls_context_connection(const gli_tls_settings *settings);

/* Cipher suite that both ends always support. */
extern const unsigned char gli_tls_cipher[2];

#endif
