/* The address and port at which the server of a TCP store listens: the range of
 * ports, and the address set in the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gloo_c/store.h"

static gloo_status serve_at(const char *host, uint16_t port, gloo_store **store,
                            gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = host;
  o.port = port;
  o.serve = 1;
  return gloo_store_tcp_create(&o, store, error);
}

static void expect_refused(const char *host, uint16_t port, gloo_status status,
                           const char *part) {
  gloo_store *store;
  gloo_error error;
  assert_int_equal(serve_at(host, port, &store, &error), status);
  if (strstr(error.message, part) == NULL)
    fail_msg("\"%s\" does not contain \"%s\"", error.message, part);
}

/* Fails unless a client reads a value set at the server. */
static void expect_reached(const char *host, gloo_store *server) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_store *client;
  gloo_value value;
  gloo_error error;
  o.host = host;
  o.port = gloo_store_tcp_port(server);
  o.timeout_ns = INT64_C(5000000000);
  if (gloo_store_tcp_create(&o, &client, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  assert_int_equal(gloo_store_set(server, "key", "value", 5, &error), GLOO_OK);
  assert_int_equal(gloo_store_get(client, "key", 0, &value, &error), GLOO_OK);
  assert_int_equal(value.bytes, 5);
  free(value.data);
  gloo_store_destroy(client);
}

static void any_port_is_one_of_the_range(void **state) {
  (void)state;
  gloo_store *store[2];
  gloo_error error;
  assert_int_equal(setenv("GLOO_PORT_RANGE", "28741-28742", 1), 0);
  for (int i = 0; i < 2; i++) {
    if (serve_at("127.0.0.1", 0, &store[i], &error) != GLOO_OK)
      fail_msg("%s", error.message);
    assert_in_range(gloo_store_tcp_port(store[i]), 28741, 28742);
    expect_reached("127.0.0.1", store[i]);
  }
  expect_refused("127.0.0.1", 0, GLOO_ERR_ADDRESS,
                 "GLOO_PORT_RANGE (28741-28742)");
  /* The message for an explicit port suggests MASTER_PORT instead of the
   * range. */
  gloo_store_destroy(store[1]);
  uint16_t port = gloo_store_tcp_port(store[0]);
  expect_refused("127.0.0.1", port, GLOO_ERR_ADDRESS,
                 "set MASTER_PORT to another one");
  gloo_store_destroy(store[0]);
  assert_int_equal(setenv("GLOO_PORT_RANGE", "x", 1), 0);
  expect_refused("127.0.0.1", 0, GLOO_ERR_INVALID, "GLOO_PORT_RANGE");
  unsetenv("GLOO_PORT_RANGE");
}

/* The host is the name that other hosts use, without meaning on this one. */
static void server_listens_where_it_is_told(void **state) {
  (void)state;
  gloo_store *store;
  gloo_error error;
  expect_refused("192.0.2.77", 0, GLOO_ERR_ADDRESS,
                 "it is not an address of this machine");
  expect_refused("192.0.2.77", 0, GLOO_ERR_ADDRESS,
                 "set GLOO_BIND_ADDR to a local address");
  static const char *const at[] = {"127.0.0.2", "0.0.0.0",
                                   "127.0.0.2,127.0.0.3"};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    assert_int_equal(setenv("GLOO_BIND_ADDR", at[i], 1), 0);
    if (serve_at("192.0.2.77", 0, &store, &error) != GLOO_OK)
      fail_msg("%s: %s", at[i], error.message);
    expect_reached("127.0.0.2", store);
    gloo_store_destroy(store);
  }
  assert_int_equal(setenv("GLOO_BIND_ADDR", "192.0.2.78", 1), 0);
  expect_refused("127.0.0.1", 0, GLOO_ERR_ADDRESS, "192.0.2.78");
  unsetenv("GLOO_BIND_ADDR");
}

static void addresses_may_be_in_brackets(void **state) {
  (void)state;
  gloo_store *store;
  gloo_error error;
  gloo_status status = serve_at("::1", 0, &store, &error);
  if (status != GLOO_OK) {
    print_message("# skipped: this machine has no IPv6 loopback\n");
    skip();
  }
  gloo_store_destroy(store);
  assert_int_equal(serve_at("[::1]", 0, &store, &error), GLOO_OK);
  expect_reached("[::1]", store);
  expect_reached("::1", store);
  gloo_store_destroy(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_port_is_one_of_the_range),
      cmocka_unit_test(server_listens_where_it_is_told),
      cmocka_unit_test(addresses_may_be_in_brackets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
