/* Replacement of the transport on Windows, where it is not written yet. */
#include "core/error.h"
#include "transport/transport.h"

extern const gli_transport_ops gli_transport_shm;

static gloo_status shm_open_absent(const gli_transport_config *config,
                                   gli_transport **t, gloo_error *error) {
  (void)config;
  (void)t;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "shared memory between processes is not available on "
                  "Windows: use the transport tcp, or auto");
}

const gli_transport_ops gli_transport_shm = {
    .name = "shm",
    .open = shm_open_absent,
};
