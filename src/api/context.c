/* Public contexts: the rendezvous of their ranks, and shrinking. */
#include "gloo_c/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/create.h"
#include "api/tuning_file.h"
#include "core/bytes.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/log.h"
#include "core/options.h"
#include "core/random.h"
#include "engine/engine.h"
#include "kernels/custom_op.h"
#include "observe/observe.h"
#include "observe/trace.h"
#include "rendezvous/join/bootstrap.h"
#include "rendezvous/join/exchange.h"
#include "rendezvous/join/measure.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/join/port_watch.h"
#include "rendezvous/store/store.h"
#include "security/trust.h"

/* ---- create -------------------------------------------------------------- */

static gloo_status check_world(int rank, int size, gloo_error *error) {
  if (size < 1) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "size is %d: a context needs at least 1 rank", size);
  }
  if ((uint32_t)size > GLI_RANKS_MAX) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "size is %d: a context has at most %u ranks", size,
                    (unsigned)GLI_RANKS_MAX);
  }
  if (rank < 0 || rank >= size) {
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "rank %d is out of range for a context of size %d: ranks are 0 to %d",
        rank, size, size - 1);
  }
  return GLOO_OK;
}

/* Reads the credentials. A single rank has no peers to authenticate, but may
 * grow later. The store may carry a secret of the launcher. */
static gloo_status context_trust(int size, const gloo_context_options *o,
                                 const gloo_store *store,
                                 const gli_origin *origin, gli_trust *trust,
                                 gloo_error *error) {
  const uint8_t *before = origin != NULL ? origin->job_key : NULL;
  *trust = (gli_trust){.asks = false};
  if (o->secret == NULL && before != NULL) {
    trust->asks = true;
    memcpy(trust->key.bytes, before, sizeof trust->key.bytes);
    return GLOO_OK;
  }
  if (size == 1 && o->secret == NULL) return GLOO_OK;
  if (store == NULL)
    return gli_trust_read(o->secret, o->secret_bytes, trust, error);
  return gli_trust_read_told(o->secret, o->secret_bytes, &store->told, trust,
                             error);
}

static gloo_status context_record_key(const gli_trust *trust,
                                      const gli_origin *origin, gli_key *key,
                                      gloo_error *error) {
  const gli_trust_scope any = {.job = ""};
  return gli_trust_record_key(trust, origin != NULL ? &origin->scope : &any,
                              key, error);
}

static gloo_status context_open(gloo_device *device, int rank, int size,
                                uint64_t key, const gloo_context_options *o,
                                const gli_trust *trust,
                                const gli_origin *origin,
                                gli_agreement *agreement, gli_key *record_key,
                                gloo_context **context, gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (trust->asks) status = gli_trust_mark(trust, &agreement->mark, error);
  if (status == GLOO_OK && trust->asks)
    status = context_record_key(trust, origin, record_key, error);
  agreement->record_key = trust->asks ? record_key : NULL;
  agreement->asks = trust->asks;
  agreement->tls = (gli_tls_kind)gli_device_tls(device);
  if (status == GLOO_OK && size > 1)
    status = gli_tls_suffices(agreement->tls, trust->asks, error);
  if (status == GLOO_OK)
    status = gli_context_open(device, (uint32_t)rank, (uint32_t)size, key,
                              trust->asks ? trust->key.bytes : NULL,
                              o->timeout_ns, context, error);
  if (status != GLOO_OK) gli_wipe(record_key, sizeof *record_key);
  return status;
}

/* Warns once per job, if its ranks connect over a network. The server of a TCP
 * store has logged its own warning. */
static void context_warn(const gloo_context *context,
                         const gli_agreement *agreement) {
  const gli_trust nobody_asked = {.asks = false};
  char what[64];
  if (gloo_context_hosts(context) < 2) return;
  if (agreement->tls == GLI_TLS_BY_CERTIFICATE) return;
  snprintf(what, sizeof what, "one of %d ranks", gloo_context_size(context));
  gli_trust_exposed(&nobody_asked, what, "an address of its host");
}

gloo_status gli_context_give_up(gli_meeting *meeting, gloo_store *store,
                                uint32_t rank, uint32_t size,
                                gloo_error *cause) {
  bool published = meeting->progress == GLI_MET;
  meeting->attempt.again = gli_bootstrap_give_up(
      store, rank, size, published, meeting->attempt.deadline_ns, cause);
  return cause->status;
}

/* A program that a debugger stops sends no heartbeats: 0 disables them. */
static const gli_seconds heartbeat = {
    .name = "GLOO_HEARTBEAT",
    .none = "0",
    .least_ms = 100,
    .most_ms = 3600000,
    .none_ns = 0,
    .usual_ns = INT64_C(5000000000),
};

