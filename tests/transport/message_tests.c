/* Messages: contents, sinks, order, many at once. */
#include <stdlib.h>

#include "battery.h"

/* ---- contents ------------------------------------------------------------ */

static const size_t sizes[] = {0,   1,   4096, 1 << 20,
                               511, 512, 513,  (5 << 20) + 3};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void payloads_of_all_sizes_arrive_both_ways(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  for (size_t i = 0; i < SIZES; i++) {
    bat_send_filled(a, 0, sizes[i], i);
    bat_send_filled(b, 0, sizes[i], i + 100);
    BAT_DRIVE(w, a->n_received == i + 1 && b->n_received == i + 1);
    bat_assert_message(b, i, sizes[i], i);
    bat_assert_message(a, i, sizes[i], i + 100);
  }
  BAT_DRIVE(w, a->n_done == SIZES && b->n_done == SIZES);
}

static void payloads_sent_together_arrive(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  for (size_t i = 0; i < SIZES; i++) bat_send_filled(a, 0, sizes[i], i);
  BAT_DRIVE(w, b->n_received == SIZES && a->n_done == SIZES);
  for (size_t i = 0; i < SIZES; i++) bat_assert_message(b, i, sizes[i], i);
}

static void header_fields_arrive_as_they_were_sent(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  gli_header sent = {.type = GLI_MESSAGE_DATA,
                     .eager = 1,
                     .collective = 2,
                     .dtype = 3,
                     .op = 4,
                     .algorithm = 5,
                     .context = 0x01020304,
                     .tag = 0xfffffffe,
                     .slot = 0x80000001,
                     .root = 0x7fffffff,
                     .credit = 0xdeadbeef,
                     .operation = UINT64_C(0x123456789abcdef0),
                     .count = UINT64_C(0xfedcba9876543210),
                     .length = 3};
  bat_send_header(a, &sent, "abc");
  BAT_DRIVE(w, b->n_received == 1);
  const gli_header *got = &b->in[0].header;
  assert_int_equal(got->type, sent.type);
  assert_int_equal(got->eager, sent.eager);
  assert_int_equal(got->collective, sent.collective);
  assert_int_equal(got->dtype, sent.dtype);
  assert_int_equal(got->op, sent.op);
  assert_int_equal(got->algorithm, sent.algorithm);
  assert_int_equal(got->context, sent.context);
  assert_int_equal(got->tag, sent.tag);
  assert_int_equal(got->slot, sent.slot);
  assert_int_equal(got->root, sent.root);
  assert_int_equal(got->credit, sent.credit);
  assert_true(got->operation == sent.operation);
  assert_true(got->count == sent.count);
  assert_memory_equal(b->in[0].data, "abc", 3);
}

static void forms_of_messages_travel(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  gli_header rkey = {.type = GLI_MESSAGE_DATA,
                     .form = GLI_FORM_RKEY,
                     .length = GLI_RKEY_BYTES};
  bat_send_header(a, &rkey, "12345678");
  gli_header placed = {
      .type = GLI_MESSAGE_DATA, .eager = 1, .form = GLI_FORM_PUT_DONE};
  bat_send_header(a, &placed, NULL);
  gli_header taken = {.type = GLI_MESSAGE_READ_DONE, .slot = 9};
  bat_send_header(a, &taken, NULL);
  BAT_DRIVE(w, b->n_received == 3);
  assert_int_equal(b->in[0].header.form, GLI_FORM_RKEY);
  assert_int_equal(b->in[0].header.eager, 0);
  assert_memory_equal(b->in[0].data, "12345678", GLI_RKEY_BYTES);
  assert_int_equal(b->in[1].header.form, GLI_FORM_PUT_DONE);
  assert_int_equal(b->in[1].header.eager, 1);
  assert_int_equal(b->in[2].header.type, GLI_MESSAGE_READ_DONE);
  assert_int_equal(b->in[2].header.form, GLI_FORM_BYTES);
  assert_int_equal(b->in[2].header.slot, 9);
}

/* ---- sinks --------------------------------------------------------------- */

typedef struct reduction {
  gli_reduce_fn fn;
  uint8_t *local, *dst; /* may be the same */
  uint32_t elem_bytes;
  bool incoming_first;
} reduction;

static gloo_status reduce_sink(bat_pair *p, const gli_header *header,
                               gli_sink *sink) {
  (void)header;
  const reduction *r = p->user;
  sink->dst = r->dst;
  sink->local = r->local;
  sink->fn = r->fn;
  sink->elem_bytes = r->elem_bytes;
  sink->incoming_first = r->incoming_first;
  return GLOO_OK;
}

/* Depends on the order of its operands: 3 * left + right, on any type's
 * bytes. */
