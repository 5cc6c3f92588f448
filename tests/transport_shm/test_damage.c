/* A bit flip in a ring: with checksums the damaged message is not received, and
 * both ends report it. */
#include "ends.h"
#include "transport_shm/shm.h"

extern const gli_transport_ops gli_transport_shm;

enum { MOST = 200000 };

/* An end point with one pair. */
typedef struct side {
  gli_transport *t;
  gli_pair *pair;
  gli_pair_config config;
  int received, failed, aborted;
  uint32_t owed;
  gloo_error cause;
  uint8_t data[MOST];
} side;

static gloo_status on_header(void *user, const gli_header *header,
                             gli_sink *sink) {
  side *s = user;
  assert_true(header->length <= MOST);
  s->aborted += header->type == GLI_MESSAGE_ABORT;
  *sink = (gli_sink){.dst = s->data};
  return GLOO_OK;
}

static void on_received(void *user, void *token) {
  (void)token;
  ((side *)user)->received++;
}

static void on_sent(void *user, gli_send_request *request) {
  (void)user;
  (void)request;
}

static void on_failed(void *user, const gloo_error *cause) {
  side *s = user;
  s->failed++;
  s->cause = *cause;
}

static gli_pair *on_accept(void *user, uint64_t key, uint32_t rank) {
  const side *s = user;
  (void)rank;
  return key == s->config.local_key ? s->pair : NULL;
}

static const gli_upcalls upcalls = {.header = on_header,
                                    .received = on_received,
                                    .sent = on_sent,
                                    .failed = on_failed,
                                    .accept = on_accept};

static void open_sides(side sides[2], const bool checksums[2]) {
  const gli_transport_ops *ops = &gli_transport_shm;
  gloo_error error;
  for (int i = 0; i < 2; i++) {
    side *s = &sides[i];
    memset(s, 0, sizeof *s);
    const gli_transport_config config = {.streams = 1,
                                         .upcalls = &upcalls,
                                         .device_user = s,
                                         .owed = &s->owed,
                                         .checksum = checksums[i]};
    assert_int_equal(ops->open(&config, &s->t, &error), GLOO_OK);
    s->config = (gli_pair_config){.self_rank = (uint32_t)i,
                                  .peer_rank = (uint32_t)!i,
                                  .local_key = 100 + (uint64_t)i,
                                  .remote_key = 100 + (uint64_t)!i,
                                  .user = s};
  }
  for (int i = 0; i < 2; i++) {
    ops->address(sides[!i].t, &sides[i].config.address);
    assert_int_equal(
        ops->pair_open(sides[i].t, &sides[i].config, &sides[i].pair, &error),
        GLOO_OK);
  }
  while (!gli_shm_pair_up(sides[0].pair) || !gli_shm_pair_up(sides[1].pair))
    for (int i = 0; i < 2; i++) (void)ops->poll(sides[i].t);
}

static void close_sides(side sides[2]) {
  for (int i = 0; i < 2; i++) {
    if (sides[i].pair != NULL)
      gli_transport_shm.pair_close(sides[i].pair, NULL);
    gli_transport_shm.close(sides[i].t);
  }
}

static const bool both[2] = {true, true};

/* Closes the receiver's end with an ABORT, which the sender receives. */
static void tell_sender(side sides[2]) {
  const gli_transport_ops *ops = &gli_transport_shm;
  const gli_send_request last = {
      .payload = "why", .header = {.type = GLI_MESSAGE_ABORT, .length = 4}};
  assert_int_equal(sides[1].failed, 1);
  assert_int_equal(sides[1].cause.status, GLOO_ERR_PROTOCOL);
  assert_int_equal(sides[1].cause.rank, 0);
  ops->pair_close(sides[1].pair, &last);
  sides[1].pair = NULL;
  for (int i = 0; i < 100 && sides[0].received == 0; i++) {
    (void)ops->poll(sides[1].t);
    (void)ops->poll(sides[0].t);
  }
  assert_int_equal(sides[0].aborted, 1);
  assert_string_equal((char *)sides[0].data, "why");
  assert_int_equal(sides[0].failed, 0);
}

/* Sends one message and flips bit `bit` of the byte at offset `at` of the slots
 * (of the data part unless `in_slot`). */
