/* Public devices: from options to a transport. */
#include "api/create.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/options.h"
#include "engine/engine.h"
#include "memory/gpu.h"
#include "net/tls.h"

enum { STREAMS_MAX = 16 };

/* Time limit of a name lookup: the default timeout of operations. */
#define LOOKUP_NS GLI_TIMEOUT_NS

gloo_status gli_device_create_towards(const gloo_device_options *options,
                                      const char *towards, gloo_device **device,
                                      gloo_error *error) {
  gloo_device_options o;
  gli_environment_check();
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_device_options", error);
  if (status != GLOO_OK) return status;
  if (device == NULL) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_device_create: `device` must not be NULL");
  }
  const char *name = o.transport, *where = "";
  if (name == NULL) {
    name = gli_environment_read("GLOO_TRANSPORT");
    where = "GLOO_TRANSPORT: ";
  }
  if (name == NULL || !*name) name = "auto";
  const gli_transport_ops *ops = gli_transport_find(name);
  if (ops == NULL) {
    return gli_fail(
        error, GLOO_ERR_NOT_FOUND, -1,
        "%sunknown transport \"%.64s\"; valid: auto, tcp, shm, ibv, inproc",
        where, name);
  }
  if (o.streams < 0 || o.streams > STREAMS_MAX) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "streams is %d: must be 1 to %d, or 0 for the default of 1",
                    o.streams, STREAMS_MAX);
  }
  gli_transport_config config = {.host = o.host,
                                 .interface = o.interface,
                                 .towards = towards,
                                 .port = o.port,
                                 .lookup_ns = LOOKUP_NS,
                                 .streams = o.streams ? o.streams : 1};
  status = gli_switch_read(o.checksum, "GLOO_CHECKSUM", false, &config.checksum,
                           error);
  if (status == GLOO_OK)
    status = gli_tls_settings_read(o.tls, &config.tls, error);
  if (status == GLOO_OK) status = gli_gpu_watch(error);
  if (status == GLOO_OK) status = gli_pinned_read_settings(error);
  if (status != GLOO_OK) return status;
  status = gli_device_open(ops, &config, !o.no_helper, device, error);
  if (status == GLOO_OK)
    gli_device_note_tls(*device, gli_tls_settings_kind(config.tls));
  gli_tls_settings_release(config.tls);
  return status;
}

gloo_status gloo_device_create(const gloo_device_options *options,
                               gloo_device **device, gloo_error *error) {
  return gli_device_create_towards(options, NULL, device, error);
}

void gloo_device_destroy(gloo_device *device) {
  if (device != NULL) gli_device_close(device);
}