#define MIX(name, type)                                                        \
  static void name(void *dst, const void *left, const void *right, size_t n) { \
    for (size_t i = 0; i < n; i++) {                                           \
      type l, r;                                                               \
      memcpy(&l, (const char *)left + i * sizeof l, sizeof l);                 \
      memcpy(&r, (const char *)right + i * sizeof r, sizeof r);                \
      l = (type)(3u * l + r);                                                  \
      memcpy((char *)dst + i * sizeof l, &l, sizeof l);                        \
    }                                                                          \
  }
MIX(mix16, uint16_t)
MIX(mix64, uint64_t)

/* Reduces `count` elements on arrival, at odd addresses, and compares with the
 * same kernel on whole buffers. */
static void check_reduction(bat_world *w, bat_pair *a, bat_pair *b,
                            gli_reduce_fn fn, uint32_t elem_bytes, size_t count,
                            bool incoming_first, bool in_place) {
  size_t bytes = count * elem_bytes;
  uint8_t *memory = malloc(4 * bytes + 8);
  assert_non_null(memory);
  uint8_t *incoming = memory, *local = memory + bytes + 1;
  uint8_t *dst = in_place ? local : local + bytes + 1,
          *expected = dst + bytes + 1;
  bat_fill(incoming, bytes, 7);
  bat_fill(local, bytes, 8);
  fn(expected, incoming_first ? incoming : local,
     incoming_first ? local : incoming, count);

  reduction r = {fn, local, dst, elem_bytes, incoming_first};
  b->sink = reduce_sink;
  b->user = &r;
  size_t before = b->n_received;
  bat_send(a, 1, incoming, bytes);
  BAT_DRIVE(w, b->n_received == before + 1);
  assert_memory_equal(dst, expected, bytes);
  free(memory);
}

static void sink_reduces_what_arrives(void **state) {
  static const size_t counts[] = {1, 3, 1000, 70001, 700001};
  bat_world *w = *state;
  bat_pair *a, *b;
  gli_reduce_fn sum16 = gli_reduce_kernel(GLOO_INT16, GLOO_SUM);
  bat_connect(w, 0, 1, &a, &b);
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    for (int how = 0; how < 4; how++) {
      bool left = how % 2, in_place = how / 2;
      check_reduction(w, a, b, sum16, 2, counts[i], left, in_place);
      check_reduction(w, a, b, mix16, 2, counts[i], left, in_place);
      check_reduction(w, a, b, mix64, 8, counts[i], left, in_place);
    }
  }
}

static void sink_adds_floats(void **state) {
  enum { COUNT = 100003 };
  bat_world *w = *state;
  bat_pair *a, *b;
  float *incoming = malloc(COUNT * sizeof *incoming);
  float *local = malloc(COUNT * sizeof *local);
  assert_true(incoming && local);
  for (int i = 0; i < COUNT; i++) {
    incoming[i] = (float)i;
    local[i] = 0.5f;
  }
  reduction r = {gli_reduce_kernel(GLOO_FLOAT32, GLOO_SUM), (uint8_t *)local,
                 (uint8_t *)local, 4, false};
  bat_connect(w, 0, 1, &a, &b);
  b->sink = reduce_sink;
  b->user = &r;
  bat_send(a, 0, incoming, COUNT * sizeof *incoming);
  BAT_DRIVE(w, b->n_received == 1);
  for (int i = 0; i < COUNT; i++) assert_true(local[i] == (float)i + 0.5f);
  free(incoming);
  free(local);
}

/* Sinks as the engine's parking has them: one buffer per message, freed as soon
 * as the message has arrived. */
typedef struct parking {
  uint8_t *buffers[64];
  size_t taken;
  bool intact;
} parking;

static gloo_status park_sink(bat_pair *p, const gli_header *header,
                             gli_sink *sink) {
  parking *k = p->user;
  uint8_t *buffer = malloc((size_t)header->length + 1);
  if (buffer == NULL) abort();
  k->buffers[header->operation] = buffer;
  sink->dst = buffer;
  return GLOO_OK;
}

static void park_received(bat_pair *p, const gli_header *header) {
  parking *k = p->user;
  uint8_t *buffer = k->buffers[header->operation];
  if (!bat_matches(buffer, (size_t)header->length, header->operation)) {
    k->intact = false;
  }
  free(buffer);
  k->taken++;
}

static void sink_may_vanish_once_received(void **state) {
  bat_world *w = *state;
  bat_pair *a, *b;
  parking k = {.intact = true};
  bat_connect(w, 0, 1, &a, &b);
  b->sink = park_sink;
  b->on_received = park_received;
  b->user = &k;
  for (uint32_t i = 0; i < 64; i++) {
    bat_send_filled(a, i % 5, (size_t)i * i * 50, i);
  }
  BAT_DRIVE(w, k.taken == 64);
  assert_true(k.intact);
}

/* ---- order --------------------------------------------------------------- */

enum { ORDER_SLOTS = 5 };

static bool has_slot(const gli_header *header) {
  return header->type == GLI_MESSAGE_DATA || header->type == GLI_MESSAGE_RMA;
}

