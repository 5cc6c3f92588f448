#include "nowhere.h"

#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "engine/drive/driver.h"
#include "transport/sink.h"

enum { KEPT_MAX = sizeof nowhere.kept / sizeof nowhere.kept[0] };
static const uint64_t poll_ns = 100000;

nowhere_end nowhere;
static const gli_transport_ops nowhere_ops;

/* ---- the endpoint -------------------------------------------------------- */

static gloo_status end_open(const gli_transport_config *config,
                            gli_transport **t, gloo_error *error) {
  (void)error;
  nowhere.base = (gli_transport){&nowhere_ops, config->owed};
  nowhere.upcalls = config->upcalls;
  nowhere.device_user = config->device_user;
  *t = &nowhere.base;
  return GLOO_OK;
}

static void end_address(const gli_transport *t, gli_address *address) {
  (void)t;
  *address = (gli_address){.bytes = 4, .data = "here"};
}

static uint64_t end_now_ns(gli_transport *t) {
  (void)t;
  return nowhere.now_ns;
}

static void end_sleep(gli_transport *t, int64_t timeout_ns) {
  (void)t;
  nowhere.now_ns += timeout_ns > 0 ? (uint64_t)timeout_ns : poll_ns;
}

static void end_wake(gli_transport *t) {
  (void)t;
}

