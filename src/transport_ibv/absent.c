/* Replacement of the transport in builds without libibverbs' headers. */
#include "core/error.h"
#include "transport/transport.h"

extern const gli_transport_ops gli_transport_ibv;

static gloo_status ibv_open_absent(const gli_transport_config *config,
                                   gli_transport **t, gloo_error *error) {
  (void)config;
  (void)t;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "RDMA is not available: this library was built without it "
                  "(meson option ibverbs)");
}

const gli_transport_ops gli_transport_ibv = {
    .name = "ibv",
    .open = ibv_open_absent,
};
