/* Public contexts: meeting the other ranks. */
#include "gloo_c/context.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/bootstrap.h"
#include "api/device.h"
#include "api/host.h"
#include "api/measure.h"
#include "api/port_watch.h"
#include "api/tuning.h"
#include "core/bytes.h"
#include "core/custom_op.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/lack.h"
#include "core/log.h"
#include "core/options.h"
#include "core/random.h"
#include "engine/engine.h"
#include "rendezvous/bootstrap.h"
#include "rendezvous/bootstrap_failure.h"
#include "rendezvous/launch.h"

#define FAREWELL_NS INT64_C(2000000000)
/* Where no job id tells jobs apart, the meeting goes on for so long after all
 * have come: ranks of two jobs that are started together at one port try every
 * few milliseconds, and those that find their numbers taken are noticed. */
#define STRANGERS_MS 100u
#define CONTEND_NS INT64_C(1000000000)
/* Between two attempts to meet. */
#define PAUSE_MIN_MS 2u
#define PAUSE_MAX_MS 50u

/* ---- create -------------------------------------------------------------- */

static int64_t timeout_of(const gloo_context_options *options) {
  return options->timeout_ns == GLOO_TIMEOUT_DEFAULT ? GLI_TIMEOUT_NS
                                                     : options->timeout_ns;
}

static gloo_status random_key(uint64_t *key, gloo_error *error) {
  const char *what;
  int code = gli_random(key, sizeof *key, &what);
  if (code == 0) return GLOO_OK;
  return gli_fail(error, gli_lack_status(code), -1, "no random numbers: %s: %s",
                  what, gli_lack_text(code));
}

static gloo_status check_world(int rank, int size, gloo_error *error) {
  if (size < 1) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "a context of %d ranks: the size must be at least 1", size);
  }
  if ((uint32_t)size > GLI_RANKS_MAX) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "a context of %d ranks: at most %u can meet", size,
                    (unsigned)GLI_RANKS_MAX);
  }
  if (rank < 0 || rank >= size) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "rank %d of %d: ranks are 0 to %d", rank, size, size - 1);
  }
  return GLOO_OK;
}

/* Tell the others, in the store, why this rank failed. */
static gloo_status context_give_up(gli_meeting *meeting, gloo_store *store,
                                   uint32_t rank, uint32_t size,
                                   gloo_error *cause) {
  bool published = meeting->progress == GLI_MET;
  meeting->attempt.again =
      gli_bootstrap_give_up(store, rank, size, published, cause);
  return cause->status;
}

/* `meeting`: of ranks that start from the environment, NULL for others. These
 * measure links by default, and what fails after they have met is told to all
 * in the store. */
static gloo_status context_create(int rank, int size, gloo_store *store,
                                  gloo_device *device,
                                  const gloo_context_options *options,
                                  gloo_context **out, gli_meeting *meeting,
                                  gloo_error *error) {
  gloo_context_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_context_options", error);
  if (status != GLOO_OK) return status;
  status = check_world(rank, size, error);
  if (status != GLOO_OK) return status;
  if (out == NULL || (store == NULL && size > 1)) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "gloo_context_create: %s",
                    out != NULL
                        ? "the store is NULL; the ranks need one to meet"
                        : "no place for the context");
  }
  uint64_t key = meeting != NULL ? meeting->key : 0;
  if (key == 0) status = random_key(&key, error);
  if (status != GLOO_OK) return status;
  if (meeting != NULL) meeting->key = key;
  gli_agreement agreement = {.big_endian = gli_big_endian()};
  status = gli_switch_read(o.measure, "GLOO_MEASURE", meeting != NULL,
                           &agreement.measures, error);
  if (status != GLOO_OK) return status;
  status = gli_switch_read(o.shared_buffers, "GLOO_SHARED_BUFFERS", false,
                           &agreement.shared_buffers, error);
  if (status != GLOO_OK) return status;
  gli_tuning *tuning;
  status = gli_tuning_load(&tuning, error);
  if (status != GLOO_OK) return status;
  bool owns_device = device == NULL;
  if (owns_device) status = gloo_device_create(NULL, &device, error);
  if (status != GLOO_OK) goto no_device;
  gloo_context *context = NULL;
  status = gli_context_open(device, (uint32_t)rank, (uint32_t)size, key,
                            timeout_of(&o), &context, error);
  if (status != GLOO_OK) goto no_context;
  gli_context_set_tuning(context, tuning);
  tuning = NULL;
  if (agreement.shared_buffers) gli_context_promise_buffers(context);
  if (size > 1)
    status = gli_bootstrap_ranks(context, store, key, o.host_id, &agreement,
                                 timeout_of(&o), meeting, error);
  if (status == GLOO_OK) status = gli_context_join_tree(context, error);
  if (status == GLOO_OK && size > 1 && agreement.measures)
    status = gli_measure(context, error);
  if (status != GLOO_OK) goto nobody_met;
  if (owns_device) gli_context_own_device(context);
  *out = context;
  return GLOO_OK;

