/* Replacement of the shared memory transport in builds for systems other than
 * Linux, which lack memfd, abstract Unix sockets, eventfd and epoll. */
#include "core/error.h"
#include "transport/transport.h"

extern const gli_transport_ops gli_transport_shm;

static gloo_status absent_open(const gli_transport_config *config,
                               gli_transport **transport, gloo_error *error) {
  (void)config;
  (void)transport;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "this build has no shared memory transport, which requires "
                  "Linux; use tcp");
}

const gli_transport_ops gli_transport_shm = {
    .name = "shm",
    .open = absent_open,
};
