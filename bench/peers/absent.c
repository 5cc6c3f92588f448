/* Functions that the measuring part uses with gloo_c but not with a peer: ranks
 * as threads, with stores and devices. */
#include "core/error.h"
#include "gloo_c/gloo_c.h"

static gloo_status absent(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "the ranks of a peer are processes; leave out --threads");
}

gloo_status gloo_store_memory_create(gloo_store **store, gloo_error *error) {
  (void)store;
  return absent(error);
}

void gloo_store_destroy(gloo_store *store) {
  (void)store;
}

gloo_status gloo_device_create(const gloo_device_options *options,
                               gloo_device **device, gloo_error *error) {
  (void)options, (void)error, (void)device;
  return absent(error);
}

void gloo_device_destroy(gloo_device *device) {
  (void)device;
}

gloo_status gloo_context_create(int rank, int size, gloo_store *store,
                                gloo_device *device,
                                const gloo_context_options *options,
                                gloo_context **context, gloo_error *error) {
  (void)rank, (void)size, (void)store, (void)device, (void)options, (void)error;
  (void)context;
  return absent(error);
}

/* Used only for a message from a rank to itself, which is not compared. */
gloo_status gloo_recv_start(gloo_context *context, void *output, size_t count,
                            gloo_dtype dtype, int peer,
                            const gloo_options *options,
                            gloo_request **operation, gloo_error *error) {
  (void)options;
  (void)context, (void)output, (void)count, (void)dtype, (void)peer;
  (void)operation;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "a peer is measured with 2 ranks or more");
}

gloo_status gloo_request_wait(gloo_request *operation, int64_t timeout_ns,
                              gloo_error *error) {
  (void)timeout_ns, (void)error;
  (void)operation;
  return GLOO_ERR_UNSUPPORTED;
}

void gloo_request_destroy(gloo_request *operation) {
  (void)operation;
}
