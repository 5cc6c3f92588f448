/* Authentication settings of a job's processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"
#include "security/trust.h"

#define SECRET "000102030405060708090a0b0c0d0e0f"
#define OTHER "100102030405060708090a0b0c0d0e0f"

static int forget(void **state) {
  (void)state;
  unsetenv("GLOO_SECURITY");
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  setenv("HOME", "/nonexistent", 1);
  return 0;
}

static gli_trust trust_of(const char *secret) {
  gloo_error e;
  gli_trust trust;
  setenv("GLOO_JOB_SECRET", secret, 1);
  if (gli_trust_read(NULL, 0, &trust, &e) != GLOO_OK) fail_msg("%s", e.message);
  return trust;
}

static void nobody_is_asked_without_a_secret(void **state) {
  gli_trust trust;
  (void)state;
  assert_int_equal(gli_trust_read(NULL, 0, &trust, NULL), GLOO_OK);
  assert_false(trust.asks);
  assert_false(trust.silent);
}

static void required_is_an_error_without_one(void **state) {
  gloo_error e;
  gli_trust trust;
  (void)state;
  setenv("GLOO_SECURITY", "require", 1);
  assert_int_equal(gli_trust_read(NULL, 0, &trust, &e), GLOO_ERR_AUTH);
  assert_non_null(strstr(e.message, "GLOO_JOB_SECRET"));
}

static void off_looks_at_none(void **state) {
  (void)state;
  setenv("GLOO_SECURITY", "off", 1);
  gli_trust trust = trust_of("this would be an error");
  assert_false(trust.asks);
  assert_true(trust.silent);
}

static void a_bad_secret_is_an_error(void **state) {
  gli_trust trust;
  (void)state;
  setenv("GLOO_JOB_SECRET", "short", 1);
  assert_int_equal(gli_trust_read(NULL, 0, &trust, NULL), GLOO_ERR_INVALID);
}

static void what_options_give_goes_first(void **state) {
  static const uint8_t given[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                    8, 9, 10, 11, 12, 13, 14, 15};
  gli_trust trust, same = trust_of(SECRET);
  (void)state;
  setenv("GLOO_JOB_SECRET", OTHER, 1);
  assert_int_equal(gli_trust_read(given, sizeof given, &trust, NULL), GLOO_OK);
  assert_int_equal(trust.asks, gli_openssl_version() != NULL);
  assert_memory_equal(&trust.key, &same.key, sizeof trust.key);
}

static void it_can_be_required_where_there_is_openssl(void **state) {
  gloo_error e;
  gli_trust trust;
  (void)state;
  setenv("GLOO_SECURITY", "require", 1);
  setenv("GLOO_JOB_SECRET", SECRET, 1);
  gloo_status status = gli_trust_read(NULL, 0, &trust, &e);
  if (gli_openssl_version() != NULL) {
    assert_int_equal(status, GLOO_OK);
    assert_true(trust.asks);
  } else {
    assert_int_equal(status, GLOO_ERR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "OpenSSL"));
  }
}

static gli_key store_key(const char *secret, const char *job, uint64_t epoch) {
  gli_key key;
  gli_trust trust = trust_of(secret);
  assert_int_equal(gli_trust_store_key(&trust, job, epoch, &key, NULL),
                   GLOO_OK);
  return key;
}

static void a_store_key_is_of_one_secret_job_and_epoch(void **state) {
  (void)state;
  if (gli_openssl_version() == NULL) return;
  gli_key key = store_key(SECRET, "job", 1);
  gli_key same = store_key(SECRET, "job", 1);
  const gli_key others[] = {store_key(OTHER, "job", 1),
                            store_key(SECRET, "jo", 1),
                            store_key(SECRET, "job", 2)};
  assert_memory_equal(&key, &same, sizeof key);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_memory_not_equal(&key, &others[i], sizeof key);
}

static void records_have_a_key_for_each_scope(void **state) {
  const gli_trust_scope scopes[] = {
      {.job = ""},
      {.job = "a"},
      {.job = "a", .epoch = 1},
      {.job = "a", .round = 1},
      {.job = "a", .round = 1, .number = {1}},
  };
  enum { N = sizeof scopes / sizeof *scopes };
  gli_key keys[N], again;
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  gli_trust trust = trust_of(SECRET);
  for (int i = 0; i < N; i++) {
    assert_int_equal(gli_trust_record_key(&trust, &scopes[i], &keys[i], NULL),
                     GLOO_OK);
    for (int k = 0; k < i; k++)
      assert_memory_not_equal(&keys[i], &keys[k], sizeof keys[i]);
    assert_int_equal(gli_trust_record_key(&trust, &scopes[i], &again, NULL),
                     GLOO_OK);
    assert_memory_equal(&keys[i], &again, sizeof again);
  }
}

static void secrets_are_told_apart_by_their_marks(void **state) {
  uint32_t mark, same, other;
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  gli_trust trust = trust_of(SECRET), again = trust_of(SECRET);
  gli_trust another = trust_of(OTHER);
  assert_int_equal(gli_trust_mark(&trust, &mark, NULL), GLOO_OK);
  assert_int_equal(gli_trust_mark(&again, &same, NULL), GLOO_OK);
  assert_int_equal(gli_trust_mark(&another, &other, NULL), GLOO_OK);
  assert_int_equal(mark, same);
  assert_int_not_equal(mark, other);
  assert_int_equal((mark | other) >> GLI_TRUST_MARK_BITS, 0);
}

static gli_key pair_key(const char *secret, gli_trust_end one,
                        gli_trust_end other) {
  gli_key key;
  gli_trust trust = trust_of(secret);
  assert_int_equal(gli_trust_pair_key(trust.key.bytes, one, other, &key, NULL),
                   GLOO_OK);
  return key;
}

static void a_pair_key_is_the_same_for_both_ends_alone(void **state) {
  const gli_trust_end one = {1, 77}, two = {2, 78};
  (void)state;
  if (gli_openssl_version() == NULL) return;
  gli_key key = pair_key(SECRET, one, two), same = pair_key(SECRET, two, one);
  const gli_key others[] = {
      pair_key(OTHER, one, two), pair_key(SECRET, (gli_trust_end){3, 77}, two),
      pair_key(SECRET, (gli_trust_end){1, 79}, two),
      pair_key(SECRET, (gli_trust_end){1, 78}, (gli_trust_end){2, 77})};
  assert_memory_equal(&key, &same, sizeof key);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_memory_not_equal(&key, &others[i], sizeof key);
}

static int warnings;

static void count_warning(gloo_log_level level, const char *line, void *user) {
  (void)user;
  if (level == GLOO_LOG_WARN && strstr(line, "can join this job: ")) warnings++;
}

static void being_exposed_is_said_once(void **state) {
  const gli_trust open = {.asks = false}, meant = {.silent = true},
                  asks = {.asks = true};
  (void)state;
  gloo_log_set_sink(count_warning, NULL);
  gli_trust_exposed(&meant, "x", "y");
  gli_trust_exposed(&asks, "x", "y");
  assert_int_equal(warnings, 0);
  gli_trust_exposed(&open, "x", "y");
  gli_trust_exposed(&open, "x", "y");
  gloo_log_set_sink(NULL, NULL);
  assert_int_equal(warnings, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(nobody_is_asked_without_a_secret, forget),
      cmocka_unit_test_setup(required_is_an_error_without_one, forget),
      cmocka_unit_test_setup(off_looks_at_none, forget),
      cmocka_unit_test_setup(a_bad_secret_is_an_error, forget),
      cmocka_unit_test_setup(what_options_give_goes_first, forget),
      cmocka_unit_test_setup(it_can_be_required_where_there_is_openssl, forget),
      cmocka_unit_test_setup(a_store_key_is_of_one_secret_job_and_epoch,
                             forget),
      cmocka_unit_test_setup(records_have_a_key_for_each_scope, forget),
      cmocka_unit_test_setup(secrets_are_told_apart_by_their_marks, forget),
      cmocka_unit_test_setup(a_pair_key_is_the_same_for_both_ends_alone,
                             forget),
      cmocka_unit_test_setup(being_exposed_is_said_once, forget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
