/* Contexts from the environment: the launcher determines the store. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/create.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/options.h"
#include "core/text.h"
#include "engine/engine.h"
#include "net/endpoint.h"
#include "rendezvous/join/exchange.h"
#include "rendezvous/join/host.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/join/port_watch.h"
#include "rendezvous/launch/launch.h"
#include "rendezvous/launch/store_sidecar.h"

#define FAREWELL_NS INT64_C(2000000000)
/* Time for which the rendezvous stays open after all ranks have come, if no job
 * id distinguishes jobs. Ranks of two jobs that start at one port retry every
 * few milliseconds, and are detected if their numbers are taken. */
#define STRANGERS_MS 100u
#define CONTEND_NS INT64_C(1000000000)
/* Time for which a rank that was dropped tries to return. */
#define COME_BACK_NS INT64_C(500000000)
/* Pause between two attempts to meet, from the first to the second. */
#define PAUSE_MIN_MS 2u
#define PAUSE_MAX_MS 50u

/* The place where the ranks of this start meet. */
typedef struct place {
  const gli_launch *launch;
  gli_store_url url;
  unsigned start;    /* number of this start in the process; 0 until counted */
  gloo_store *base;  /* a shared store, or NULL */
  gloo_store *store; /* the part of it for this start */
} place;

/* Returns true if two jobs may start at the same port, indistinguishably. */
static bool may_be_strangers(const gli_launch *launch) {
  return launch->serves && launch->job[0] == '\0';
}

/* ---- the device ---------------------------------------------------------- */

/* Opens the device. The address on the route to the rendezvous is published
 * first. A job of one rank is local; under PMI only the launcher knows the
 * other hosts. */
static gloo_status open_device(const gloo_device_options *options,
                               const place *at, uint64_t deadline_ns,
                               gloo_device **device, gloo_error *error) {
  gloo_device_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_device_options", error);
  if (status != GLOO_OK) return status;
  o.struct_size = sizeof o;
  char own[GLI_TOWARDS_BYTES] = "";
  const char *choice = o.interface;
  if (choice == NULL) choice = gli_environment_read("GLOO_SOCKET_IFNAME");
  bool anywhere = o.host == NULL && (choice == NULL || choice[0] == '^');
  if (anywhere && at->launch->size == 1) memcpy(own, "127.0.0.1", 10);
  if (anywhere && at->launch->size > 1 && at->url.host[0] != '\0')
    status = gli_host_towards(at->url.host, gli_deadline_left(deadline_ns), own,
                              error);
  if (status != GLOO_OK) {
    gli_error_prefix(error, "rendezvous: ");
    return status;
  }
  return gli_device_create_towards(&o, own, device, error);
}

/* ---- the store ----------------------------------------------------------- */

/* Reports to all ranks of another rank 0, also to later ones, that this rank 0
 * could not listen: they may belong to either job. */
static gloo_status context_contend(const gli_launch *launch,
                                   gloo_error *error) {
  gloo_store *store;
  if (gli_launch_open(launch, false, CONTEND_NS, &store, NULL) != GLOO_OK)
    return error->status; /* another program, or a job with a name */
  gloo_status status = gli_bootstrap_contend(store, 0, error);
  gloo_store_destroy(store);
  return status;
}

/* Opens the store that rank 0 serves for this start. */
static gloo_status open_own(place *at, int64_t timeout_ns, gloo_error *error) {
  const gli_launch *launch = at->launch;
  bool serve = launch->rank == 0;
  gloo_status status =
      gli_launch_open(launch, serve, timeout_ns, &at->store, error);
  if (status == GLOO_ERR_ADDRESS && serve)
    status = context_contend(launch, error);
  return status;
}

/* Moves the rendezvous from a store that admits any client to a store of rank 0
 * that rejects strangers. */
static gloo_status move_beside(place *at, int64_t timeout_ns,
                               gloo_error *error) {
  bool wanted;
  gloo_store *own = NULL;
  gloo_status status = gli_store_sidecar_wanted(at->launch, &wanted, error);
  if (status == GLOO_OK && !wanted) return GLOO_OK;
  if (status == GLOO_OK)
    status =
        gli_store_sidecar_open(at->launch, at->store, timeout_ns, &own, error);
  gloo_store_destroy(at->store);
  gloo_store_destroy(at->base);
  at->base = NULL;
  at->store = own;
  return status;
}