static void flip_in_ring(size_t bytes, bool in_slot, size_t at, unsigned bit) {
  static side sides[2];
  static uint8_t payload[MOST];
  const gli_transport_ops *ops = &gli_transport_shm;
  open_sides(sides, both);
  memset(payload, 0x5a, bytes);
  gli_send_request request = {
      .payload = payload,
      .header = {.type = GLI_MESSAGE_DATA, .length = bytes, .count = 3}};
  assert_int_equal(sides[0].pair->ops->send(sides[0].pair, &request),
                   GLI_POST_DONE);
  gli_shm_memory *m = ((gli_shm_pair *)sides[0].pair)->out.memory;
  uint8_t *from = in_slot ? (uint8_t *)m->slots : m->data;
  from[at] ^= (uint8_t)(1u << bit);
  for (int i = 0; i < 100; i++) (void)ops->poll(sides[1].t);
  if (sides[1].received != 0 || sides[1].failed != 1)
    fail_msg("bit %u of byte %zu %s of %zu bytes went unnoticed", bit, at,
             in_slot ? "of the slots" : "of the data", bytes);
  assert_non_null(strstr(sides[1].cause.message, "is corrupt"));
  assert_non_null(strstr(sides[1].cause.message, "rank 0 to rank 1"));
  tell_sender(sides);
  close_sides(sides);
}

/* The word that marks a record as present is the exception. */
static bool says_that_it_is_there(size_t at) {
  size_t word = offsetof(gli_header, number);
  return at >= word && at < word + sizeof(uint32_t);
}

static void every_bit_of_a_slot(void **state) {
  (void)state;
  for (size_t at = 0; at < sizeof(gli_shm_slot); at++)
    for (unsigned bit = 0; bit < 8; bit++)
      if (!says_that_it_is_there(at)) flip_in_ring(4, true, at, bit);
}

static void every_bit_of_a_short_payload(void **state) {
  (void)state;
  for (size_t at = 0; at < 4; at++)
    for (unsigned bit = 0; bit < 8; bit++) flip_in_ring(4, false, at, bit);
}

static void any_part_of_a_message_of_many_records(void **state) {
  (void)state;
  for (size_t at = 0; at < MOST; at += 9973)
    flip_in_ring(MOST, false, at, at % 8);
  flip_in_ring(MOST, false, MOST - 1, 7);
  size_t mark = offsetof(gli_header, mark);
  for (unsigned bit = 0; bit < 8; bit++)
    for (size_t slot = 0; slot < 4; slot++)
      flip_in_ring(MOST, true, slot * sizeof(gli_shm_slot) + mark, bit);
}

static void one_end_that_asks_is_enough(void **state) {
  (void)state;
  static side sides[2];
  for (int asks = 0; asks < 2; asks++) {
    const bool checksums[2] = {asks == 0, asks == 1};
    open_sides(sides, checksums);
    for (int i = 0; i < 2; i++) {
      assert_true(((gli_shm_pair *)sides[i].pair)->peer.checked);
      assert_null(sides[i].pair->ops->rkey_pack);
    }
    close_sides(sides);
  }
}

/* An earlier message is put in the place of the next one. */
static void what_was_sent_before_is_not_taken_again(void **state) {
  (void)state;
  static side sides[2];
  const gli_transport_ops *ops = &gli_transport_shm;
  open_sides(sides, both);
  gli_send_request request = {.header = {.type = GLI_MESSAGE_CREDIT}};
  assert_int_equal(sides[0].pair->ops->send(sides[0].pair, &request),
                   GLI_POST_DONE);
  gli_shm_memory *m = ((gli_shm_pair *)sides[0].pair)->out.memory;
  while (sides[1].received == 0) (void)ops->poll(sides[1].t);
  memcpy(&m->slots[1].record, &m->slots[0].record, sizeof m->slots[0].record);
  atomic_store(&m->slots[1].flag.sequence, 2);
  for (int i = 0; i < 100; i++) (void)ops->poll(sides[1].t);
  assert_int_equal(sides[1].received, 1);
  assert_int_equal(sides[1].failed, 1);
  close_sides(sides);
}

static void what_makes_no_sense_is_told_without_checksums_too(void **state) {
  (void)state;
  static side sides[2];
  static const bool neither[2] = {false, false};
  open_sides(sides, neither);
  gli_send_request request = {.header = {.type = GLI_MESSAGE_CREDIT}};
  assert_int_equal(sides[0].pair->ops->send(sides[0].pair, &request),
                   GLI_POST_DONE);
  gli_shm_memory *m = ((gli_shm_pair *)sides[0].pair)->out.memory;
  m->slots[0].record.header.mark ^= 0x40;
  for (int i = 0; i < 100; i++) (void)gli_transport_shm.poll(sides[1].t);
  assert_non_null(strstr(sides[1].cause.message, "invalid data"));
  tell_sender(sides);
  close_sides(sides);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_bit_of_a_slot),
      cmocka_unit_test(every_bit_of_a_short_payload),
      cmocka_unit_test(any_part_of_a_message_of_many_records),
      cmocka_unit_test(one_end_that_asks_is_enough),
      cmocka_unit_test(what_was_sent_before_is_not_taken_again),
      cmocka_unit_test(what_makes_no_sense_is_told_without_checksums_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
