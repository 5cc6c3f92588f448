#include "ibv_below.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "ibv_device.h"
#include "transport_ibv/ibv.h"

below_end below;

static const gli_transport_ops below_ops;

const gli_transport_ops *gli_transport_find(const char *name) {
  fuzz_check(strcmp(name, "tcp") == 0, "TCP is the transport below");
  return &below_ops;
}

/* ---- the endpoint -------------------------------------------------------- */

static gloo_status below_open(const gli_transport_config *config,
                              gli_transport **t, gloo_error *error) {
  (void)error;
  below.base.ops = &below_ops;
  below.upcalls = config->upcalls;
  below.device_user = config->device_user;
  *t = &below.base;
  return GLOO_OK;
}

static void below_address(const gli_transport *t, gli_address *address) {
  (void)t;
  memset(address, 0, sizeof *address);
}

/* Advances the clock at each reading, so that waits come to an end. */
static uint64_t below_now_ns(gli_transport *t) {
  enum { LOOK_NS = 100000 };
  (void)t;
  device_pass(LOOK_NS);
  return device_now_ns();
}

static void below_nothing(gli_transport *t) {
  (void)t;
}

static void below_sleep(gli_transport *t, int64_t timeout_ns) {
  (void)t;
  (void)timeout_ns;
}

/* Threads run while others sleep. */
static bool below_sleep_begin(gli_transport *t, gli_sleep *sleep) {
  (void)t;
  (void)sleep;
  if (!below.stalls) device_run_threads();
  return false;
}

static void below_set_oversubscribed(gli_transport *t, bool oversubscribed) {
  (void)t;
  (void)oversubscribed;
}

static bool below_speaks_verbs(const gli_address *address) {
  (void)address;
  return below.verbs;
}

/* ---- the pair ------------------------------------------------------------ */

static gloo_status below_pair_open(gli_transport *t,
                                   const gli_pair_config *config,
                                   gli_pair **pair, gloo_error *error) {
  (void)t;
  (void)error;
  below.pair.ops = &below_ops;
  below.user = config->user;
  below.open = true;
  *pair = &below.pair;
  return GLOO_OK;
}

static void below_see(const gli_header *header, const void *payload) {
  uint8_t *copy = malloc((size_t)header->length + 1);
  fuzz_check(below.open, "nothing is sent by a pair that is closed");
  fuzz_check(gli_header_valid(header), "what is sent is a message");
  fuzz_check(copy != NULL, "there is memory");
  if (header->length > 0) memcpy(copy, payload, (size_t)header->length);
  if (header->type == GLI_MESSAGE_LINK && copy[4] == GLI_IBV_OFFER) {
    below.offered_number = gli_get_u32(copy + 8);
    below.offered_psn = gli_get_u32(copy + 12);
  }
  free(copy);
}

static gli_post below_send(gli_pair *pair, gli_send_request *request) {
  (void)pair;
  if (!below.keeps || below.n_kept == BELOW_KEPT) {
    below_see(&request->header, request->payload);
    return GLI_POST_DONE;
  }
  below.kept[below.n_kept++] = request;
  return GLI_POST_IN_PROGRESS;
}

static bool below_send_now(gli_pair *pair, gli_header *header,
                           const void *payload) {
  (void)pair;
  if (below.n_kept > 0) return false;
  below_see(header, payload);
  return true;
}

static void below_pair_close(gli_pair *pair, const gli_send_request *last) {
  (void)pair;
  for (size_t i = 0; i < below.n_kept; i++)
    below_see(&below.kept[i]->header, below.kept[i]->payload);
  if (last != NULL) below_see(&last->header, last->payload);
  fuzz_check(below.open, "a pair is closed once");
  below.open = false;
  below.n_kept = 0;
}

static uint64_t below_heard(const gli_pair *pair) {
  (void)pair;
  return 0;
}

/* ---- incoming messages --------------------------------------------------- */

static void below_report_sent(void) {
  gli_send_request *sent[BELOW_KEPT];
  size_t n = below.n_kept;
  memcpy(sent, below.kept, n * sizeof *sent);
  below.n_kept = 0;
  for (size_t i = 0; i < n; i++) below_see(&sent[i]->header, sent[i]->payload);
  for (size_t i = 0; i < n && below.open && !below.silent; i++)
    below.upcalls->sent(below.user, sent[i]);
}

static void below_place(const gli_sink *sink, size_t bytes) {
  if (sink->fn != NULL)
    sink->fn(sink->dst, sink->local, below.payload, bytes / sink->elem_bytes);
  else if (bytes > 0)
    memcpy(sink->dst, below.payload, bytes);
}

static void below_hand_up(void) {
  const gli_header *header = &below.said;
  size_t bytes = (size_t)header->length;
  gli_sink sink = {.dst = NULL};
  bool taken = false;
  if (below.whole) {
    uint8_t *exact = malloc(bytes + 1);
    fuzz_check(exact != NULL, "there is memory");
    memcpy(exact, below.payload, bytes);
    if (below.upcalls->message(below.user, header, exact, &taken) != GLOO_OK)
      below.silent = true;
    free(exact);
  }
  if (taken || below.silent || !below.open) return;
  if (below.upcalls->header(below.user, header, &sink) != GLOO_OK)
    below.silent = true;
  if (below.silent || !below.open) return;
  below_place(&sink, bytes);
  below.silent =
      header->type == GLI_MESSAGE_BYE || header->type == GLI_MESSAGE_ABORT;
  below.upcalls->received(below.user, sink.token);
}

static int below_poll(gli_transport *t) {
  gloo_error cause;
  (void)t;
  below_report_sent();
  bool says = below.says, fails = below.fails;
  below.says = below.fails = false;
  if (says && below.open && !below.silent) below_hand_up();
  if (!fails || !below.open || below.silent) return says;
  below.silent = true;
  gli_fail(&cause, GLOO_ERR_PEER, 1, "rank 1 is gone");
  below.upcalls->failed(below.user, &cause);
  return 1;
}

static const gli_transport_ops below_ops = {
    .name = "below",
    .open = below_open,
    .address = below_address,
    .now_ns = below_now_ns,
    .pair_open = below_pair_open,
    .send = below_send,
    .send_now = below_send_now,
    .pair_close = below_pair_close,
    .poll = below_poll,
    .sleep = below_sleep,
    .wake = below_nothing,
    .close = below_nothing,
    .speaks_verbs = below_speaks_verbs,
    .heard = below_heard,
    .rested = below_nothing,
    .set_oversubscribed = below_set_oversubscribed,
    .sleep_begin = below_sleep_begin,
    .sleep_end = below_nothing,
};

/* ---- for the target ------------------------------------------------------ */

void below_begin(bool verbs, bool keeps) {
  memset(&below, 0, sizeof below);
  below.verbs = verbs;
  below.keeps = keeps;
}

void below_say(const gli_header *header, const void *payload, bool whole) {
  if (header->length > BELOW_BYTES || !gli_header_valid(header)) return;
  below.said = *header;
  if (header->length > 0)
    memcpy(below.payload, payload, (size_t)header->length);
  below.whole = whole;
  below.says = true;
}

void below_fail(void) {
  below.fails = true;
}