/* Control messages are in order with those of slot 0. */
static void equal_slots_and_control_messages_keep_their_order(void **state) {
  enum { MESSAGES = 600 };
  bat_world *w = *state;
  bat_pair *a, *b;
  uint64_t random = 5;
  bat_connect(w, 0, 1, &a, &b);
  uint8_t *data = calloc(40000, 1);
  assert_non_null(data);
  for (uint64_t i = 0; i < MESSAGES; i++) {
    gli_header h = {.type = i % 3 == 0 ? GLI_MESSAGE_RMA : GLI_MESSAGE_DATA,
                    .operation = i};
    h.slot = (uint32_t)(bat_random(&random) % ORDER_SLOTS);
    h.length = bat_random(&random) % (i % 7 == 0 ? 40000 : 600);
    if (i % 4 == 0) {
      h.type = (uint8_t)(GLI_MESSAGE_RTS + bat_random(&random) % 3);
      h.length = 0;
    }
    bat_send_header(a, &h, data);
    if (i % 50 == 0) bat_poll(w);
  }
  free(data);
  BAT_DRIVE(w, b->n_received == MESSAGES && a->n_done == MESSAGES);
  bool seen[MESSAGES] = {false};
  uint64_t next[ORDER_SLOTS] = {0};
  for (size_t i = 0; i < MESSAGES; i++) {
    const gli_header *h = &b->in[i].header;
    assert_true(h->operation < MESSAGES && !seen[h->operation]);
    seen[h->operation] = true;
    uint64_t *at = &next[has_slot(h) ? h->slot : 0];
    assert_true(h->operation >= *at);
    *at = h->operation + 1;
  }
}

/* ---- many at once -------------------------------------------------------- */

static void both_send_64_mib_before_either_polls(void **state) {
  enum { MESSAGES = 16, BYTES = 4 << 20 };
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  for (uint32_t i = 0; i < MESSAGES; i++) {
    bat_send_filled(a, i, BYTES, i);
    bat_send_filled(b, i, BYTES, i + 100);
  }
  BAT_DRIVE(w, a->n_received == MESSAGES && b->n_received == MESSAGES);
  BAT_DRIVE(w, a->n_done == MESSAGES && b->n_done == MESSAGES);
  for (uint32_t i = 0; i < MESSAGES; i++) {
    bat_assert_message(b, i, BYTES, b->in[i].header.slot);
    bat_assert_message(a, i, BYTES, a->in[i].header.slot + 100);
  }
}

static void thousands_of_small_messages_cross(void **state) {
  enum { MESSAGES = 4000 };
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  for (uint32_t i = 0; i < MESSAGES; i++) {
    bat_send_filled(a, 0, i % 40, i);
    bat_send_filled(b, 0, i % 900, i);
  }
  BAT_DRIVE(w, a->n_received == MESSAGES && b->n_received == MESSAGES);
  BAT_DRIVE(w, a->n_done == MESSAGES && b->n_done == MESSAGES);
  for (uint32_t i = 0; i < MESSAGES; i++) {
    bat_assert_message(b, i, i % 40, i);
    bat_assert_message(a, i, i % 900, i);
  }
  bat_settle(w);
  assert_int_equal(a->n_in + b->n_in, 2 * MESSAGES);
}

/* The next step is sent from inside the upcall, as an engine does. */
static void send_back(bat_pair *p, const gli_header *header) {
  size_t bytes = header->operation % 10 == 0 ? 100000 : 8;
  bat_send_filled(p, 0, bytes, header->operation);
}

static void upcalls_may_send(void **state) {
  enum { ROUNDS = 400 };
  bat_world *w = *state;
  bat_pair *a, *b;
  bat_connect(w, 0, 1, &a, &b);
  a->on_received = b->on_received = send_back;
  bat_send_filled(a, 0, 8, 0);
  BAT_DRIVE(w, a->n_received >= ROUNDS);
  for (size_t i = 0; i < ROUNDS; i++) {
    assert_true(a->in[i].header.operation == i);
  }
}

int bat_run_message_tests(void *variant) {
  struct CMUnitTest tests[] = {
      BAT_TEST(payloads_of_all_sizes_arrive_both_ways),
      BAT_TEST(payloads_sent_together_arrive),
      BAT_TEST(header_fields_arrive_as_they_were_sent),
      BAT_TEST(forms_of_messages_travel),
      BAT_TEST(sink_reduces_what_arrives),
      BAT_TEST(sink_adds_floats),
      BAT_TEST(sink_may_vanish_once_received),
      BAT_TEST(equal_slots_and_control_messages_keep_their_order),
      BAT_TEST(both_send_64_mib_before_either_polls),
      BAT_TEST(thousands_of_small_messages_cross),
      BAT_TEST(upcalls_may_send),
  };
  return bat_run("message", tests, sizeof tests / sizeof tests[0], variant);
}