static bool end_maps(const gli_address *a, const gli_address *b) {
  return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

static int end_poll(gli_transport *t) {
  (void)t;
  int n = 0;
  nowhere.now_ns += poll_ns;
  while (nowhere.n_kept > 0) {
    size_t last = --nowhere.n_kept;
    nowhere.upcalls->sent(nowhere.kept_by[last]->user, nowhere.kept[last]);
    n++;
  }
  if (nowhere.next != NULL) {
    void (*next)(void *user) = nowhere.next;
    nowhere.next = NULL;
    next(nowhere.next_user);
    n++;
  }
  return n;
}

/* ---- pairs --------------------------------------------------------------- */

static gloo_status nowhere_pair_open(gli_transport *t,
                                     const gli_pair_config *config,
                                     gli_pair **pair, gloo_error *error) {
  (void)t;
  if (!nowhere.reaches || config->peer_rank >= NOWHERE_RANKS)
    return gli_fail(error, GLOO_ERR_ADDRESS, (int)config->peer_rank,
                    "rank %u is nowhere", (unsigned)config->peer_rank);
  nowhere_pair *made = &nowhere.pairs[config->peer_rank];
  fuzz_check(!made->open, "a pair is opened once");
  *made = (nowhere_pair){
      .base = {.ops = &nowhere_ops}, .user = config->user, .open = true};
  *pair = &made->base;
  return GLOO_OK;
}

static gli_post nowhere_send(gli_pair *base, gli_send_request *request) {
  nowhere_pair *pair = (nowhere_pair *)base;
  fuzz_check(pair->open, "nothing is sent on a closed pair");
  fuzz_check(gli_header_valid(&request->header), "headers are valid ones");
  pair->said[pair->n_said++ % NOWHERE_SAID] = request->header;
  if (!nowhere.keeps || nowhere.n_kept == KEPT_MAX) return GLI_POST_DONE;
  nowhere.kept_by[nowhere.n_kept] = pair;
  nowhere.kept[nowhere.n_kept++] = request;
  return GLI_POST_IN_PROGRESS;
}

static void nowhere_pair_close(gli_pair *base, const gli_send_request *last) {
  nowhere_pair *pair = (nowhere_pair *)base;
  size_t n = 0;
  (void)last;
  for (size_t i = 0; i < nowhere.n_kept; i++) {
    if (nowhere.kept_by[i] == pair) continue;
    nowhere.kept_by[n] = nowhere.kept_by[i];
    nowhere.kept[n++] = nowhere.kept[i];
  }
  nowhere.n_kept = n;
  pair->open = false;
}

/* ---- memory -------------------------------------------------------------- */

static bool nowhere_rkey_pack(gli_pair *pair, const void *memory, size_t bytes,
                              gli_access access, uint64_t *rkey) {
  (void)pair;
  (void)bytes;
  (void)access;
  *rkey = (uint64_t)(uintptr_t)memory;
  return nowhere.lends;
}

/* Maps even rkeys only. */
static gloo_status nowhere_rkey_map(gli_pair *pair, uint64_t rkey, size_t bytes,
                                    bool write, void **memory,
                                    gloo_error *error) {
  (void)pair;
  (void)write;
  if (!gli_in_bounds(rkey, bytes, NOWHERE_BYTES))
    return gli_fail(error, GLOO_ERR_PROTOCOL, -1, "that is no memory");
  *memory = rkey % 2 == 0 ? nowhere.memory + rkey : NULL;
  return GLOO_OK;
}

static gloo_status nowhere_get(gli_pair *pair, uint64_t rkey, void *dst,
                               size_t bytes, gloo_error *error) {
  (void)pair;
  (void)error;
  memcpy(dst, nowhere.memory + rkey, bytes);
  return GLOO_OK;
}

static bool nowhere_revoked(gli_pair *pair) {
  return ((nowhere_pair *)pair)->stopped;
}

static gli_shared_copy *nowhere_shared_copy(gli_pair *pair, bool sends) {
  (void)pair;
  return nowhere.copies[sends];
}

static const gli_transport_ops nowhere_ops = {
    .name = "nowhere",
    .open = end_open,
    .address = end_address,
    .now_ns = end_now_ns,
    .pair_open = nowhere_pair_open,
    .send = nowhere_send,
    .pair_close = nowhere_pair_close,
    .poll = end_poll,
    .sleep = end_sleep,
    .wake = end_wake,
    .close = end_wake,
    .maps = end_maps,
    .rkey_pack = nowhere_rkey_pack,
    .rkey_map = nowhere_rkey_map,
    .get = nowhere_get,
    .revoked = nowhere_revoked,
    .shared_copy = nowhere_shared_copy,
};

/* ---- incoming messages --------------------------------------------------- */

static void nowhere_place(const gli_sink *sink, const gli_header *header,
                          const uint8_t *payload, size_t bytes) {
  if (sink->fn != NULL) {
    fuzz_check(header->length % sink->elem_bytes == 0,
               "what is reduced is whole elements");
    bytes -= bytes % sink->elem_bytes;
  }
  if (bytes > 0) gli_sink_place(sink, 0, payload, bytes);
}

void nowhere_hand_up(nowhere_pair *pair, const gli_header *header,
                     const uint8_t *payload, size_t bytes) {
  gli_sink sink;
  bool taken = false;
  if (!pair->open || pair->stopped || !gli_header_valid(header)) return;
  bool whole = header->length <= bytes;
  if (whole) {
    bytes = (size_t)header->length;
    if (nowhere.upcalls->message(pair->user, header, payload, &taken) !=
        GLOO_OK)
      pair->stopped = true;
    if (taken || pair->stopped || !pair->open) return;
  }
  if (nowhere.upcalls->header(pair->user, header, &sink) != GLOO_OK)
    pair->stopped = true;
  if (pair->stopped || !pair->open) return;
  nowhere_place(&sink, header, payload, bytes);
  if (whole)
    nowhere.upcalls->received(pair->user, sink.token);
  else
    pair->stopped = true; /* the rest of the payload never comes */
}

void nowhere_fail(nowhere_pair *pair, gloo_status status, int rank) {
  gloo_error cause;
  if (!pair->open || pair->stopped) return;
  pair->stopped = true;
  gli_fail(&cause, status, rank, "rank %d is gone", rank);
  nowhere.upcalls->failed(pair->user, &cause);
}

/* ---- devices ------------------------------------------------------------- */

gloo_device *nowhere_open(void) {
  const gli_transport_config config = {.streams = 1, .owed = &nowhere.owed};
  gloo_device *device;
  gloo_error error;
  memset(&nowhere, 0, offsetof(nowhere_end, memory));
  nowhere.now_ns = 1;
  fuzz_check(
      gli_device_open(&nowhere_ops, &config, false, &device, &error) == GLOO_OK,
      "the device opens");
  return device;
}

void nowhere_close(gloo_device *device) {
  for (int i = 0; i < NOWHERE_RANKS; i++)
    fuzz_check(!nowhere.pairs[i].open, "all pairs are closed");
  gli_device_close(device);
}
