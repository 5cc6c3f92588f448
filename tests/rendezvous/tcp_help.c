#include "tcp_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kinds.h"

static int descriptors_before;

int descriptors_setup(void **state) {
  (void)state;
  descriptors_before = test_open_descriptors();
  return 0;
}

int descriptors_teardown(void **state) {
  (void)state;
  return test_open_descriptors() == descriptors_before ? 0 : -1;
}

gloo_store_tcp_options options_for(uint16_t port) {
  gloo_store_tcp_options options = GLOO_STORE_TCP_OPTIONS_INIT;
  options.host = "127.0.0.1";
  options.port = port;
  options.job = "job";
  options.epoch = 7;
  options.timeout_ns = LONG_TIME;
  return options;
}

gloo_store *serve(uint16_t port) {
  gloo_store *store;
  gloo_error error;
  gloo_store_tcp_options options = options_for(port);
  options.serve = 1;
  if (gloo_store_tcp_create(&options, &store, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  return store;
}

gloo_store *join(uint16_t port) {
  gloo_store *store;
  gloo_error error;
  gloo_store_tcp_options options = options_for(port);
  if (gloo_store_tcp_create(&options, &store, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  return store;
}

void expect_message(const gloo_error *error, const char *word) {
  if (strstr(error->message, word) == NULL)
    fail_msg("'%s' is not in: %s", word, error->message);
}

void expect_address(const gloo_error *error, uint16_t port) {
  char address[32];
  snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)port);
  expect_message(error, address);
}

void expect_served(gloo_store *store) {
  gloo_error error;
  gloo_value value;
  if (gloo_store_set(store, "still", "here", 4, &error) != GLOO_OK ||
      gloo_store_get(store, "still", GLOO_TIMEOUT_NOW, &value, &error) !=
          GLOO_OK)
    fail_msg("%s", error.message);
  free(value.data);
}
