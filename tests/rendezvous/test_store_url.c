/* URLs of stores: parsing, and the stores that they open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rendezvous/store/store_url.h"

typedef struct good {
  const char *url, *scheme, *user, *password, *host, *path;
  uint16_t port;
} good;

static const good goods[] = {
    {"file:///tmp/a%20b", "file", "", "", "", "tmp/a b", 0},
    {"tcp://host:29500", "tcp", "", "", "host", "", 29500},
    {"tcp://host:29500/", "tcp", "", "", "host", "", 29500},
    {"tcp://[::1]:1", "tcp", "", "", "::1", "", 1},
    {"tcp://[fe80::1%25eth0]:65535", "tcp", "", "", "fe80::1%eth0", "", 65535},
    {"tcp://[fe80::1%eth0]:1", "tcp", "", "", "fe80::1%eth0", "", 1},
    {"env:", "env", "", "", "", "", 0},
    {"c10d://h:1/a/b", "c10d", "", "", "h", "a/b", 1},
    {"redis://h", "redis", "", "", "h", "", 6379},
    {"redis://u:p%40%2f@h:1/x", "redis", "u", "p@/", "h", "x", 1},
    {"redis://:p@[::1]", "redis", "", "p", "::1", "", 6379},
    {"redis://u:a@b@h", "redis", "u", "a@b", "h", "", 6379},
    {"rediss://u@h:2", "rediss", "u", "", "h", "", 2},
    {"pmi:", "pmi", "", "", "", "", 0},
    {"pmix:", "pmix", "", "", "", "", 0},
};

static void the_parts_are_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof goods / sizeof *goods; i++) {
    gli_store_url url;
    gloo_error error;
    if (gli_store_url_read(goods[i].url, &url, &error) != GLOO_OK)
      fail_msg("%s: %s", goods[i].url, error.message);
    assert_string_equal(url.scheme, goods[i].scheme);
    assert_string_equal(url.user, goods[i].user);
    assert_string_equal(url.password, goods[i].password);
    assert_string_equal(url.host, goods[i].host);
    assert_string_equal(url.path, goods[i].path);
    assert_int_equal(url.port, goods[i].port);
  }
}

static const char *const bads[][2] = {
    {"", "no scheme"},
    {"host", "no scheme"},
    {"://host:1", "no scheme"},
    {"host:29500", "'//' must follow"},
    {"tcp:/host:1", "'//' must follow"},
    {"http://h:1", "unknown"},
    {"TCP://h:1", "unknown"},
    {"tcp://", "no host"},
    {"tcp:", "no host"},
    {"tcp://:1", "no host"},
    {"tcp://h", "no port"},
    {"tcp://h:", "no port"},
    {"tcp://h:0", "not a number from 1 to 65535"},
    {"tcp://h:65536", "not a number from 1 to 65535"},
    {"tcp://h:+1", "not a number from 1 to 65535"},
    {"tcp://h:000001", "not a number from 1 to 65535"},
    {"tcp://::1:5", "in brackets"},
    {"tcp://[::1:5", "no ']'"},
    {"tcp://[::1]5", "must follow ']'"},
    {"tcp://h:1/x", "no path"},
    {"tcp://u@h:1", "no user"},
    {"tcp://h%00:1", "%00"},
    {"file://", "no folder"},
    {"file:", "no folder"},
    {"file:///", "no folder"},
    {"file://tmp/a", "three slashes"},
    {"env:x", "'//' must follow"},
    {"env://x:1", "nothing may follow"},
};

static void what_is_wrong_is_said(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
    gloo_store *store = NULL;
    gloo_error error;
    if (gloo_store_open(bads[i][0], 1, &store, &error) != GLOO_ERR_INVALID)
      fail_msg("'%s' is taken", bads[i][0]);
    if (strstr(error.message, bads[i][1]) == NULL)
      fail_msg("'%s' is not in: %s", bads[i][1], error.message);
    if (strstr(error.message, "tcp://host:port") == NULL)
      fail_msg("there are no examples in: %s", error.message);
    assert_null(store);
  }
}

static void a_password_is_not_shown(void **state) {
  gli_store_url url;
  gloo_error error;
  (void)state;
  assert_string_equal(gli_store_url_shown("redis://u:secret@h:1/x").text,
                      "redis://u:***@h:1/x");
  assert_string_equal(gli_store_url_shown("redis://u:a@secret@h").text,
                      "redis://u:***@h");
  assert_string_equal(gli_store_url_shown("redis://u@h:1").text,
                      "redis://u@h:1");
  assert_int_equal(gli_store_url_read("redis://u:secret@h:x", &url, &error),
                   GLOO_ERR_INVALID);
  assert_null(strstr(error.message, "secret"));
}

static void long_ones_are_refused(void **state) {
  char text[GLI_STORE_URL_MAX + 2];
  gli_store_url url;
  gloo_error error;
  (void)state;
  memset(text, 'x', sizeof text - 1);
  memcpy(text, "file:///", 8);
  text[sizeof text - 1] = '\0';
  assert_int_equal(gli_store_url_read(text, &url, &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "1025 bytes"));
  text[sizeof text - 2] = '\0';
  assert_int_equal(gli_store_url_read(text, &url, &error), GLOO_OK);
  assert_int_equal(strlen(url.path), GLI_STORE_URL_MAX - 8);
}

/* Fails unless both are the same store: a value set in one is read from the
 * other. */
