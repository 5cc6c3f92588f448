/* A variable set to the empty string counts as unset. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"

/* The variables of docs/environment.md that the library reads. */
static const char *const names[] = {"RANK",
                                    "WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "GLOO_JOB_ID",
                                    "TORCHELASTIC_RUN_ID",
                                    "GLOO_EPOCH",
                                    "GLOO_TRANSPORT",
                                    "GLOO_SOCKET_IFNAME",
                                    "GLOO_CHECKSUM",
                                    "GLOO_WAIT",
                                    "GLOO_SHM_READ",
                                    "GLOO_HOST_ID",
                                    "GLOO_MEASURE",
                                    "GLOO_SHARED_BUFFERS",
                                    "GLOO_ALGORITHM",
                                    "GLOO_TUNING_FILE",
                                    "GLOO_TRACE_OPERATIONS",
                                    "GLOO_TRACE_DIR",
                                    "GLOO_TRACE_SIGNAL",
                                    "GLOO_METRICS",
                                    "GLOO_OBSERVE",
                                    "GLOO_LOG_LEVEL",
                                    "GLOO_TIMEOUT",
                                    "GLOO_START_TIMEOUT",
                                    "GLOO_PORT_RANGE",
                                    "GLOO_BIND_ADDR",
                                    "GLOO_PUBLISH_ADDR"};
enum { NAMES = sizeof names / sizeof *names };

static void set_none(void) {
  for (int i = 0; i < NAMES; i++) assert_int_equal(unsetenv(names[i]), 0);
}

static void expect_alone(const char *empty) {
  gloo_context *context;
  gloo_error error;
  if (gloo_init(NULL, &context, &error) != GLOO_OK)
    fail_msg("an empty %s: %s", empty, error.message);
  assert_int_equal(gloo_context_size(context), 1);
  gloo_context_destroy(context);
}

static void empty_variables_are_not_set(void **state) {
  (void)state;
  set_none();
  for (int i = 0; i < NAMES; i++) {
    assert_int_equal(setenv(names[i], "", 1), 0);
    expect_alone(names[i]);
  }
  for (int i = 0; i < NAMES; i++) {
    assert_int_equal(unsetenv(names[i]), 0);
    expect_alone("variable but some");
  }
}

/* Checks whether rank 1 looks for a local address that reaches rank 0, whose
 * address accepts no connection. */
static void expect_search(const char *interface, bool searches) {
  gloo_context *context;
  gloo_error error;
  gloo_context_options how = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_init_options o = GLOO_INIT_OPTIONS_INIT;
  how.timeout_ns = INT64_C(100000000);
  o.context = &how;
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "255.255.255.255", 1);
  setenv("MASTER_PORT", "1", 1);
  if (interface != NULL) setenv("GLOO_SOCKET_IFNAME", interface, 1);
  assert_int_not_equal(gloo_init(&o, &context, &error), GLOO_OK);
  bool found = strncmp(error.message, "rendezvous: ", 12) == 0;
  if (found != searches)
    fail_msg("%s: %s", interface ? interface : "NULL", error.message);
  set_none();
}

static void an_empty_interface_is_none(void **state) {
  (void)state;
  set_none();
  expect_search(NULL, true);
  expect_search("nosuch1", false);
  expect_search("", true);
}

static void the_wait_for_others_is_set(void **state) {
  gloo_context *context;
  gloo_error error;
  (void)state;
  set_none();
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  char port[16];
  (void)snprintf(port, sizeof port, "%d", 20000 + (int)getpid() % 12000);
  setenv("MASTER_PORT", port, 1);
  setenv("GLOO_START_TIMEOUT", "0.2", 1);
  assert_int_equal(gloo_init(NULL, &context, &error), GLOO_ERR_TIMEOUT);
  if (strstr(error.message, "rank 1 of 2 did not connect") == NULL ||
      strstr(error.message, "GLOO_START_TIMEOUT sets the limit") == NULL)
    fail_msg("%s", error.message);
  set_none();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty_variables_are_not_set),
      cmocka_unit_test(an_empty_interface_is_none),
      cmocka_unit_test(the_wait_for_others_is_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
