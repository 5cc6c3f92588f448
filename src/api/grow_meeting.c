/* The meeting of present ranks and newcomers, as for any context, in a separate
 * part of the store. If a process ends after its promise to come, the meeting
 * fails at once, whether it has come or not. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/create.h"
#include "api/grow.h"
#include "core/error.h"
#include "core/options.h"
#include "engine/engine.h"
#include "gloo_c/collectives.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/store/store.h"
#include "security/trust.h"

/* Tag of the library's calls; the program makes none during the meeting. */
#define TAG UINT32_MAX
#define MEETING "gloo/grow/meeting/%" PRId64 "/"

void gli_grow_key(char key[GLI_GROW_KEY_BYTES], const char *what,
                  int64_t number) {
  snprintf(key, GLI_GROW_KEY_BYTES, "gloo/grow/%s/%" PRId64, what, number);
}

void gli_grow_outcome_key(char key[GLI_GROW_KEY_BYTES], int64_t meeting) {
  snprintf(key, GLI_GROW_KEY_BYTES, MEETING GLI_OUTCOME_KEY, meeting);
}

gloo_status gli_grow_check_secret(const gloo_store *store,
                                  const gloo_context_options *options,
                                  gloo_error *error) {
  gloo_context_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_context_options", error);
  if (status != GLOO_OK) return status;
  return gli_trust_check(o.secret, o.secret_bytes, &store->told, error);
}

static gloo_status meeting_open(gloo_store *store, int64_t number,
                                gloo_store **part, gloo_error *error) {
  char prefix[GLI_GROW_KEY_BYTES];
  snprintf(prefix, sizeof prefix, MEETING, number);
  return gloo_store_prefix_create(store, prefix, part, error);
}

gloo_status gli_grow_promise(gloo_store *store, int64_t meeting, uint32_t rank,
                             gloo_error *error) {
  gloo_store *part, *visit;
  gloo_status status = meeting_open(store, meeting, &part, error);
  if (status != GLOO_OK) return status;
  status = gli_store_visit(part, GLI_NEVER, &visit, error);
  if (status == GLOO_OK) {
    status = gli_bootstrap_leave_will(visit, rank, error);
    gli_store_visit_end(visit, part);
  }
  gloo_store_destroy(part);
  return status;
}

void gli_grow_leave(gloo_store *store, int64_t meeting, uint32_t rank,
                    const gloo_error *cause) {
  gloo_store *part, *visit;
  if (meeting_open(store, meeting, &part, NULL) != GLOO_OK) return;
  if (cause != NULL) gli_bootstrap_cancel(part, rank, cause);
  if (gli_store_visit(part, GLI_NEVER, &visit, NULL) == GLOO_OK) {
    gli_bootstrap_take_back_will(visit);
    gli_store_visit_end(visit, part);
  }
  gloo_store_destroy(part);
}

gloo_status gli_grow_meet(gloo_store *store, const gli_grow_round *round,
                          int rank, int size, gloo_device *device,
                          const gloo_context_options *options,
                          const uint8_t *job_key, gloo_context **context,
                          gloo_error *error) {
  gloo_store *part;
  gli_origin origin = {.scope = {.job = "", .round = round->number},
                       .job_key = job_key};
  memcpy(origin.scope.number, round->drawn, sizeof round->drawn);
  gloo_status status = meeting_open(store, round->number, &part, error);
  if (status != GLOO_OK) return status;
  status = gli_context_create(rank, size, part, device, options, &origin,
                              context, NULL, error);
  gloo_store_destroy(part);
  return status;
}

gloo_status gli_grow_confirm(gloo_context *made, gloo_error *error) {
  gloo_options call = GLOO_OPTIONS_INIT;
  call.tag = TAG;
  gloo_status status = gloo_barrier(made, &call, error);
  if (status != GLOO_OK) return status;
  gli_context_have_met(made);
  gli_context_started(made);
  return GLOO_OK;
}
