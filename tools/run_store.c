/* The store by which newcomers join a job of `gloo run`. This process serves
 * it, because any rank may fail. */
#include <stdio.h>
#include <string.h>

#include "gloo_c/store.h"
#include "rendezvous/store/store_url.h"
#include "security/secret.h"
#include "tools/run.h"

/* Reads HOST:PORT; port 0 stands for a free one. */
static gloo_status store_read_address(const char *address, gli_store_url *url,
                                      gloo_error *error) {
  char text[GLI_STORE_URL_MAX + 1];
  if (strstr(address, "://") != NULL || strchr(address, '/') != NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "option --store: '%s' is not an address to serve at; write "
                    "HOST:PORT, such as 10.0.0.1:4000",
                    address);
  size_t bytes = strlen(address);
  bool any = bytes > 2 && strcmp(address + bytes - 2, ":0") == 0;
  snprintf(text, sizeof text, "tcp://%.*s%s", (int)bytes - any, address,
           any ? "1" : ""); /* a URL has no port 0 */
  gloo_status status = gli_store_url_read(text, url, error);
  if (status != GLOO_OK) gli_error_prefix(error, "option --store: ");
  if (any) url->port = 0;
  return status;
}

gloo_status gli_run_store_serve(const char *address,
                                gli_run_environment *environment,
                                gloo_store **store, gloo_error *error) {
  gli_store_url url = {.host = "127.0.0.1"};
  gli_secret secret = {.n_bytes = 0};
  const char *digits = environment->secret;
  gloo_status status = GLOO_OK;
  if (address != NULL) status = store_read_address(address, &url, error);
  if (status == GLOO_OK && digits[0] != '\0')
    status = gli_secret_decode(digits, strlen(digits), "the job's secret",
                               &secret, error);
  if (status != GLOO_OK) return status;
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = url.host;
  o.port = url.port;
  o.serve = 1;
  if (secret.n_bytes > 0) o.secret = secret.bytes;
  o.secret_bytes = secret.n_bytes;
  status = gloo_store_tcp_create(&o, store, error);
  gli_secret_release(&secret);
  if (status != GLOO_OK) {
    gli_error_prefix(error, "cannot serve the store for newcomers: ");
    return status;
  }
  bool brackets = strchr(url.host, ':') != NULL;
  snprintf(environment->store, sizeof environment->store, "tcp://%s%s%s:%u",
           brackets ? "[" : "", url.host, brackets ? "]" : "",
           (unsigned)gloo_store_tcp_port(*store));
  return GLOO_OK;
}
