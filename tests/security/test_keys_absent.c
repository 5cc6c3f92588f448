/* A build without OpenSSL names the missing dependency and accepts no tag. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "security/keys.h"

static gloo_error e;

static void refused(gloo_status status) {
  assert_int_equal(status, GLOO_ERR_UNSUPPORTED);
  assert_non_null(strstr(e.message, "libssl-dev"));
  assert_non_null(strstr(e.message, "-Dopenssl=enabled"));
  memset(&e, 0, sizeof e);
}

static void a_build_without_it_says_how_to_have_it(void **state) {
  const gli_key zero = {{0}};
  gli_key key = zero;
  gli_mac *mac = NULL;
  uint8_t out[GLI_TAG_BYTES] = {0};
  (void)state;
  refused(gli_key_extract("salt", 4, "secret", 6, &key, &e));
  refused(gli_key_expand(&key, "", 0, out, sizeof out, &e));
  refused(gli_key_derive(&key, "pair", NULL, 0, &key, &e));
  refused(gli_mac_create(&key, &mac, &e));
  refused(gli_mac_tag(mac, NULL, 0, out, &e));
  assert_memory_equal(&key, &zero, sizeof key);
  assert_memory_equal(out, zero.bytes, sizeof out);
  assert_null(mac);
  gli_mac_destroy(mac);
}

static void no_tag_is_right(void **state) {
  const uint8_t tag[GLI_TAG_BYTES] = {0};
  (void)state;
  assert_false(gli_tags_equal(tag, tag));
  assert_null(gli_openssl_version());
}

static void it_forgets_all_the_same(void **state) {
  uint8_t bytes[3] = {1, 2, 3};
  (void)state;
  gli_wipe(bytes, 2);
  assert_int_equal(bytes[0] | bytes[1], 0);
  assert_int_equal(bytes[2], 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_build_without_it_says_how_to_have_it),
      cmocka_unit_test(no_tag_is_right),
      cmocka_unit_test(it_forgets_all_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
