#include "rendezvous/launch/store_sidecar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "rendezvous/launch/pmi_line.h"
#include "security/trust.h"

#define PORT_KEY "gloo/beside"

gloo_status gli_store_sidecar_wanted(const gli_launch *launch, bool *wanted,
                                     gloo_error *error) {
  gli_trust trust;
  *wanted = false;
  if (!launch->open_to_all) return GLOO_OK;
  gloo_status status =
      gli_trust_read(launch->secret, launch->secret_bytes, &trust, error);
  if (status != GLOO_OK) return status;
#if GLI_LINUX
  *wanted = !trust.asks && !trust.silent;
#endif
  gli_trust_release(&trust);
  return GLOO_OK;
}

static gloo_store_tcp_options beside_options(const gli_launch *launch,
                                             int64_t timeout_ns) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = "127.0.0.1";
  o.job = launch->job;
  o.epoch = launch->epoch;
  o.timeout_ns = timeout_ns;
  o.tls = launch->tls;
  return o;
}

/* Serves the store, as rank 0. The other ranks wait for its port; after a
 * failure they get the message instead. */
static gloo_status beside_serve(const gli_launch *launch, gloo_store *told,
                                int64_t timeout_ns, gloo_store **store,
                                gloo_error *error) {
  gloo_store_tcp_options o = beside_options(launch, timeout_ns);
  gloo_store *served = NULL;
  gloo_error cause;
  char text[GLOO_ERROR_MESSAGE_BYTES];
  o.serve = 1;
  gloo_status status = gloo_store_tcp_create(&o, &served, &cause);
  if (status == GLOO_OK) {
    snprintf(text, sizeof text, "%u", (unsigned)gloo_store_tcp_port(served));
  } else {
    snprintf(text, sizeof text, "%s", cause.message);
  }
  gloo_error untold;
  gloo_status telling =
      gloo_store_set(told, PORT_KEY, text, strlen(text), &untold);
  if (status == GLOO_OK && telling == GLOO_OK) {
    *store = served;
    return GLOO_OK;
  }
  gloo_store_destroy(served);
  if (status != GLOO_OK)
    return gli_fail(error, status, -1, "%s", cause.message);
  return gli_fail(error, telling, untold.rank, "%s", untold.message);
}

/* Reads the port. Any client may have written the value. */
static gloo_status beside_find(const gli_launch *launch, gloo_store *told,
                               int64_t timeout_ns, uint16_t *port,
                               gloo_error *error) {
  gloo_value value;
  gloo_error cause;
  char text[GLOO_ERROR_MESSAGE_BYTES];
  uint64_t number;
  gloo_status status =
      gloo_store_get(told, PORT_KEY, timeout_ns, &value, &cause);
  if (status == GLOO_ERR_TIMEOUT)
    return gli_fail(error, status, 0,
                    "rank 0 of %u, which serves the store, has not started; %s",
                    (unsigned)launch->size, cause.message);
  if (status != GLOO_OK)
    return gli_fail(error, status, cause.rank, "%s", cause.message);
  size_t bytes = value.bytes < sizeof text ? value.bytes : sizeof text - 1;
  if (bytes > 0) memcpy(text, value.data, bytes);
  text[bytes] = '\0';
  free(value.data);
  if (!gli_pmi_number(text, 65535, &number) || number == 0)
    return gli_fail(error, GLOO_ERR_PEER, 0,
                    "rank 0 cannot serve the store: %s", text);
  *port = (uint16_t)number;
  return GLOO_OK;
}

gloo_status gli_store_sidecar_open(const gli_launch *launch, gloo_store *told,
                                   int64_t timeout_ns, gloo_store **store,
                                   gloo_error *error) {
  uint64_t deadline_ns = gli_deadline_after(timeout_ns);
  if (launch->rank == 0)
    return beside_serve(launch, told, timeout_ns, store, error);
  gloo_store_tcp_options o = beside_options(launch, timeout_ns);
  gloo_status status = beside_find(launch, told, timeout_ns, &o.port, error);
  if (status != GLOO_OK) return status;
  int64_t left = gli_deadline_left(deadline_ns);
  o.timeout_ns = left == 0 ? 1 : left;
  return gloo_store_tcp_create(&o, store, error);
}