/* Opens a part of another program's store, which keeps old keys: each job, each
 * attempt at it, and each start in one process has its own keys. All ranks
 * start the same number of times. */
static gloo_status open_shared(place *at, int64_t timeout_ns,
                               gloo_error *error) {
  static atomic_uint starts;
  const gli_launch *launch = at->launch;
  char prefix[GLI_JOB_MAX + 64];
  gloo_status status =
      gli_launch_open(launch, false, timeout_ns, &at->base, error);
  if (status != GLOO_OK) return status;
  if (at->start == 0) at->start = atomic_fetch_add(&starts, 1) + 1;
  snprintf(prefix, sizeof prefix, "%s/%" PRIu64 "/%u/", launch->job,
           launch->epoch, at->start);
  status = gloo_store_prefix_create(at->base, prefix, &at->store, error);
  if (status != GLOO_OK) gloo_store_destroy(at->base);
  return status == GLOO_OK ? move_beside(at, timeout_ns, error) : status;
}

static gloo_status place_open(place *at, int64_t timeout_ns,
                              gloo_error *error) {
  at->base = at->store = NULL;
  return at->launch->serves ? open_own(at, timeout_ns, error)
                            : open_shared(at, timeout_ns, error);
}

static void leave_place(const place *at) {
  gloo_store_destroy(at->store);
  gloo_store_destroy(at->base);
}

/* ---- meeting ------------------------------------------------------------- */

static gloo_status init_meet(const place *at, gloo_device *device,
                             const gloo_context_options *options,
                             gloo_context **context, gli_meeting *meeting,
                             gloo_error *error) {
  const gli_launch *launch = at->launch;
  gloo_store *store = at->store;
  const gli_origin origin = {
      .scope = {.job = launch->job, .epoch = launch->epoch}};
  gloo_status status =
      gli_context_create((int)launch->rank, (int)launch->size, store, device,
                         options, &origin, context, meeting, error);
  if (status == GLOO_OK) {
    if (launch->rank == 0 && may_be_strangers(launch)) uv_sleep(STRANGERS_MS);
    /* The server stays until no rank needs it. */
    status = gli_bootstrap_finish(
        store, launch->rank, launch->size,
        gli_deadline_left(meeting->attempt.deadline_ns), error);
    if (status != GLOO_OK) gloo_context_destroy(*context);
  } else if (meeting->progress == GLI_NOT_YET && gli_store_serves(store)) {
    status =
        gli_context_give_up(meeting, store, launch->rank, launch->size, error);
  } else if (meeting->all_know && meeting->progress == GLI_MET) {
    (void)gli_bootstrap_finish(store, launch->rank, launch->size, FAREWELL_NS,
                               NULL);
  } else if (status == GLOO_ERR_STALE && gli_store_was_first(store)) {
    /* Other ranks met there while this rank waited, and one had its number. */
    meeting->attempt.again = false;
    status = gli_bootstrap_contend(store, launch->rank, error);
  }
  return status;
}

/* Returns advice if MASTER_ADDR is loopback although the job may span hosts,
 * else "". Launchers that set LOCAL_RANK and LOCAL_WORLD_SIZE place the first
 * ranks on the host of rank 0. */
static gli_long_text loopback_advice(const gli_launch *launch) {
  gli_long_text advice = {""};
  gli_endpoint at;
  bool first = launch->rank == 0;
  const char *host = gli_environment_read("MASTER_ADDR");
  const char *rank = gli_environment_read("LOCAL_RANK");
  const char *here = first ? gli_environment_read("LOCAL_WORLD_SIZE") : rank;
  if (!launch->serves || host == NULL ||
      (here != NULL &&
       strtoul(here, NULL, 10) == (first ? launch->size : launch->rank)) ||
      (strcmp(host, "localhost") != 0 &&
       !(gli_endpoint_from_text(host, &at) && gli_endpoint_is_loopback(&at))))
    return advice;
  snprintf(advice.text, sizeof advice.text,
           "; MASTER_ADDR is %.40s, which is this host itself%s%s on another "
           "host%s set it to an address of %s host",
           host, here != NULL ? ", and " : ": if ",
           first ? "ranks run" : "rank 0 runs", here != NULL ? ":" : ",",
           first ? "this" : "that");
  return advice;
}

