#include "peer.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"

enum { ENGINE_KEY = 1000, PEER_KEY = 2000, DISCARD_BYTES = 1 << 20 };

struct said {
  gli_send_request request;
  said *before;
};

static gloo_status on_header(void *user, const gli_header *h, gli_sink *sink) {
  pair_of_ranks *two = user;
  assert_true(h->length <= DISCARD_BYTES);
  two->came[h->type]++;
  two->last[h->type] = *h;
  *sink = (gli_sink){.dst = two->discard};
  return GLOO_OK;
}

static void on_received(void *user, void *token) {
  (void)user;
  (void)token;
}

static void on_sent(void *user, gli_send_request *request) {
  (void)user;
  (void)request;
}

static void on_failed(void *user, const gloo_error *cause) {
  (void)user;
  (void)cause;
}

static gli_pair *on_accept(void *user, uint64_t key, uint32_t rank) {
  pair_of_ranks *two = user;
  return key == PEER_KEY && rank == 0 ? two->pair : NULL;
}

static const gli_upcalls upcalls = {.header = on_header,
                                    .received = on_received,
                                    .sent = on_sent,
                                    .failed = on_failed,
                                    .accept = on_accept};

static void set_up_with(pair_of_ranks *two, const sim_options *options,
                        int64_t timeout_ns) {
  gloo_error error;
  *two = (pair_of_ranks){.world = sim_create(options),
                         .discard = malloc(DISCARD_BYTES)};
  gli_transport_config c = {.host = sim_host(two->world, 0), .streams = 1};
  assert_int_equal(
      gli_device_open(&sim_transport, &c, false, &two->device, &error), 0);
  assert_int_equal(gli_context_open(two->device, 0, 2, ENGINE_KEY, NULL,
                                    timeout_ns, &two->context, &error),
                   0);
  c = (gli_transport_config){.host = sim_host(two->world, 1),
                             .streams = 1,
                             .upcalls = &upcalls,
                             .device_user = two};
  assert_int_equal(sim_transport.open(&c, &two->peer, &error), 0);
  gli_address address;
  sim_transport.address(two->peer, &address);
  gli_context_set_peer(two->context, 1, &address, PEER_KEY, true);
  gli_pair_config p = {.self_rank = 1,
                       .peer_rank = 0,
                       .local_key = PEER_KEY,
                       .remote_key = ENGINE_KEY,
                       .user = two};
  gli_device_address(two->device, &p.address);
  assert_int_equal(sim_transport.pair_open(two->peer, &p, &two->pair, &error),
                   0);
}

void peer_set_up(pair_of_ranks *two, int in_progress_percent,
                 int64_t timeout_ns) {
  sim_options options = {.seed = 1,
                         .delay_max_ns = 1000,
                         .streams = 1,
                         .progress_percent = in_progress_percent};
  set_up_with(two, &options, timeout_ns);
}

static void set_up_exposing(pair_of_ranks *two, int in_progress_percent,
                            int exposes, uint32_t shares) {
  sim_options options = {.seed = 1,
                         .delay_max_ns = 1000,
                         .streams = 1,
                         .progress_percent = in_progress_percent,
                         .rkey_percent = 100,
                         .exposes = exposes,
                         .shares = shares};
  set_up_with(two, &options, -1);
}

void peer_set_up_exposing(pair_of_ranks *two, int in_progress_percent,
                          int exposes) {
  set_up_exposing(two, in_progress_percent, exposes, 0);
}

void peer_set_up_sharing(pair_of_ranks *two, uint32_t shares) {
  set_up_exposing(two, 100, 1000, shares);
}

void peer_set_up_rkeys(pair_of_ranks *two, int in_progress_percent) {
  peer_set_up_exposing(two, in_progress_percent, 1000);
}

void peer_tear_down(pair_of_ranks *two) {
  sim_transport.pair_close(two->pair, NULL);
  gli_context_close(two->context);
  gli_device_close(two->device);
  sim_transport.close(two->peer);
  sim_destroy(two->world);
  while (two->said) {
    said *last = two->said;
    two->said = last->before;
    free(last);
  }
  free(two->discard);
}

void peer_run_engine(pair_of_ranks *two) {
  sim_freeze(two->world, 1);
  do gli_device_progress(two->device);
  while (sim_step(two->world));
  sim_thaw(two->world, 1);
}

void peer_run_both(pair_of_ranks *two) {
  do {
    gli_device_progress(two->device);
    sim_transport.poll(two->peer);
  } while (sim_step(two->world));
}

void peer_post(pair_of_ranks *two, const gli_header *header,
               const void *payload) {
  said *new = calloc(1, sizeof *new + (size_t)header->length);
  assert_non_null(new);
  new->before = two->said;
  two->said = new;
  gli_send_request *request = &new->request;
  request->header = *header;
  request->header.credit = 0;
  if (payload) memcpy(new + 1, payload, (size_t)header->length);
  request->payload = new + 1;
  assert_int_not_equal(two->pair->ops->send(two->pair, request),
                       GLI_POST_NO_ROOM);
}

void peer_say(pair_of_ranks *two, gli_message_type type,
              const gli_header *about, uint32_t slot) {
  gli_header header = *about;
  header.type = (uint8_t)type;
  header.form = GLI_FORM_BYTES;
  header.slot = slot;
  header.eager = 0;
  header.length = 0;
  peer_post(two, &header, NULL);
}

void peer_data(pair_of_ranks *two, const gli_header *about, uint32_t slot,
               gli_form form, const void *payload, uint64_t bytes) {
  gli_header header = *about;
  header.type = GLI_MESSAGE_DATA;
  header.form = (unsigned)form & 0x7fu;
  header.slot = slot;
  header.length = bytes;
  header.eager = 0;
  peer_post(two, &header, payload);
}

void peer_rkey_pack(pair_of_ranks *two, const gli_header *about, uint32_t slot,
                    gli_form form, uint64_t rkey) {
  uint8_t payload[GLI_RKEY_BYTES];
  gli_put_u64(payload, rkey);
  peer_data(two, about, slot, form, payload, sizeof payload);
}
