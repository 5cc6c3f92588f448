/* A build without OpenSSL has no TLS, and fails where TLS is required. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"

static gloo_error e;

static void refused(gloo_status status) {
  assert_int_equal(status, GLOO_ERR_UNSUPPORTED);
  assert_non_null(strstr(e.message, "TLS is on"));
  assert_non_null(strstr(e.message, "-Dopenssl=enabled"));
  memset(&e, 0, sizeof e);
}

static gloo_status open_device(const char *transport, int use) {
  gloo_device_options o = GLOO_DEVICE_OPTIONS_INIT;
  gloo_tls_options tls = GLOO_TLS_OPTIONS_INIT;
  gloo_device *device = NULL;
  tls.use = use;
  o.transport = transport;
  o.tls = &tls;
  gloo_status status = gloo_device_create(&o, &device, &e);
  if (status == GLOO_OK) gloo_device_destroy(device);
  return status;
}

static gloo_status open_store(int serve, int use) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_tls_options tls = GLOO_TLS_OPTIONS_INIT;
  gloo_store *store = NULL;
  tls.use = use;
  o.host = "127.0.0.1";
  o.port = serve ? 0 : 9;
  o.serve = serve;
  o.tls = &tls;
  gloo_status status = gloo_store_tcp_create(&o, &store, &e);
  if (status == GLOO_OK) gloo_store_destroy(store);
  return status;
}

static void what_is_to_use_it_is_not_made(void **state) {
  (void)state;
  for (int by_variable = 0; by_variable < 2; by_variable++) {
    int use = by_variable ? 0 : 1;
    if (by_variable) setenv("GLOO_TLS", "1", 1);
    refused(open_device("tcp", use));
    refused(open_device("auto", use));
    refused(open_store(0, use));
    refused(open_store(1, use));
    unsetenv("GLOO_TLS");
  }
}

static void what_is_not_to_use_it_is_made(void **state) {
  (void)state;
  setenv("GLOO_TLS", "1", 1);
  assert_int_equal(open_device("tcp", -1), GLOO_OK);
  assert_int_equal(open_store(1, -1), GLOO_OK);
  setenv("GLOO_TLS", "0", 1);
  assert_int_equal(open_device("tcp", 0), GLOO_OK);
  setenv("GLOO_TLS", "2", 1);
  assert_int_equal(open_device("tcp", 0), GLOO_ERR_INVALID);
  assert_non_null(strstr(e.message, "GLOO_TLS is '2'"));
  unsetenv("GLOO_TLS");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_to_use_it_is_not_made),
      cmocka_unit_test(what_is_not_to_use_it_is_made),
  };
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  unsetenv("GLOO_SECURITY");
  setenv("HOME", "/nowhere", 1); /* a real home directory may hold a secret */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
