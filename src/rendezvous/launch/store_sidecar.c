#include "rendezvous/launch/store_sidecar.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/text.h"
#include "rendezvous/launch/store_pmi.h"
#include "security/trust.h"

#define RECORD_KEY "gloo/beside"
/* Time for which rank 0 may leave a record that this rank cannot use, such as
 * one of an earlier start that failed. */
#define WRONG_NS UINT64_C(10000000000)
#define PAUSE_MS 50u

gloo_status gli_store_sidecar_wanted(const gli_launch *launch, bool *wanted,
                                     gloo_error *error) {
  gli_trust trust;
  *wanted = launch->agent && !launch->here;
  if (!launch->agent || !launch->here) return GLOO_OK;
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
  o.timeout_ns = timeout_ns;
  o.secret = launch->secret;
  o.secret_bytes = launch->secret_bytes;
  o.tls = launch->tls;
  return o;
}

/* Serves the store, as rank 0. The other ranks wait for its record; after a
 * failure they get the message instead. */
static gloo_status beside_serve(const gli_launch *launch, gloo_store *told,
                                int64_t timeout_ns, gloo_store **store,
                                gloo_error *error) {
  gloo_store_tcp_options o = beside_options(launch, timeout_ns);
  gli_pmi_place place = {.n = 0};
  gloo_store *served = NULL;
  gloo_error cause, untold;
  char text[GLI_PMI_PLACE_BYTES];
  gloo_status status =
      gli_pmi_place_serve(&place, launch->here, &o, &served, &cause);
  gli_pmi_place_publish(&place, status, &cause, text);
  gloo_status telling =
      gloo_store_set(told, RECORD_KEY, text, strlen(text), &untold);
  if (status == GLOO_OK && telling == GLOO_OK) {
    *store = served;
    return GLOO_OK;
  }
  gloo_store_destroy(served);
  if (status != GLOO_OK)
    return gli_fail(error, status, -1, "%s", cause.message);
  return gli_fail(error, telling, untold.rank, "%s", untold.message);
}

/* Waits for the record. Any client may have written it. */
static gloo_status beside_read(const gli_launch *launch, gloo_store *told,
                               uint64_t deadline_ns,
                               char text[GLI_PMI_PLACE_BYTES],
                               gloo_error *error) {
  gloo_value value;
  gloo_error cause;
  int64_t left = gli_deadline_left(deadline_ns);
  gloo_status status =
      gloo_store_get(told, RECORD_KEY, left == 0 ? 1 : left, &value, &cause);
  if (status == GLOO_ERR_TIMEOUT)
    return gli_fail(error, status, 0,
                    "rank 0 of %u, which serves the store, has not started; %s",
                    (unsigned)launch->size, cause.message);
  if (status != GLOO_OK)
    return gli_fail(error, status, cause.rank, "%s", cause.message);
  size_t bytes =
      value.bytes < GLI_PMI_PLACE_BYTES ? value.bytes : GLI_PMI_PLACE_BYTES - 1;
  if (bytes > 0) memcpy(text, value.data, bytes);
  text[bytes] = '\0';
  free(value.data);
  return GLOO_OK;
}

/* Opens the store that the record describes. A secret in it is not rank 0's,
 * which publishes none here. */
static gloo_status beside_try(const gli_launch *launch, const char *text,
                              uint64_t deadline_ns, gloo_store **store,
                              gloo_error *error) {
  gli_pmi_place place;
  gloo_status status = gli_pmi_place_find(text, &place, error);
  if (status != GLOO_OK) return status;
  gli_secret_release(&place.secret);
  if (launch->here) {
    place.n = 1;
    memcpy(place.addresses[0], "127.0.0.1", sizeof "127.0.0.1");
  }
  gloo_store_tcp_options o = beside_options(launch, 0);
  return gli_pmi_place_try(&place, &o, deadline_ns, store, error);
}

/* Returns true if rank 0 soon replaces a record that led to this failure, or
 * never does: it is not that of an ended server. */
static bool is_wrong(gloo_status status) {
  return status == GLOO_ERR_PEER || status == GLOO_ERR_PROTOCOL ||
         status == GLOO_ERR_AUTH;
}

static gloo_status beside_find(const gli_launch *launch, gloo_store *told,
                               uint64_t deadline_ns, gloo_store **store,
                               gloo_error *error) {
  char text[GLI_PMI_PLACE_BYTES], before[GLI_PMI_PLACE_BYTES] = "";
  uint64_t since = 0;
  gloo_error cause;
  for (;;) {
    gloo_status status = beside_read(launch, told, deadline_ns, text, error);
    if (status != GLOO_OK) return status;
    if (strcmp(text, before) != 0) since = uv_hrtime();
    memcpy(before, text, sizeof before);
    status = beside_try(launch, text, deadline_ns, store, &cause);
    if (status == GLOO_OK) return status;
    if (gli_deadline_left(deadline_ns) == 0 ||
        (is_wrong(status) && uv_hrtime() - since > WRONG_NS))
      return gli_fail(error, status, 0,
                      "rank 0 of %u has not started, or its store cannot be "
                      "reached: %s",
                      (unsigned)launch->size, cause.message);
    uv_sleep(PAUSE_MS);
  }
}

gloo_status gli_store_sidecar_open(const gli_launch *launch, gloo_store *told,
                                   int64_t timeout_ns, gloo_store **store,
                                   gloo_error *error) {
  if (launch->rank == 0)
    return beside_serve(launch, told, timeout_ns, store, error);
  return beside_find(launch, told, gli_deadline_after(timeout_ns), store,
                     error);
}
