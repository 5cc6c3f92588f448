#include "transport_use.h"

#include <stdlib.h>
#include <string.h>

static void use_drop(use_arrival *arrival) {
  free(arrival->sink);
  free(arrival->local);
  *arrival = (use_arrival){.sink = NULL};
}

static void use_sum(void *dst, const void *a, const void *b, size_t count) {
  for (size_t i = 0; i < 4 * count; i++)
    ((uint8_t *)dst)[i] =
        (uint8_t)(((const uint8_t *)a)[i] + ((const uint8_t *)b)[i]);
}

static void use_check_header(const gli_header *header) {
  fuzz_check(gli_header_valid(header), "no other header is handed up");
}

/* Receives into memory of exactly the message's size; some messages are
 * reduced. */
static gloo_status on_header(void *user, const gli_header *header,
                             gli_sink *sink) {
  transport_use *use = user;
  use_check_header(header);
  if (header->length > USE_BYTES) return GLOO_ERR_PROTOCOL;
  use_arrival *a = use->arrivals;
  while (a < use->arrivals + USE_STREAMS && a->sink != NULL) a++;
  fuzz_check(a < use->arrivals + USE_STREAMS,
             "a stream has one message arriving");
  size_t bytes = (size_t)header->length;
  a->bytes = bytes;
  a->sink = malloc(bytes + 1);
  a->local = calloc(1, bytes + 1);
  fuzz_check(a->sink != NULL && a->local != NULL, "there is memory");
  a->sink[bytes] = 0x77;
  *sink = (gli_sink){
      .dst = a->sink, .nontemporal = (header->tag & 1) != 0, .token = a};
  if (header->dtype % 2 == 0 || bytes % 4 != 0) return GLOO_OK;
  sink->fn = use_sum;
  sink->local = a->local;
  sink->elem_bytes = 4;
  sink->incoming_first = header->op % 2 == 0;
  return GLOO_OK;
}

static void on_received(void *user, void *token) {
  transport_use *use = user;
  use_arrival *a = token;
  fuzz_check(
      a >= use->arrivals && a < use->arrivals + USE_STREAMS && a->sink != NULL,
      "it is what was announced");
  fuzz_check(a->sink[a->bytes] == 0x77, "nothing is written behind a message");
  use_drop(a);
}

/* Takes every other message immediately. */
static gloo_status on_message(void *user, const gli_header *header,
                              const void *payload, bool *taken) {
  uint8_t room[USE_BYTES];
  (void)user;
  use_check_header(header);
  if (header->length > USE_BYTES) return GLOO_ERR_PROTOCOL;
  *taken = header->slot % 2 == 0;
  if (*taken && header->length > 0)
    memcpy(room, payload, (size_t)header->length);
  return GLOO_OK;
}

static void on_sent(void *user, gli_send_request *request) {
  (void)user;
  (void)request;
}

static void on_failed(void *user, const gloo_error *cause) {
  transport_use *use = user;
  fuzz_check(!use->failed, "a pair fails once");
  fuzz_check_error(cause->status, cause);
  use->failed = true;
}

static bool use_is_for(const transport_use *use, uint64_t key, uint32_t rank) {
  return key == use->config.local_key && rank == use->config.peer_rank;
}

static gli_pair *on_accept(void *user, uint64_t key, uint32_t rank) {
  transport_use *use = user;
  if (key == 0) return GLI_PAIR_LATER;
  if (key == 1) return GLI_PAIR_ELSEWHERE;
  if (!use_is_for(use, key, rank)) return NULL;
  if (use->pair == NULL && use_connect(use) != GLOO_OK) return NULL;
  return use->pair;
}

static bool on_expect(void *user, uint64_t key, uint32_t rank,
                      gli_pair_config *config) {
  const transport_use *use = user;
  *config = use->config;
  return use_is_for(use, key, rank);
}

static const gli_upcalls use_upcalls = {.header = on_header,
                                        .received = on_received,
                                        .sent = on_sent,
                                        .failed = on_failed,
                                        .accept = on_accept,
                                        .expect = on_expect,
                                        .message = on_message};

void use_open(transport_use *use, const gli_transport_ops *ops,
              gli_tls_settings *tls) {
  gloo_error error;
  const gli_transport_config config = {.host = "127.0.0.1",
                                       .streams = 2,
                                       .tls = tls,
                                       .upcalls = &use_upcalls,
                                       .device_user = use,
                                       .owed = &use->owed};
  memset(use, 0, sizeof *use);
  use->ops = ops;
  fuzz_check(ops->open(&config, &use->t, &error) == GLOO_OK, error.message);
}

void use_expect(transport_use *use, const gli_address *peer, bool asks) {
  use->failed = false;
  use->config = (gli_pair_config){.self_rank = 0,
                                  .peer_rank = 1,
                                  .local_key = USE_KEY_OWN,
                                  .remote_key = USE_KEY_PEER,
                                  .job_key = asks ? use->job_key : NULL,
                                  .address = *peer,
                                  .user = use};
}

gloo_status use_connect(transport_use *use) {
  gloo_error error;
  gloo_status status =
      use->ops->pair_open(use->t, &use->config, &use->pair, &error);
  fuzz_check_error(status, &error);
  return status;
}

void use_close_pair(transport_use *use) {
  if (use->pair != NULL) use->pair->ops->pair_close(use->pair, NULL);
  use->pair = NULL;
  use->config.local_key = 0;
  for (int i = 0; i < USE_STREAMS; i++) use_drop(&use->arrivals[i]);
}

gli_header use_make_header(fuzz_input *input, size_t length) {
  uint8_t kind = fuzz_take_u8(input), parts = fuzz_take_u8(input);
  gli_header header = {.type = (uint8_t)(kind % GLI_MESSAGE_TYPES),
                       .form = (kind >> 4) % GLI_FORMS & 0x7fu,
                       .eager = parts & 1u,
                       .slot = parts >> 4,
                       .dtype = parts >> 1 & 1,
                       .op = parts >> 2 & 1,
                       .tag = parts >> 3 & 1,
                       .length = length};
  return header;
}
