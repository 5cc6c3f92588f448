/* Stores that are named by a URL: what it says, and the kinds that are opened
 * by no other way. */
#ifndef GLI_RENDEZVOUS_STORE_STORE_URL_H
#define GLI_RENDEZVOUS_STORE_STORE_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/text.h"
#include "gloo_c/store.h"

#define GLI_STORE_URL_MAX ((size_t)1024)

/* scheme://user:password@host:port/path. Percent signs are decoded; a part that
 * the URL does not have is "" or 0. */
typedef struct gli_store_url {
  const char *scheme, *user, *password, *host, *path; /* path without its '/' */
  uint16_t port;
  char text[3 * GLI_STORE_URL_MAX]; /* what the parts point to */
} gli_store_url;

/* GLOO_ERR_INVALID says what is wrong with it, without the password. */
gloo_status gli_store_url_read(const char *url, gli_store_url *out,
                               gloo_error *error);

/* The part that may be printed: no password. */
gli_text gli_store_url_shown(const char *url);

/* The client of a store that another program serves: connects, and tries again
 * until the timeout. Keys start with the path of the URL. */
gloo_status gli_store_c10d_open(const gli_store_url *url, int64_t timeout_ns,
                                gloo_store **store, gloo_error *error);
gloo_status gli_store_redis_open(const gli_store_url *url, bool tls,
                                 int64_t timeout_ns, gloo_store **store,
                                 gloo_error *error);

#endif