static void expect_one(gloo_store *a, gloo_store *b) {
  gloo_value value;
  assert_int_equal(gloo_store_set(a, "key", "value", 5, NULL), GLOO_OK);
  assert_int_equal(gloo_store_get(b, "key", 1, &value, NULL), GLOO_OK);
  assert_int_equal(value.bytes, 5);
  assert_memory_equal(value.data, "value", 5);
  free(value.data);
}

static void a_folder_is_opened(void **state) {
  char folder[] = "/tmp/gloo-url-XXXXXX", url[64], command[64];
  gloo_store *a, *b;
  (void)state;
  assert_non_null(mkdtemp(folder));
  snprintf(url, sizeof url, "file://%s/a%%20b", folder);
  assert_int_equal(gloo_store_open(url, 0, &a, NULL), GLOO_OK);
  assert_int_equal(gloo_store_open(url, 0, &b, NULL), GLOO_OK);
  expect_one(a, b);
  gloo_store_destroy(a);
  gloo_store_destroy(b);
  snprintf(command, sizeof command, "rm -r '%s/a b' && rmdir %s", folder,
           folder);
  assert_int_equal(system(command), 0);
}

static void a_server_is_reached(void **state) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_store *server, *client;
  char url[64];
  (void)state;
  o.host = "127.0.0.1";
  o.serve = 1;
  assert_int_equal(gloo_store_tcp_create(&o, &server, NULL), GLOO_OK);
  snprintf(url, sizeof url, "tcp://127.0.0.1:%u",
           (unsigned)gloo_store_tcp_port(server));
  assert_int_equal(gloo_store_open(url, 0, &client, NULL), GLOO_OK);
  expect_one(server, client);
  gloo_store_destroy(client);
  gloo_store_destroy(server);
}

/* The port has no server, and the timeout is short. */
static void nobody_answers(void **state) {
  gloo_store *store;
  gloo_error error;
  (void)state;
  assert_int_equal(
      gloo_store_open("tcp://127.0.0.1:1", 50000000, &store, &error),
      GLOO_ERR_TIMEOUT);
  assert_non_null(strstr(error.message, "127.0.0.1:1"));
}

/* Opens the stores of two ranks one after the other, since the environment
 * variables belong to the process. */
static void the_environment_says_where(void **state) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_store *mine, *theirs;
  char port[16];
  (void)state;
  o.host = "127.0.0.1";
  o.serve = 1;
  assert_int_equal(gloo_store_tcp_create(&o, &theirs, NULL), GLOO_OK);
  snprintf(port, sizeof port, "%u", (unsigned)gloo_store_tcp_port(theirs));
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port, 1);
  assert_int_equal(gloo_store_open("env:", 0, &mine, NULL), GLOO_OK);
  expect_one(mine, theirs);
  gloo_store_destroy(mine);
  gloo_store_destroy(theirs);
  setenv("RANK", "0", 1); /* and this rank serves it */
  assert_int_equal(gloo_store_open("env:", 0, &mine, NULL), GLOO_OK);
  assert_int_equal(gloo_store_tcp_port(mine), atoi(port));
  gloo_store_destroy(mine);
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
  unsetenv("MASTER_ADDR");
  unsetenv("MASTER_PORT");
  assert_int_equal(gloo_store_open("env:", 0, &mine, NULL), GLOO_OK);
  expect_one(mine, mine);
  gloo_store_destroy(mine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_parts_are_found),
      cmocka_unit_test(what_is_wrong_is_said),
      cmocka_unit_test(a_password_is_not_shown),
      cmocka_unit_test(long_ones_are_refused),
      cmocka_unit_test(a_folder_is_opened),
      cmocka_unit_test(a_server_is_reached),
      cmocka_unit_test(nobody_answers),
      cmocka_unit_test(the_environment_says_where),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
