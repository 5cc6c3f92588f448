/* Keys and tags: the test vectors of the RFCs, and inputs that must change the
 * result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/error.h"
#include "security/keys.h"
#include "security/openssl.h"
#include "security/trust.h"

#define PART(text) \
  { text, sizeof(text) - 1 }

/* Decodes hexadecimal digits. Returns the number of bytes. */
static size_t from_hex(const char *digits, uint8_t *bytes) {
  size_t n = strlen(digits) / 2;
  for (size_t i = 0; i < n; i++) {
    unsigned byte;
    assert_int_equal(sscanf(digits + 2 * i, "%2x", &byte), 1);
    bytes[i] = (uint8_t)byte;
  }
  return n;
}

static gli_key extract(const void *salt, size_t salt_bytes, const void *secret,
                       size_t secret_bytes) {
  gli_key key;
  gloo_error e;
  if (gli_key_extract(salt, salt_bytes, secret, secret_bytes, &key, &e) !=
      GLOO_OK)
    fail_msg("%s", e.message);
  return key;
}

static gli_key some_key(uint8_t first) {
  gli_key key = {{first, 1, 2, 3}};
  return key;
}

static gli_mac *mac_of(const gli_key *key) {
  gli_mac *mac = NULL;
  gloo_error e;
  if (gli_mac_create(key, &mac, &e) != GLOO_OK) fail_msg("%s", e.message);
  return mac;
}

typedef struct tag {
  uint8_t bytes[GLI_TAG_BYTES];
} tag;

