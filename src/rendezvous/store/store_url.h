/* URLs of stores: their parts, and the kinds of stores that have no other
 * constructor. */
#ifndef GLI_RENDEZVOUS_STORE_STORE_URL_H
#define GLI_RENDEZVOUS_STORE_STORE_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/text.h"
#include "gloo_c/store.h"

#define GLI_STORE_URL_MAX ((size_t)1024)

/* The parts of scheme://user:password@host:port/path. Percent signs are
 * decoded; a missing part is "" or 0. */
typedef struct gli_store_url {
  const char *scheme, *user, *password, *host, *path; /* path without its '/' */
  uint16_t port;
  char text[3 * GLI_STORE_URL_MAX]; /* storage of the parts */
} gli_store_url;

/* Parses a URL. GLOO_ERR_INVALID describes the fault, without the password. */
gloo_status gli_store_url_read(const char *url, gli_store_url *out,
                               gloo_error *error);

/* Returns a printable form, without the password. */
gli_text gli_store_url_shown(const char *url);

/* Open the client of another program's store: it connects, and retries until
 * the timeout. Keys start with the path of the URL. */
gloo_status gli_store_c10d_open(const gli_store_url *url, int64_t timeout_ns,
                                gloo_store **store, gloo_error *error);
gloo_status gli_store_redis_open(const gli_store_url *url, bool tls,
                                 int64_t timeout_ns, gloo_store **store,
                                 gloo_error *error);

#endif
