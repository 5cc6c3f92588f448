/* Replacement for a build without hiredis. */
#include "core/error.h"
#include "rendezvous/store/store_url.h"

gloo_status gli_store_redis_open(const gli_store_url *url, bool tls,
                                 int64_t timeout_ns, gloo_store **store,
                                 gloo_error *error) {
  (void)url;
  (void)tls;
  (void)timeout_ns;
  (void)store;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "this build has no Redis store: build it with hiredis "
                  "(libhiredis-dev on Debian; meson setup -Dredis=enabled)");
}