static tag tag_of(gli_mac *mac, const gli_part *parts, size_t n) {
  tag made;
  gloo_error e;
  if (gli_mac_tag(mac, parts, n, made.bytes, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return made;
}

static gli_key derived(const gli_key *key, const char *label,
                       const gli_part *parts, size_t n) {
  gli_key made;
  gloo_error e;
  if (gli_key_derive(key, label, parts, n, &made, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return made;
}

static bool same_key(gli_key a, gli_key b) {
  return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_tag(tag a, tag b) {
  bool same = gli_tags_equal(a.bytes, b.bytes);
  assert_int_equal(same, memcmp(&a, &b, sizeof a) == 0);
  return same;
}

/* ---- vectors ------------------------------------------------------------- */

/* RFC 4231, section 4: HMAC-SHA256 of key and data. What HKDF extracts is the
 * HMAC of the secret with the salt as its key (RFC 5869, section 2.2). */
static void rfc_4231(void **state) {
  static const struct {
    const char *key, *data, *hmac;
  } cases[] = {
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "4869205468657265",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"4a656665", "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
       "ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
       "d"
       "dddddddddddddddddddddddddddd",
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {"0102030405060708090a0b0c0d0e0f10111213141516171819",
       "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdc"
       "d"
       "cdcdcdcdcdcdcdcdcdcdcdcdcdcd",
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {"0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c",
       "546573742057697468205472756e636174696f6e",
       "a3b6167473100ee06e0c796c2955552b"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t key[32], data[64], hmac[32];
    size_t key_bytes = from_hex(cases[i].key, key);
    size_t data_bytes = from_hex(cases[i].data, data);
    gli_key made = extract(key, key_bytes, data, data_bytes);
    assert_memory_equal(made.bytes, hmac, from_hex(cases[i].hmac, hmac));
  }
}

/* Cases 6 and 7: a key and data longer than a block. */
static void rfc_4231_longer_than_a_block(void **state) {
  static const char data6[] =
      "Test Using Larger Than Block-Size Key - Hash Key First";
  static const char data7[] =
      "This is a test using a larger than block-size key and a larger than "
      "block-size data. The key needs to be hashed before being used by the "
      "HMAC algorithm.";
  uint8_t key[131], hmac[32];
  (void)state;
  memset(key, 0xaa, sizeof key);
  gli_key made = extract(key, sizeof key, data6, sizeof data6 - 1);
  from_hex("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
           hmac);
  assert_memory_equal(made.bytes, hmac, sizeof hmac);
  made = extract(key, sizeof key, data7, sizeof data7 - 1);
  from_hex("9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
           hmac);
  assert_memory_equal(made.bytes, hmac, sizeof hmac);
}

/* RFC 5869, appendix A.1 to A.3: HKDF with SHA-256. */
static void rfc_5869(void **state) {
  static const struct {
    const char *secret, *salt, *info, *extracted, *expanded;
  } cases[] = {
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
       "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
       "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
       "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf3400720"
       "8d5b887185865"},
      {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222"
       "32425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f40414243444546"
       "4748494a4b4c4d4e4f",
       "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f8081828"
       "38485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6"
       "a7a8a9aaabacadaeaf",
       "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d"
       "3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6"
       "f7f8f9fafbfcfdfeff",
       "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
       "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a9"
       "9cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e"
       "87c14c01d5c1f3434f1d87"},
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
       "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
       "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d20139"
       "5faa4b61a96c8"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t secret[80], salt[80], info[80], wanted[82], got[82];
    size_t secret_bytes = from_hex(cases[i].secret, secret);
    size_t salt_bytes = from_hex(cases[i].salt, salt);
    size_t info_bytes = from_hex(cases[i].info, info);
    gli_key key = extract(salt, salt_bytes, secret, secret_bytes);
    assert_memory_equal(key.bytes, wanted,
                        from_hex(cases[i].extracted, wanted));
    size_t bytes = from_hex(cases[i].expanded, wanted);
    assert_int_equal(gli_key_expand(&key, info, info_bytes, got, bytes, NULL),
                     GLOO_OK);
    assert_memory_equal(got, wanted, bytes);
  }
}

/* ---- input of a tag ------------------------------------------------------ */

static size_t frame(uint8_t *out, char kind, const gli_part *parts, size_t n) {
  size_t used = 0;
  if (kind != 0) out[used++] = (uint8_t)kind;
  for (size_t i = 0; i < n; i++) {
    gli_put_u64(out + used, parts[i].bytes);
    if (parts[i].bytes > 0)
      memcpy(out + used + 8, parts[i].data, parts[i].bytes);
    used += 8 + parts[i].bytes;
  }
  return used;
}

/* The format must not change, since ranks of different builds must agree. */
static void a_tag_is_hmac_of_parts_with_their_lengths(void **state) {
  static const gli_part parts[] = {PART("frame"), {NULL, 0}, PART("\0\1\2")};
  uint8_t message[64];
  gli_key key = some_key(7);
  gli_mac *mac = mac_of(&key);
  (void)state;
  for (size_t n = 0; n <= 3; n++) {
    gli_key whole =
        extract(key.bytes, sizeof key, message, frame(message, 'T', parts, n));
    tag made = tag_of(mac, parts, n);
    assert_memory_equal(made.bytes, whole.bytes, GLI_TAG_BYTES);
  }
  gli_mac_destroy(mac);
}

static void a_key_is_expanded_from_label_and_parts_with_their_lengths(
    void **state) {
  static const gli_part parts[] = {PART("store"), PART("job"), {NULL, 0}};
  uint8_t info[64];
  gli_key key = some_key(7), wanted;
  (void)state;
  size_t bytes = frame(info, 'K', parts, 3);
  assert_int_equal(
      gli_key_expand(&key, info, bytes, wanted.bytes, sizeof wanted, NULL),
      GLOO_OK);
  assert_true(same_key(derived(&key, "store", parts + 1, 2), wanted));
}

/* ---- proofs -------------------------------------------------------------- */

static gli_proofs proofs_of(const char *protocol, const gli_part *transcript,
                            size_t n) {
  gli_key key = some_key(7);
  gli_proofs proofs;
  gloo_error e;
  if (gli_proofs_compute(&key, protocol, transcript, n, &proofs, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return proofs;
}

/* Python's hmac computed the expected tags. */
static void a_proof_is_a_tag_over_protocol_end_and_transcript(void **state) {
  static const gli_part said[] = {PART("hello"), PART("nonce")};
  uint8_t right[GLI_TAG_BYTES];
  gli_proofs proofs = proofs_of("tcp", said, 2);
  (void)state;
  from_hex("d7a15f7cef4c298da33bfb28fa2f3236", right);
  assert_memory_equal(proofs.initiator, right, sizeof right);
  from_hex("72809cf1c225c389e177e844d3cc5890", right);
  assert_memory_equal(proofs.acceptor, right, sizeof right);
}

static void a_proof_holds_for_one_end_of_one_handshake(void **state) {
  static const gli_part said[] = {PART("hello"), PART("nonce")};
  static const gli_part others[] = {PART("hellonon"), PART("ce")};
  const gli_proofs all[] = {
      proofs_of("tcp", said, 2), proofs_of("shm", said, 2),
      proofs_of("tcp", said, 1), proofs_of("tcp", others, 2)};
  const uint8_t *tags[8];
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    tags[2 * i] = all[i].initiator;
    tags[2 * i + 1] = all[i].acceptor;
  }
  for (size_t i = 0; i < 8; i++)
    for (size_t j = 0; j < i; j++)
      assert_false(gli_tags_equal(tags[i], tags[j]));
}

static void a_transcript_has_few_parts(void **state) {
  static const gli_part said[GLI_TRANSCRIPT_PARTS + 1];
  gli_key key = some_key(7);
  gli_proofs proofs;
  gloo_error e;
  (void)state;
  assert_int_equal(gli_proofs_compute(&key, "tcp", said,
                                      GLI_TRANSCRIPT_PARTS + 1, &proofs, &e),
                   GLOO_ERR_INTERNAL);
}

/* ---- differences --------------------------------------------------------- */

static void every_bit_changes_the_tag(void **state) {
  uint8_t first[5] = "abcd", second[70];
  const gli_part parts[] = {{first, sizeof first}, {second, sizeof second}};
  gli_key key = some_key(1);
  (void)state;
  memset(second, 'x', sizeof second);
  gli_mac *mac = mac_of(&key);
  tag right = tag_of(mac, parts, 2);
  for (size_t bit = 0; bit < 8 * (sizeof first + sizeof second); bit++) {
    uint8_t *byte = bit / 8 < sizeof first ? &first[bit / 8]
                                           : &second[bit / 8 - sizeof first];
    *byte ^= (uint8_t)(1u << bit % 8);
    assert_false(same_tag(tag_of(mac, parts, 2), right));
    *byte ^= (uint8_t)(1u << bit % 8);
  }
  assert_true(same_tag(tag_of(mac, parts, 2), right));
  gli_mac_destroy(mac);
}

static void every_bit_of_the_key_changes_tags_and_keys(void **state) {
  const gli_part part = PART("what is signed");
  gli_key key = some_key(1);
  (void)state;
  gli_mac *mac = mac_of(&key);
  tag right = tag_of(mac, &part, 1);
  gli_key next = derived(&key, "pair", &part, 1);
  gli_mac_destroy(mac);
  for (size_t bit = 0; bit < 8 * sizeof key; bit++) {
    gli_key other = key;
    other.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    mac = mac_of(&other);
    assert_false(same_tag(tag_of(mac, &part, 1), right));
    assert_false(same_key(derived(&other, "pair", &part, 1), next));
    gli_mac_destroy(mac);
  }
}

/* Lists that all concatenate to "abc", and some with more parts. */
static const struct {
  gli_part parts[4];
  size_t n;
} lists[] = {
    {{PART("abc")}, 1},
    {{PART("a"), PART("bc")}, 2},
    {{PART("ab"), PART("c")}, 2},
    {{PART("a"), PART("b"), PART("c")}, 3},
    {{PART("abc"), PART("")}, 2},
    {{PART(""), PART("abc")}, 2},
    {{PART("abc"), PART(""), PART("")}, 3},
    {{PART("bc"), PART("a")}, 2},
    {{PART("abc\0\0\0\0\0\0\0\0")}, 1},
    {{PART("")}, 1},
    {{PART(""), PART("")}, 2},
    {{{NULL, 0}}, 0},
};
enum { LISTS = sizeof lists / sizeof *lists };

static void where_a_part_ends_changes_the_tag(void **state) {
  gli_key key = some_key(1);
  gli_mac *mac = mac_of(&key);
  tag tags[LISTS];
  (void)state;
  for (size_t i = 0; i < LISTS; i++) {
    tags[i] = tag_of(mac, lists[i].parts, lists[i].n);
    for (size_t k = 0; k < i; k++) assert_false(same_tag(tags[i], tags[k]));
  }
  gli_mac_destroy(mac);
}

static void labels_and_parts_change_the_key(void **state) {
  static const char *const labels[] = {"store", "stor", "storf", "", "a"};
  enum { LABELS = sizeof labels / sizeof *labels };
  gli_key key = some_key(1), keys[LABELS * LISTS];
  (void)state;
  for (size_t i = 0; i < LABELS * LISTS; i++) {
    keys[i] = derived(&key, labels[i % LABELS], lists[i / LABELS].parts,
                      lists[i / LABELS].n);
    assert_false(same_key(keys[i], key));
    for (size_t k = 0; k < i; k++) assert_false(same_key(keys[i], keys[k]));
  }
}

/* Holds also if the signed input equals that of a derived key. */
static void a_tag_is_no_part_of_a_key(void **state) {
  static const gli_part parts[] = {PART("store"), PART("job")};
  gli_key key = some_key(1);
  gli_mac *mac = mac_of(&key);
  (void)state;
  tag made = tag_of(mac, parts, 2);
  gli_key next = derived(&key, "store", parts + 1, 1);
  assert_memory_not_equal(made.bytes, next.bytes, GLI_TAG_BYTES);
  gli_mac_destroy(mac);
}

static void salt_and_secret_change_the_key(void **state) {
  (void)state;
  gli_key right = extract("salt", 4, "secret", 6);
  assert_true(same_key(extract("salt", 4, "secret", 6), right));
  assert_false(same_key(extract("sale", 4, "secret", 6), right));
  assert_false(same_key(extract("salt", 4, "secreu", 6), right));
  assert_false(same_key(extract("salts", 5, "ecret", 5), right));
}

static void tags_that_differ_in_a_bit_are_not_equal(void **state) {
  tag a = {{1, 2, 3}}, b = a;
  (void)state;
  assert_true(gli_tags_equal(a.bytes, b.bytes));
  for (size_t bit = 0; bit < 8 * sizeof a; bit++) {
    b.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_false(gli_tags_equal(a.bytes, b.bytes));
    b.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

/* ---- repeated use -------------------------------------------------------- */

static void one_key_serves_many_tags(void **state) {
  gli_key key = some_key(1);
  gli_mac *mac = mac_of(&key);
  (void)state;
  for (uint32_t i = 0; i < 1000; i++) {
    const gli_part part = {&i, sizeof i};
    gli_mac *fresh = mac_of(&key);
    assert_true(same_tag(tag_of(mac, &part, 1), tag_of(fresh, &part, 1)));
    gli_mac_destroy(fresh);
  }
  gli_mac_destroy(mac);
  gli_mac_destroy(NULL);
}

static void a_key_may_be_replaced_by_one_that_follows_from_it(void **state) {
  gli_key key = some_key(1), next = derived(&key, "next", NULL, 0);
  (void)state;
  assert_int_equal(gli_key_derive(&key, "next", NULL, 0, &key, NULL), GLOO_OK);
  assert_true(same_key(key, next));
}

static void what_is_too_long_is_refused(void **state) {
  static uint8_t long_part[GLI_INFO_MAX + 1], out[255 * GLI_KEY_BYTES + 1];
  gli_part part = {long_part, GLI_INFO_MAX - 1 - 8 - 8 - 5};
  gli_key key = some_key(1), made = some_key(9);
  gloo_error e;
  (void)state;
  assert_int_equal(gli_key_derive(&key, "label", &part, 1, &made, NULL),
                   GLOO_OK);
  made = some_key(9);
  for (; part.bytes < GLI_INFO_MAX; part.bytes++) {
    if (part.bytes == GLI_INFO_MAX - 1 - 8 - 8 - 5) continue;
    assert_int_equal(gli_key_derive(&key, "label", &part, 1, &made, &e),
                     GLOO_ERR_INVALID);
    assert_non_null(strstr(e.message, "the key 'label'"));
    assert_true(same_key(made, some_key(9)));
  }
  part.bytes = SIZE_MAX;
  assert_int_equal(gli_key_derive(&key, "label", &part, 1, &made, &e),
                   GLOO_ERR_INVALID);
  assert_int_equal(gli_key_expand(&key, long_part, GLI_INFO_MAX, out,
                                  255 * GLI_KEY_BYTES, NULL),
                   GLOO_OK);
  assert_int_equal(
      gli_key_expand(&key, long_part, GLI_INFO_MAX + 1, out, 1, &e),
      GLOO_ERR_INVALID);
  assert_int_equal(gli_key_expand(&key, "", 0, out, sizeof out, &e),
                   GLOO_ERR_INVALID);
}

static void it_forgets(void **state) {
  uint8_t bytes[40];
  (void)state;
  memset(bytes, 0x5a, sizeof bytes);
  gli_wipe(bytes + 4, 32);
  for (size_t i = 0; i < sizeof bytes; i++)
    assert_int_equal(bytes[i], i < 4 || i >= 36 ? 0x5a : 0);
}

static void the_version_is_that_of_openssl_3(void **state) {
  (void)state;
  assert_non_null(gli_openssl_version());
  assert_true(atoi(gli_openssl_version()) >= 3);
}

/* ---- threads and forks --------------------------------------------------- */

/* Runs all steps of a rank, without cmocka. Returns the tag, or zeros after a
 * failure. */
static tag tag_with_all_steps(void) {
  static const gli_part part = PART("message");
  gli_key key;
  gli_mac *mac = NULL;
  tag made = {{0}};
  if (gli_key_extract("salt", 4, "secret", 6, &key, NULL) == GLOO_OK &&
      gli_key_derive(&key, "pair", &part, 1, &key, NULL) == GLOO_OK &&
      gli_mac_create(&key, &mac, NULL) == GLOO_OK &&
      gli_mac_tag(mac, &part, 1, made.bytes, NULL) != GLOO_OK)
    memset(&made, 0, sizeof made);
  gli_mac_destroy(mac);
  return made;
}

static void *many_tags(void *argument) {
  const tag *right = argument;
  for (int i = 0; i < 300; i++) {
    tag made = tag_with_all_steps();
    if (!gli_tags_equal(made.bytes, right->bytes)) return NULL;
  }
  return argument;
}

static void threads_do_not_disturb_each_other(void **state) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  tag right = tag_with_all_steps();
  (void)state;
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, many_tags, &right), 0);
  for (int i = 0; i < THREADS; i++) {
    void *good = NULL;
    assert_int_equal(pthread_join(threads[i], &good), 0);
    assert_ptr_equal(good, &right);
  }
}

/* With a mutex, a server busy with strangers would block threads that connect
 * pairs. */
static void one_that_makes_a_key_keeps_no_other_out(void **state) {
  pthread_t thread;
  void *good = NULL;
  tag right = tag_with_all_steps();
  (void)state;
  assert_int_equal(gli_openssl_begin(NULL), GLOO_OK);
  assert_int_equal(pthread_create(&thread, NULL, many_tags, &right), 0);
  assert_int_equal(pthread_join(thread, &good), 0);
  gli_openssl_end();
  assert_ptr_equal(good, &right);
}

static void a_child_of_one_that_makes_a_key_makes_none(void **state) {
  tag right = tag_with_all_steps();
  int status = -1;
  (void)state;
  assert_int_equal(gli_openssl_begin(NULL), GLOO_OK);
  pid_t child = fork();
  if (child == 0) {
    gloo_error error;
    bool refused = gli_openssl_begin(&error) == GLOO_ERR_FORKED &&
                   strstr(error.message, "deriving a key") != NULL;
    _exit(refused ? 0 : 1);
  }
  gli_openssl_end();
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_true(same_tag(tag_with_all_steps(), right));
}

static void a_child_uses_keys_of_its_parent_and_its_own(void **state) {
  static const gli_part part = PART("message");
  gli_key key = some_key(1);
  gli_mac *mac = mac_of(&key);
  tag right = tag_of(mac, &part, 1), steps = tag_with_all_steps();
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    tag made = {{0}}, mine = tag_with_all_steps();
    bool good = gli_mac_tag(mac, &part, 1, made.bytes, NULL) == GLOO_OK &&
                memcmp(&made, &right, sizeof made) == 0 &&
                memcmp(&mine, &steps, sizeof mine) == 0;
    gli_mac_destroy(mac);
    _exit(good ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_true(same_tag(tag_of(mac, &part, 1), right));
  gli_mac_destroy(mac);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rfc_4231),
      cmocka_unit_test(rfc_4231_longer_than_a_block),
      cmocka_unit_test(rfc_5869),
      cmocka_unit_test(a_tag_is_hmac_of_parts_with_their_lengths),
      cmocka_unit_test(
          a_key_is_expanded_from_label_and_parts_with_their_lengths),
      cmocka_unit_test(a_proof_is_a_tag_over_protocol_end_and_transcript),
      cmocka_unit_test(a_proof_holds_for_one_end_of_one_handshake),
      cmocka_unit_test(a_transcript_has_few_parts),
      cmocka_unit_test(every_bit_changes_the_tag),
      cmocka_unit_test(every_bit_of_the_key_changes_tags_and_keys),
      cmocka_unit_test(where_a_part_ends_changes_the_tag),
      cmocka_unit_test(labels_and_parts_change_the_key),
      cmocka_unit_test(a_tag_is_no_part_of_a_key),
      cmocka_unit_test(salt_and_secret_change_the_key),
      cmocka_unit_test(tags_that_differ_in_a_bit_are_not_equal),
      cmocka_unit_test(one_key_serves_many_tags),
      cmocka_unit_test(a_key_may_be_replaced_by_one_that_follows_from_it),
      cmocka_unit_test(what_is_too_long_is_refused),
      cmocka_unit_test(it_forgets),
      cmocka_unit_test(the_version_is_that_of_openssl_3),
      cmocka_unit_test(threads_do_not_disturb_each_other),
      cmocka_unit_test(one_that_makes_a_key_keeps_no_other_out),
      cmocka_unit_test(a_child_of_one_that_makes_a_key_makes_none),
      cmocka_unit_test(a_child_uses_keys_of_its_parent_and_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
