/* Decoders of headers, hellos, replies and addresses. */
#include "core/bytes.h"
#include "harness.h"

static uint64_t random_state = 88172645463325252u;

static uint64_t random_u64(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static void random_bytes(uint8_t *to, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)random_u64();
}

static gli_header random_header(void) {
  gli_header h = {
      .type = (uint8_t)(1 + random_u64() % (GLI_MESSAGE_TYPES - 1)),
      .eager = random_u64() & 1u,
      .tuning = (uint8_t)random_u64(),
      .collective = (uint8_t)random_u64(),
      .dtype = (uint8_t)random_u64(),
      .op = (uint8_t)random_u64(),
      .algorithm = (uint8_t)random_u64(),
      .context = (uint32_t)random_u64(),
      .tag = (uint32_t)random_u64(),
      .slot = (uint32_t)random_u64(),
      .root = (uint32_t)random_u64(),
      .credit = (uint32_t)random_u64(),
      .operation = random_u64(),
      .count = random_u64(),
  };
  if (h.type == GLI_MESSAGE_DATA) {
    h.form = (unsigned)(random_u64() % GLI_FORMS) & 0x7fu;
    h.length = h.form == GLI_FORM_BYTES    ? random_u64() >> 1
               : gli_form_has_rkey(h.form) ? GLI_RKEY_BYTES
                                           : 0;
  }
  if (h.type == GLI_MESSAGE_ABORT) h.length = random_u64() % 600;
  return h;
}

static void assert_same_header(const gli_header *a, const gli_header *b) {
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->eager, b->eager);
  assert_int_equal(a->form, b->form);
  assert_int_equal(a->collective, b->collective);
  assert_int_equal(a->dtype, b->dtype);
  assert_int_equal(a->op, b->op);
  assert_int_equal(a->algorithm, b->algorithm);
  assert_int_equal(a->context, b->context);
  assert_int_equal(a->tag, b->tag);
  assert_int_equal(a->slot, b->slot);
  assert_int_equal(a->root, b->root);
  assert_int_equal(a->credit, b->credit);
  assert_true(a->operation == b->operation);
  assert_true(a->count == b->count);
  assert_true(a->length == b->length);
}

static void header_survives_the_wire(void **state) {
  (void)state;
  for (int i = 0; i < 10000; i++) {
    gli_header out = random_header(), in;
    uint8_t bytes[GLI_HEADER_BYTES];
    gli_header_encode(&out, bytes);
    assert_true(gli_header_decode(bytes, &in));
    assert_same_header(&out, &in);
  }
}

/* An accepted header must mean exactly the bytes that came. */
static void header_with_changed_bytes_is_refused_or_exact(void **state) {
  (void)state;
  int refused = 0;
  for (int i = 0; i < 50000; i++) {
    gli_header h = random_header();
    uint8_t bytes[GLI_HEADER_BYTES], again[GLI_HEADER_BYTES];
    gli_header_encode(&h, bytes);
    bytes[random_u64() % sizeof bytes] ^= (uint8_t)(1u << random_u64() % 8);
    if (!gli_header_decode(bytes, &h)) {
      refused++;
      continue;
    }
    gli_header_encode(&h, again);
    assert_memory_equal(bytes, again, sizeof bytes);
  }
  assert_true(refused > 5000);
}

static void header_with_checksums_comes_as_it_was_sent_or_not_at_all(
    void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    gli_header out = random_header(), in;
    uint32_t sum = (uint32_t)random_u64(), came;
    uint8_t bytes[GLI_HEADER_BYTES];
    gli_header_encode_checked(&out, sum, bytes);
    assert_true(gli_header_decode_checked(bytes, &in, &came));
    assert_same_header(&out, &in);
    assert_int_equal(came, sum);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
      bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
      assert_false(gli_header_decode_checked(bytes, &in, &came));
      assert_false(gli_header_decode(bytes, &in));
      bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
  }
}

static void header_is_of_one_kind(void **state) {
  (void)state;
  gli_header h = random_header();
  uint32_t sum;
  uint8_t bytes[GLI_HEADER_BYTES];
  gli_header_encode_checked(&h, 0, bytes);
  assert_false(gli_header_decode(bytes, &h));
  gli_header_encode(&h, bytes);
  assert_false(gli_header_decode_checked(bytes, &h, &sum));
}

static void random_bytes_are_no_header(void **state) {
  (void)state;
  for (int i = 0; i < 100000; i++) {
    gli_header h;
    uint8_t bytes[GLI_HEADER_BYTES];
    random_bytes(bytes, sizeof bytes);
    bytes[0] = 0; /* not even by chance */
    assert_false(gli_header_decode(bytes, &h));
  }
}