/* Blames rank 0 if the store that it serves does not answer: it has ended, was
 * stopped, or was not started. */
static gloo_status nobody_met(const gli_launch *launch, bool advise,
                              const gloo_error *cause, gloo_error *error) {
  bool silent =
      cause->status == GLOO_ERR_PEER || cause->status == GLOO_ERR_TIMEOUT;
  int rank = launch->serves && silent && cause->rank < 0 ? 0 : cause->rank;
  return gli_fail(error, cause->status, rank, "%s%s", cause->message,
                  advise && silent ? loopback_advice(launch).text : "");
}

/* Retries until the deadline. A rank that starts again may find the store of
 * the previous start, whose rank 0 has not ended yet. */
static gloo_status meet_until_done(place *at, gloo_device *device,
                                   const gloo_context_options *options,
                                   uint64_t deadline_ns, gloo_context **context,
                                   gloo_error *error) {
  const gli_launch *launch = at->launch;
  if (launch->size == 1)
    return gli_context_create(0, 1, NULL, device, options, NULL, context,
                              &(gli_meeting){0}, error);
  unsigned pause_ms = PAUSE_MIN_MS;
  gli_meeting meeting = {.attempt = {.deadline_ns = deadline_ns}};
  gloo_error cause;
  for (;;) {
    gloo_error unopened;
    meeting.progress = GLI_NOT_YET;
    meeting.all_know = false;
    meeting.attempt.again = false;
    int64_t left = gli_deadline_left(deadline_ns), most = left;
    bool was_in = meeting.attempt.published;
    if (was_in && (left < 0 || left > COME_BACK_NS)) most = COME_BACK_NS;
    /* At least a moment, because 0 would mean the default. */
    gloo_status status = place_open(at, most == 0 ? 1 : most, &unopened);
    if (status != GLOO_OK)
      return nobody_met(launch, !was_in, was_in ? &cause : &unopened, error);
    status = init_meet(at, device, options, context, &meeting, &cause);
    if (status == GLOO_OK && launch->rank == 0 && may_be_strangers(launch)) {
      gli_port_watch_begin(*context, at->store);
    } else {
      leave_place(at);
    }
    if (status == GLOO_OK) return status;
    if (!launch->serves || !meeting.attempt.again || left == 0)
      return nobody_met(launch, launch->rank == 0, &cause, error);
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
                    "gloo_init: `context` must not be NULL");
  }
  gli_launch launch;
  place at = {.launch = &launch};
  status = gli_launch_read(&launch, error);
  if (status == GLOO_OK && launch.size > 1)
    status = gli_store_url_read(launch.store, &at.url, error);
  if (status != GLOO_OK) return status;
  gloo_context_options c;
  status =
      gli_options_load(&c, sizeof c, o.context, "gloo_context_options", error);
  if (status != GLOO_OK) return status;
  launch.secret = c.secret;
  launch.secret_bytes = c.secret_bytes;
  gloo_device_options d;
  status =
      gli_options_load(&d, sizeof d, o.device, "gloo_device_options", error);
  if (status != GLOO_OK) return status;
  launch.tls = d.tls;
  status = gli_launch_check_secret(&launch, error);
  if (status != GLOO_OK) return status;
  int64_t timeout_ns;
  status = gli_timeout_of_start(c.timeout_ns, &timeout_ns, error);
  if (status != GLOO_OK) return status;
  uint64_t deadline = gli_deadline_after(timeout_ns);
  gloo_device *device = NULL;
  status = open_device(o.device, &at, deadline, &device, error);
  if (status != GLOO_OK) return status;
  gli_port_watch_end(NULL); /* frees the port for this start */
  gloo_context *made = NULL;
  status = meet_until_done(&at, device, o.context, deadline, &made, error);
  if (status != GLOO_OK) {
    gloo_device_destroy(device);
    return status;
  }
  gli_context_own_device(made);
  *context = made;
  return GLOO_OK;
}
