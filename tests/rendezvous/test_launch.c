/* Reading of a launch from the environment: valid and invalid values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rendezvous/launch/launch.h"

static const char *const names[] = {"RANK",        "WORLD_SIZE",  "MASTER_ADDR",
                                    "MASTER_PORT", "GLOO_JOB_ID", "GLOO_EPOCH"};
enum { NAMES = 6 };

/* Sets the variables, in the order of `names`; NULL leaves one unset. */
static void set_environment(const char *const values[NAMES]) {
  for (int i = 0; i < NAMES; i++) {
    if (values[i] != NULL) {
      assert_int_equal(setenv(names[i], values[i], 1), 0);
    } else {
      assert_int_equal(unsetenv(names[i]), 0);
    }
  }
}

static void expect_alone(const char *const values[NAMES]) {
  gli_launch launch;
  set_environment(values);
  assert_int_equal(gli_launch_read(&launch, NULL), GLOO_OK);
  assert_int_equal(launch.rank, 0);
  assert_int_equal(launch.size, 1);
  assert_string_equal(launch.store, "");
  assert_string_equal(launch.job, "");
  assert_int_equal(launch.epoch, 0);
  assert_string_equal(launch.launcher, "none");
}

static void nothing_set_is_one_rank_alone(void **state) {
  (void)state;
  expect_alone((const char *const[NAMES]){NULL});
  expect_alone((const char *const[NAMES]){"", "", "", "", "", ""});
}

static void a_complete_environment_is_read(void **state) {
  gli_launch launch;
  (void)state;
  set_environment((const char *const[NAMES]){"3", "8", "node-1", "29500",
                                             "train", "18446744073709551615"});
  assert_int_equal(gli_launch_read(&launch, NULL), GLOO_OK);
  assert_int_equal(launch.rank, 3);
  assert_int_equal(launch.size, 8);
  assert_string_equal(launch.store, "tcp://node-1:29500");
  assert_true(launch.serves);
  assert_string_equal(launch.job, "train");
  assert_true(launch.epoch == UINT64_MAX);
  assert_string_equal(launch.launcher, "RANK");
}

/* An invalid environment and the words expected in the message. */
typedef struct bad {
  const char *values[NAMES];
  const char *words[3];
} bad;

static const bad table[] = {
    {{"-1", "2", "h", "1"}, {"RANK", "'-1'", "0 to 1"}},
    {{"+1", "2", "h", "1"}, {"RANK", "'+1'"}},
    {{" 1", "2", "h", "1"}, {"RANK", "' 1'"}},
    {{"1 ", "2", "h", "1"}, {"RANK", "'1 '"}},
    {{"0x1", "2", "h", "1"}, {"RANK", "'0x1'"}},
    {{"1.0", "2", "h", "1"}, {"RANK", "'1.0'"}},
    {{"one", "2", "h", "1"}, {"RANK", "'one'"}},
    {{"2", "2", "h", "1"}, {"RANK", "'2'", "below WORLD_SIZE"}},
    {{"18446744073709551616", "2", "h", "1"}, {"RANK", "18446744073709551616"}},
    {{"0", "0", "h", "1"}, {"WORLD_SIZE", "'0'", "1 to 65536"}},
    {{"0", "65537", "h", "1"}, {"WORLD_SIZE", "'65537'", "1 to 65536"}},
    {{"0", "20000000", "h", "1"}, {"WORLD_SIZE", "'20000000'"}},
    {{"0", "2\n", "h", "1"}, {"WORLD_SIZE", "'2\\x0a'"}},
    {{"0", "2", "h", "0"}, {"MASTER_PORT", "'0'", "1 to 65535"}},
    {{"0", "2", "h\n", "1"}, {"MASTER_ADDR", "'h\\x0a'", "a line break"}},
    {{"0", "1", " h", "1"}, {"MASTER_ADDR", "' h'", "a space"}},
    {{"1", "2", "tcp://h", "1"}, {"MASTER_ADDR", "'tcp://h'", "a scheme"}},
    {{"1", "2", "h:1", "1"}, {"MASTER_ADDR", "'h:1'", "a port"}},
    {{"1", "2", "127.0.0.1:1", "1"}, {"MASTER_ADDR", "a port"}},
    {{"1", "2", "h/", "1"}, {"MASTER_ADDR", "'h/'", "a slash"}},
    {{"0", "2", "h", "65536"}, {"MASTER_PORT", "'65536'"}},
    {{"0", "2", "h", "http"}, {"MASTER_PORT", "'http'"}},
    {{"0", "2", "h", "1", "j", "-1"}, {"GLOO_EPOCH", "'-1'"}},
    {{"0", "2", "h", "1", "j", "18446744073709551616"}, {"GLOO_EPOCH"}},
    {{NULL, NULL, NULL, NULL, "j", "x"}, {"GLOO_EPOCH", "'x'"}},
    {{"0"}, {"has RANK", "not WORLD_SIZE, MASTER_ADDR, MASTER_PORT"}},
    {{NULL, "2"}, {"has WORLD_SIZE", "not RANK, MASTER_ADDR, MASTER_PORT"}},
    {{"0", "2", "h"}, {"has RANK, WORLD_SIZE, MASTER_ADDR", "not MASTER_PORT"}},
    {{NULL, NULL, NULL, "1"}, {"has MASTER_PORT", "RANK"}},
    {{"", "2", "h", "1"},
     {"has WORLD_SIZE, MASTER_ADDR, MASTER_PORT", "not RANK"}},
    {{"0", "", "h", "1"},
     {"has RANK, MASTER_ADDR, MASTER_PORT", "not WORLD_SIZE"}},
    {{"0", "2", "", "1"},
     {"has RANK, WORLD_SIZE, MASTER_PORT", "not MASTER_ADDR"}},
    {{"0", "2", "h", ""},
     {"has RANK, WORLD_SIZE, MASTER_ADDR", "not MASTER_PORT"}},
};

