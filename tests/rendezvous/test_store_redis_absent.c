/* A build without hiredis names the missing dependency. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rendezvous/store/store_url.h"

static void a_build_without_it_says_how_to_have_it(void **state) {
  gli_store_url url = {.scheme = "redis",
                       .user = "",
                       .password = "",
                       .host = "127.0.0.1",
                       .path = ""};
  gloo_store *store = NULL;
  gloo_error e;
  (void)state;
  for (int tls = 0; tls < 2; tls++) {
    assert_int_equal(
        gli_store_redis_open(&url, tls != 0, GLOO_TIMEOUT_NOW, &store, &e),
        GLOO_ERR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "-Dredis=enabled"));
    assert_null(store);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_build_without_it_says_how_to_have_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