nobody_met:
  /* That some differ all ranks have read for themselves. */
  if (meeting != NULL && meeting->progress == GLI_MET &&
      status != GLOO_ERR_MISMATCH)
    status =
        context_give_up(meeting, store, (uint32_t)rank, (uint32_t)size, error);
  gli_context_close(context);
no_context:
  if (owns_device) gloo_device_destroy(device);
no_device:
  free(tuning);
  return status;
}

gloo_status gloo_context_create(int rank, int size, gloo_store *store,
                                gloo_device *device,
                                const gloo_context_options *options,
                                gloo_context **context, gloo_error *error) {
  return context_create(rank, size, store, device, options, context, NULL,
                        error);
}

void gloo_context_destroy(gloo_context *context) {
  if (context == NULL || gli_custom_op_inside()) return;
  gli_port_watch_end(context);
  gli_context_close(context);
}

/* ---- from the environment ------------------------------------------------ */

/* The address that reaches rank 0 is the first that others are told. A rank
 * alone is on this host. */
static gloo_status open_device(const gloo_device_options *options,
                               const gli_launch *launch, gloo_device **device,
                               gloo_error *error) {
  gloo_device_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_device_options", error);
  if (status != GLOO_OK) return status;
  o.struct_size = sizeof o;
  char own[GLI_TOWARDS_BYTES] = "127.0.0.1";
  const char *choice = o.interface;
  if (choice == NULL) choice = gli_environment_read("GLOO_SOCKET_IFNAME");
  bool anywhere = o.host == NULL && (choice == NULL || choice[0] == '^');
  if (!anywhere) own[0] = '\0';
  if (anywhere && launch->size > 1)
    status = gli_host_towards(launch->host, own, error);
  if (status != GLOO_OK) {
    gli_error_prefix(error, "MASTER_ADDR: ");
    return status;
  }
  return gli_device_create_towards(&o, own, device, error);
}

/* When rank 0 cannot listen because another rank 0 does, all ranks that have
 * come to that one, or will, are told: they may be of either job. */
static gloo_status context_contend(gloo_store_tcp_options *options,
                                   gloo_error *error) {
  gloo_store *store;
  options->serve = 0;
  options->timeout_ns = CONTEND_NS;
  if (gloo_store_tcp_create(options, &store, NULL) != GLOO_OK)
    return error->status; /* it is something else, or of a job with a name */
  gloo_status status = gli_bootstrap_contend(store, 0, error);
  gloo_store_destroy(store);
  return status;
}

static gloo_status open_store(const gli_launch *launch, int64_t timeout_ns,
                              gloo_store **store, gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = launch->host;
  o.port = launch->port;
  o.serve = launch->rank == 0;
  o.job = launch->job;
  o.epoch = launch->epoch;
  o.timeout_ns = timeout_ns;
  gloo_status status = gloo_store_tcp_create(&o, store, error);
  if (status == GLOO_ERR_ADDRESS && o.serve)
    status = context_contend(&o, error);
  return status;
}