static void bad_values_are_named(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    gli_launch launch = {.rank = 77};
    gloo_error error;
    set_environment(table[i].values);
    assert_int_equal(gli_launch_read(&launch, &error), GLOO_ERR_INVALID);
    assert_int_equal(launch.rank, 77); /* unchanged */
    for (int k = 0; k < 3 && table[i].words[k] != NULL; k++)
      if (strstr(error.message, table[i].words[k]) == NULL)
        fail_msg("'%s' is not in: %s", table[i].words[k], error.message);
  }
}

static void texts_that_are_too_long_are_named(void **state) {
  gli_launch launch;
  gloo_error error;
  char text[1026];
  (void)state;
  memset(text, 'x', sizeof(text) - 1);
  text[1025] = '\0';
  set_environment((const char *const[NAMES]){"0", "1", "h", "1", text});
  assert_int_equal(gli_launch_read(&launch, &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "GLOO_JOB_ID"));
  text[1024] = '\0';
  assert_int_equal(setenv("GLOO_JOB_ID", text, 1), 0);
  assert_int_equal(gli_launch_read(&launch, &error), GLOO_OK);
  assert_string_equal(launch.job, text);
  text[256] = '\0';
  set_environment((const char *const[NAMES]){"0", "1", text, "1"});
  assert_int_equal(gli_launch_read(&launch, &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "MASTER_ADDR"));
  text[255] = '\0';
  assert_int_equal(setenv("MASTER_ADDR", text, 1), 0);
  assert_int_equal(gli_launch_read(&launch, &error), GLOO_OK);
}

static void a_password_is_not_told(void **state) {
  static char url[GLI_STORE_URL_MAX + 40];
  gli_launch launch;
  gloo_error error;
  (void)state;
  int used = snprintf(url, sizeof url, "redis://user:swordfish@host/");
  memset(url + used, 'x', sizeof url - 1 - (size_t)used);
  setenv("GLOO_RANK", "0", 1);
  setenv("GLOO_SIZE", "2", 1);
  setenv("GLOO_STORE", url, 1);
  gloo_status status = gli_launch_read(&launch, &error);
  unsetenv("GLOO_RANK");
  unsetenv("GLOO_SIZE");
  unsetenv("GLOO_STORE");
  assert_int_equal(status, GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "GLOO_STORE is 'redis://user:***@"));
  assert_null(strstr(error.message, "swordfish"));
}

/* torchrun's run id is used in the absence of GLOO_JOB_ID, unless it is the
 * default id of all jobs without a name. */
static void torchrun_names_the_job(void **state) {
  static const char *const rows[][3] = {/* run id, GLOO_JOB_ID, resulting job */
                                        {"run-7", NULL, "run-7"},
                                        {"none", NULL, ""},
                                        {"", NULL, ""},
                                        {"run-7", "ours", "ours"},
                                        {"run-7", "", "run-7"}};
  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    gli_launch launch;
    set_environment((const char *const[NAMES]){"0", "2", "h", "1", rows[i][1]});
    assert_int_equal(setenv("TORCHELASTIC_RUN_ID", rows[i][0], 1), 0);
    assert_int_equal(gli_launch_read(&launch, NULL), GLOO_OK);
    assert_string_equal(launch.job, rows[i][2]);
  }
  assert_int_equal(unsetenv("TORCHELASTIC_RUN_ID"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_set_is_one_rank_alone),
      cmocka_unit_test(a_complete_environment_is_read),
      cmocka_unit_test(bad_values_are_named),
      cmocka_unit_test(torchrun_names_the_job),
      cmocka_unit_test(texts_that_are_too_long_are_named),
      cmocka_unit_test(a_password_is_not_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