gloo_status gli_context_create(int rank, int size, gloo_store *store,
                               gloo_device *device,
                               const gloo_context_options *options,
                               const gli_origin *origin, gloo_context **out,
                               gli_meeting *meeting, gloo_error *error) {
  gloo_context_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_context_options", error);
  if (status != GLOO_OK) return status;
  status = check_world(rank, size, error);
  if (status != GLOO_OK) return status;
  if (out == NULL || (store == NULL && size > 1)) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "gloo_context_create: %s",
                    out != NULL ? "`store` must not be NULL: the ranks "
                                  "exchange addresses through it"
                                : "`context` must not be NULL");
  }
  uint64_t key = meeting != NULL ? meeting->key : 0;
  if (key == 0) status = gli_random_draw(&key, sizeof key, error);
  if (status != GLOO_OK) return status;
  if (meeting != NULL) meeting->key = key;
  gli_agreement agreement = {.big_endian = gli_big_endian()};
  status = gli_switch_read(o.measure, "GLOO_MEASURE", meeting != NULL,
                           &agreement.measures, error);
  if (status != GLOO_OK) return status;
  status = gli_switch_read(o.shared_buffers, "GLOO_SHARED_BUFFERS", false,
                           &agreement.shared_buffers, error);
  if (status != GLOO_OK) return status;
  int64_t heartbeat_ns, start_ns;
  status = gli_seconds_read(&heartbeat, &heartbeat_ns, error);
  if (status == GLOO_OK)
    status = gli_timeout_of_start(o.timeout_ns, &start_ns, error);
  if (status == GLOO_OK)
    status = gli_timeout_of_operations(o.timeout_ns, &o.timeout_ns, error);
  if (status != GLOO_OK) return status;
  gli_trace_settings trace;
  status = gli_trace_read(&o, &trace, error);
  if (status != GLOO_OK) return status;
  gli_tuning *tuning;
  status = gli_tuning_load(&tuning, error);
  if (status != GLOO_OK) return status;
  gli_trust trust; /* known before anything listens */
  status = context_trust(size, &o, store, origin, &trust, error);
  bool open_to_all = !trust.asks && !trust.silent;
  bool owns_device = device == NULL;
  if (status == GLOO_OK && owns_device)
    status = gloo_device_create(NULL, &device, error);
  if (status != GLOO_OK) goto no_device;
  agreement.beats = heartbeat_ns > 0 && gli_device_beats(device);
  gloo_context *context = NULL;
  gli_key record_key = {{0}};
  status = context_open(device, rank, size, key, &o, &trust, origin, &agreement,
                        &record_key, &context, error);
  gli_trust_release(&trust);
  if (status != GLOO_OK) goto no_context;
  gli_context_set_tuning(context, tuning);
  tuning = NULL;
  if (agreement.shared_buffers) gli_context_promise_buffers(context);
  status = gli_trace_begin(context, &trace, error);
  if (status == GLOO_OK && size > 1)
    status = gli_bootstrap_ranks(context, store, key, o.host_id, &agreement,
                                 start_ns, meeting, error);
  gli_wipe(&record_key, sizeof record_key);
  if (status == GLOO_OK) gli_observe_met(context);
  if (status == GLOO_OK) status = gli_context_join_tree(context, error);
  if (status == GLOO_OK)
    gli_context_start_heartbeat(context, (uint64_t)heartbeat_ns);
  if (status == GLOO_OK && size > 1 && agreement.measures)
    status = gli_measure(context, error);
  if (status != GLOO_OK) goto nobody_met;
  gli_context_started(context);
  if (owns_device) gli_context_own_device(context);
  if (open_to_all && rank == 0) context_warn(context, &agreement);
  *out = context;
  return GLOO_OK;

nobody_met:
  if (meeting != NULL && meeting->progress == GLI_MET && !meeting->all_know)
    status = gli_context_give_up(meeting, store, (uint32_t)rank, (uint32_t)size,
                                 error);
  gli_trace_end(context);
  gli_context_close(context);
no_context:
  if (owns_device) gloo_device_destroy(device);
no_device:
  gli_trust_release(&trust);
  free(tuning);
  return status;
}

gloo_status gloo_context_create(int rank, int size, gloo_store *store,
                                gloo_device *device,
                                const gloo_context_options *options,
                                gloo_context **context, gloo_error *error) {
  return gli_context_create(rank, size, store, device, options, NULL, context,
                            NULL, error);
}

void gloo_context_destroy(gloo_context *context) {
  if (context == NULL || gli_custom_op_inside()) return;
  gli_port_watch_end(context);
  gli_trace_end(context);
  gli_context_close(context);
}

/* ---- shrink -------------------------------------------------------------- */

/* Makes the successor report to the same directory and function as the failed
 * context. A failure of that is logged only. */
static void context_go_on_telling(const gloo_context *failed,
                                  gloo_context *successor) {
  const gloo_context_options options = {
      .struct_size = sizeof options,
      .trace_directory = gli_context_failure_user(failed)};
  gli_trace_settings settings;
  gloo_error error;
  gloo_status status = gli_trace_read(&options, &settings, &error);
  if (status == GLOO_OK) status = gli_trace_begin(successor, &settings, &error);
  if (status != GLOO_OK)
    gli_log(GLOO_LOG_WARN, "rank %d stopped writing traces: %s",
            gloo_context_rank(successor), error.message);
}

gloo_status gloo_context_shrink(gloo_context *context,
                                const gloo_shrink_options *options,
                                gloo_context **successor, gloo_error *error) {
  gloo_shrink_options o;
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_shrink_options", error);
  if (status == GLOO_OK)
    status = gli_context_shrink(context, &o, successor, error);
  if (status == GLOO_OK) context_go_on_telling(context, *successor);
  return status;
}