static gloo_status meet_in(gloo_store *store, const gli_launch *launch,
                           gloo_device *device,
                           const gloo_context_options *options,
                           int64_t timeout_ns, gloo_context **context,
                           gli_meeting *meeting, gloo_error *error) {
  gloo_status status =
      context_create((int)launch->rank, (int)launch->size, store, device,
                     options, context, meeting, error);
  if (status == GLOO_OK) {
    if (launch->rank == 0 && launch->job[0] == '\0') uv_sleep(STRANGERS_MS);
    /* The server must outlive everybody's need of it. */
    status = gli_bootstrap_finish(store, launch->rank, launch->size, timeout_ns,
                                  error);
    if (status != GLOO_OK) gloo_context_destroy(*context);
  } else if (meeting->progress == GLI_NOT_YET && gli_store_serves(store)) {
    status = context_give_up(meeting, store, launch->rank, launch->size, error);
  } else if (status == GLOO_ERR_MISMATCH) {
    /* All ranks find that some differ, once they have read it there. */
    (void)gli_bootstrap_finish(store, launch->rank, launch->size, FAREWELL_NS,
                               NULL);
  } else if (status == GLOO_ERR_STALE && gli_store_was_first(store)) {
    /* Others met there while this rank waited, and one had its number. */
    meeting->attempt.again = false;
    status = gli_bootstrap_contend(store, launch->rank, error);
  }
  return status;
}

/* A rank that starts again may find the store of the start before, whose rank 0
 * is not that far: it tries until its time is up. */
static gloo_status meet_at_master(const gli_launch *launch, gloo_device *device,
                                  const gloo_context_options *options,
                                  gloo_context **context, gloo_error *error) {
  gloo_context_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_context_options", error);
  if (status != GLOO_OK) return status;
  if (launch->size == 1)
    return context_create(0, 1, NULL, device, options, context,
                          &(gli_meeting){0}, error);
  int64_t timeout_ns = timeout_of(&o);
  uint64_t deadline = gli_deadline_after(timeout_ns);
  unsigned pause_ms = PAUSE_MIN_MS;
  gli_meeting meeting = {.key = 0};
  for (;;) {
    gloo_error cause;
    gloo_store *store;
    meeting.progress = GLI_NOT_YET;
    meeting.attempt.again = false;
    /* At least a moment, for 0 would mean the default. */
    int64_t left = gli_deadline_left(deadline);
    status = open_store(launch, left == 0 ? 1 : left, &store, &cause);
    if (status != GLOO_OK)
      return gli_fail(error, status, cause.rank, "%s", cause.message);
    status = meet_in(store, launch, device, options, timeout_ns, context,
                     &meeting, &cause);
    if (status == GLOO_OK && launch->rank == 0 && launch->job[0] == '\0') {
      gli_port_watch_begin(*context, store);
    } else {
      gloo_store_destroy(store);
    }
    if (status == GLOO_OK) return status;
    if (!meeting.attempt.again || left == 0)
      return gli_fail(error, status, cause.rank, "%s", cause.message);
    uv_sleep(pause_ms);
    pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
  }
}

gloo_status gloo_init(const gloo_init_options *options, gloo_context **context,
                      gloo_error *error) {
  gloo_init_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_init_options", error);
  if (status != GLOO_OK) return status;
  if (context == NULL) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_init: no place for the context");
  }
  gli_launch launch;
  status = gli_launch_read(&launch, error);
  if (status != GLOO_OK) return status;
  gloo_device *device = NULL;
  status = open_device(o.device, &launch, &device, error);
  if (status != GLOO_OK) return status;
  gli_port_watch_end(NULL); /* this start is to have the port */
  gloo_context *made = NULL;
  status = meet_at_master(&launch, device, o.context, &made, error);
  if (status != GLOO_OK) {
    gloo_device_destroy(device);
    return status;
  }
  gli_context_own_device(made);
  *context = made;
  return GLOO_OK;
}