static void header_length_must_suit_its_type(void **state) {
  (void)state;
  static const struct {
    uint8_t type;
    uint64_t length;
    bool good;
  } cases[] = {
      {GLI_MESSAGE_DATA, 0, true},
      {GLI_MESSAGE_DATA, INT64_MAX, true},
      {GLI_MESSAGE_DATA, (uint64_t)INT64_MAX + 1, false},
      {GLI_MESSAGE_RTS, 1, false},
      {GLI_MESSAGE_CTS, 1, false},
      {GLI_MESSAGE_CREDIT, 1, false},
      {GLI_MESSAGE_BYE, 1, false},
      {GLI_MESSAGE_ABORT, 4096, true},
      {GLI_MESSAGE_ABORT, 4097, false},
      {0, 0, false},
      {GLI_MESSAGE_TYPES, 0, false},
      {255, 0, false},
      {GLI_MESSAGE_READ_DONE, 0, true},
      {GLI_MESSAGE_READ_DONE, 8, false},
      {GLI_MESSAGE_SHARE, 0, true},
      {GLI_MESSAGE_SHARE, 8, false},
      {GLI_MESSAGE_SHARE_DONE, 0, true},
      {GLI_MESSAGE_SHARE_DONE, 8, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gli_header h = {.type = cases[i].type, .length = cases[i].length};
    uint8_t bytes[GLI_HEADER_BYTES];
    gli_header_encode(&h, bytes);
    assert_int_equal(gli_header_decode(bytes, &h), cases[i].good);
  }
}

static void header_form_must_suit_type_and_length(void **state) {
  (void)state;
  static const struct {
    uint8_t type, form;
    uint64_t length;
    bool good;
  } cases[] = {
      {GLI_MESSAGE_DATA, GLI_FORM_RKEY, 8, true},
      {GLI_MESSAGE_DATA, GLI_FORM_RKEY, 7, false},
      {GLI_MESSAGE_DATA, GLI_FORM_SHARED, 8, true},
      {GLI_MESSAGE_DATA, GLI_FORM_SHARED, 7, false},
      {GLI_MESSAGE_DATA, GLI_FORM_RKEY, 0, false},
      {GLI_MESSAGE_ABORT, GLI_FORM_RKEY, 8, false},
      {GLI_MESSAGE_DATA, GLI_FORM_PUT_DONE, 0, true},
      {GLI_MESSAGE_DATA, GLI_FORM_PUT_DONE, 8, false},
      {GLI_MESSAGE_BYE, GLI_FORM_PUT_DONE, 0, false},
      {GLI_MESSAGE_DATA, GLI_FORMS, 0, false},
      {GLI_MESSAGE_DATA, 255, 8, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gli_header h = {.type = cases[i].type,
                    .form = cases[i].form & 0x7fu,
                    .length = cases[i].length};
    uint8_t bytes[GLI_HEADER_BYTES];
    gli_header_encode(&h, bytes);
    assert_int_equal(gli_header_decode(bytes, &h), cases[i].good);
  }
}

static const gli_tcp_hello good_hello = {.version = GLI_TCP_VERSION,
                                         .stream = 3,
                                         .streams = 4,
                                         .from = 7,
                                         .to = 9,
                                         .key = UINT64_C(0x1234567890abcdef),
                                         .asks = true,
                                         .nonce = "fifteen letters"};

static bool hello_decodes(const gli_tcp_hello *hello) {
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello got;
  gli_tcp_hello_encode(hello, bytes);
  return gli_tcp_hello_decode(bytes, &got);
}

static void hello_is_checked(void **state) {
  (void)state;
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello got, bad;
  gli_tcp_hello_encode(&good_hello, bytes);
  assert_true(gli_tcp_hello_decode(bytes, &got));
  assert_int_equal(got.stream, 3);
  assert_int_equal(got.streams, 4);
  assert_int_equal(got.from, 7);
  assert_int_equal(got.to, 9);
  assert_true(got.key == good_hello.key);
  assert_true(got.asks);
  assert_memory_equal(got.nonce, good_hello.nonce, sizeof got.nonce);

  bad = good_hello;
  bad.streams = 0;
  assert_false(hello_decodes(&bad));
  bad.streams = GLI_TCP_STREAMS_MAX + 1;
  assert_false(hello_decodes(&bad));
  bad = good_hello;
  bad.stream = 4;
  assert_false(hello_decodes(&bad));
  bad = good_hello;
  bad.to = bad.from;
  assert_false(hello_decodes(&bad));
  bad = good_hello;
  bad.version++;
  assert_true(hello_decodes(&bad)); /* decodes, so that the error can name it */
  for (int kind = 0; kind <= GLI_TLS_BY_CERTIFICATE; kind++) {
    bytes[28] = (uint8_t)(1 | kind << 1);
    assert_true(gli_tcp_hello_decode(bytes, &got));
    assert_true(got.asks);
    assert_int_equal(got.tls, kind);
  }
  bytes[28] = 6;
  assert_false(gli_tcp_hello_decode(bytes, &got));
  bytes[28] = 0;
  assert_true(gli_tcp_hello_decode(bytes, &got));
  assert_false(got.asks);
  bytes[40] = 1;
  assert_false(gli_tcp_hello_decode(bytes, &got));
  bytes[40] = 0;
  bytes[0] ^= 1;
  assert_false(gli_tcp_hello_decode(bytes, &got));
}

/* The head alone is enough: the hello of another version may be shorter than
 * ours. */
static void hello_of_another_version_is_known_by_its_head(void **state) {
  (void)state;
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello other = good_hello;
  gli_tcp_hello_encode(&good_hello, bytes);
  assert_false(gli_tcp_hello_is_other(bytes, sizeof bytes));
  other.version--;
  gli_tcp_hello_encode(&other, bytes);
  assert_false(gli_tcp_hello_is_other(bytes, 11));
  assert_true(gli_tcp_hello_is_other(bytes, 12));
  bytes[0] ^= 1;
  assert_false(gli_tcp_hello_is_other(bytes, 12));
}

static void challenge_is_checked(void **state) {
  (void)state;
  uint8_t bytes[GLI_TCP_CHALLENGE_BYTES];
  const gli_tcp_challenge out = {.nonce = "fifteen letters",
                                 .tag = "other letters.."};
  gli_tcp_challenge in;
  gli_tcp_reply reply;
  gli_tcp_challenge_encode(&out, bytes);
  assert_true(gli_tcp_challenge_begins(bytes));
  assert_true(gli_tcp_challenge_decode(bytes, &in));
  assert_memory_equal(in.nonce, out.nonce, sizeof in.nonce);
  assert_memory_equal(in.tag, out.tag, sizeof in.tag);
  assert_false(gli_tcp_reply_decode(bytes, &reply));
  for (size_t i = 0; i < 16; i++) {
    bytes[i] ^= 1;
    assert_false(gli_tcp_challenge_decode(bytes, &in));
    bytes[i] ^= 1;
  }
}

static void reply_is_checked(void **state) {
  (void)state;
  uint8_t bytes[GLI_TCP_REPLY_BYTES];
  gli_tcp_reply reply = {.version = GLI_TCP_VERSION,
                         .answer = GLI_TCP_ACCEPTED,
                         .streams = 2,
                         .key = 77},
                got;
  gli_tcp_reply_encode(&reply, bytes);
  assert_true(gli_tcp_reply_decode(bytes, &got));
  assert_int_equal(got.answer, GLI_TCP_ACCEPTED);
  assert_int_equal(got.streams, 2);
  assert_true(got.key == 77);
  gli_put_u32(bytes + 12, GLI_TCP_ANSWERS);
  assert_false(gli_tcp_reply_decode(bytes, &got));
  gli_put_u32(bytes + 12, 0);
  assert_false(gli_tcp_reply_decode(bytes, &got));
}

static void contact_add(gli_tcp_contact *contact, const char *figures) {
  gli_endpoint *at = &contact->at[contact->n++];
  assert_true(gli_endpoint_from_text(figures, at));
  gli_endpoint_set_port(at, contact->port);
}

static void assert_same_contact(const gli_tcp_contact *a,
                                const gli_tcp_contact *b) {
  assert_true(a->place == b->place);
  assert_int_equal(a->port, b->port);
  assert_int_equal(a->checksum, b->checksum);
  assert_int_equal(a->everywhere, b->everywhere);
  assert_int_equal(a->translated, b->translated);
  assert_int_equal(a->verbs, b->verbs);
  assert_int_equal(a->n, b->n);
  for (uint32_t i = 0; i < a->n; i++)
    assert_true(gli_endpoint_equal(&a->at[i], &b->at[i]));
}

static void contact_survives_publication(void **state) {
  (void)state;
  static const char *const figures[] = {
      "10.0.1.2", "::1",      "2001:db8::7", "192.0.2.1",
      "fe80::9",  "10.0.0.1", "fd00::1",     "2001:db8:1:2:3:4:5:6"};
  gli_address address;
  for (uint32_t n = 1; n <= GLI_TCP_CONTACT_MAX; n++) {
    gli_tcp_contact out = {.place = random_u64(),
                           .port = (uint16_t)(65535 - n),
                           .checksum = n % 2 == 0,
                           .everywhere = n % 3 == 0,
                           .translated = n % 5 == 0,
                           .verbs = n % 7 == 0},
                    in;
    while (out.n < n) contact_add(&out, figures[out.n]);
    gli_tcp_contact_encode(&out, &address);
    assert_true(gli_tcp_contact_decode(&address, &in));
    assert_same_contact(&out, &in);
  }
}

/* The contact has the maximum number of addresses, all of the longest kind. */
static void longest_contact_fits(void **state) {
  (void)state;
  gli_tcp_contact out = {.port = 1}, in;
  gli_address address;
  while (out.n < GLI_TCP_CONTACT_MAX) contact_add(&out, "2001:db8::7");
  gli_tcp_contact_encode(&out, &address);
  assert_true(address.bytes <= GLI_ADDRESS_MAX);
  assert_true(gli_tcp_contact_decode(&address, &in));
  assert_int_equal(in.n, GLI_TCP_CONTACT_MAX);
}

static void assert_damaged(const gli_address *good, size_t at, uint32_t value) {
  gli_address bad = *good;
  gli_tcp_contact got;
  bad.data[at] = (uint8_t)value;
  assert_false(gli_tcp_contact_decode(&bad, &got));
}

static void damaged_contact_is_refused(void **state) {
  (void)state;
  gli_tcp_contact out = {.port = 1}, got;
  gli_address good, bad;
  contact_add(&out, "127.0.0.1");
  contact_add(&out, "::1");
  gli_tcp_contact_encode(&out, &good);
  for (uint16_t bytes = 0; bytes <= GLI_ADDRESS_MAX; bytes++) {
    bad = good;
    bad.bytes = bytes;
    assert_int_equal(gli_tcp_contact_decode(&bad, &got), bytes == good.bytes);
  }
  assert_damaged(&good, 0, 4); /* an older release */
  assert_damaged(&good, 1, 2);
  assert_damaged(&good, 2, 0);
  assert_damaged(&good, 2, 1);
  assert_damaged(&good, 2, 3);
  assert_damaged(&good, 2, GLI_TCP_CONTACT_MAX + 1);
  assert_damaged(&good, 3, 8);
  assert_damaged(&good, 4, 0); /* port 0 */
  assert_damaged(&good, 6, 1); /* port 65537 */
  assert_damaged(&good, 16, 5);
  assert_damaged(&good, 17, 0xe0); /* multicast */
  bad = good;
  memset(bad.data + 17, 0, 4); /* 0.0.0.0 */
  assert_false(gli_tcp_contact_decode(&bad, &got));
  memcpy(bad.data, good.data, sizeof good.data);
  memset(bad.data + 22, 0, 16); /* :: */
  assert_false(gli_tcp_contact_decode(&bad, &got));
}

/* An accepted contact must mean exactly the bytes that came. */
static void contact_of_random_bytes_is_refused_or_exact(void **state) {
  (void)state;
  gli_tcp_contact out = {.port = 4711}, got;
  gli_address good, bad, again;
  int accepted = 0;
  contact_add(&out, "10.1.2.3");
  contact_add(&out, "fd00::1");
  contact_add(&out, "10.1.2.4");
  gli_tcp_contact_encode(&out, &good);
  for (int i = 0; i < 20000; i++) {
    bad = good;
    for (int k = 0; k < 3; k++)
      bad.data[random_u64() % good.bytes] = (uint8_t)random_u64();
    if (!gli_tcp_contact_decode(&bad, &got)) continue;
    accepted++;
    gli_tcp_contact_encode(&got, &again);
    assert_int_equal(again.bytes, bad.bytes);
    assert_memory_equal(again.data, bad.data, bad.bytes);
  }
  assert_true(accepted > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(header_survives_the_wire),
      cmocka_unit_test(header_with_changed_bytes_is_refused_or_exact),
      cmocka_unit_test(
          header_with_checksums_comes_as_it_was_sent_or_not_at_all),
      cmocka_unit_test(header_is_of_one_kind),
      cmocka_unit_test(random_bytes_are_no_header),
      cmocka_unit_test(header_length_must_suit_its_type),
      cmocka_unit_test(header_form_must_suit_type_and_length),
      cmocka_unit_test(hello_is_checked),
      cmocka_unit_test(hello_of_another_version_is_known_by_its_head),
      cmocka_unit_test(challenge_is_checked),
      cmocka_unit_test(reply_is_checked),
      cmocka_unit_test(contact_survives_publication),
      cmocka_unit_test(longest_contact_fits),
      cmocka_unit_test(damaged_contact_is_refused),
      cmocka_unit_test(contact_of_random_bytes_is_refused_or_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
