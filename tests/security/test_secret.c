/* Sources of a job's secret, refused sources, and the absence of its digits
 * from messages. */
#define _XOPEN_SOURCE 700 /* chown, mkdtemp, symlink */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "remove_tree.h"
#include "security/secret.h"

/* 64 digits that contain no word of an error message. */
#define DIGITS \
  "9d3f17c48e02b65a71f0c3d8e94b2a6075f1e8d3c2b4a6978d0e1f2c3b4a5968"
#define OTHER "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
#define STRANGER ((uid_t)12345)

static char directory[] = "/tmp/gloo_c-secret-XXXXXX";
static char path[128];
static int first_descriptor;
static gloo_error e;

/* ---- nothing is told ------------------------------------------------------
 */

enum { WINDOW = 5 };

/* Returns digits of a secret that occur in the text, or NULL. */
static const char *digits_told(const char *text) {
  static const char *const secrets[] = {DIGITS, OTHER};
  static char window[WINDOW + 1];
  for (int s = 0; s < 2; s++) {
    for (size_t i = 0; i + WINDOW <= strlen(secrets[s]); i++) {
      memcpy(window, secrets[s] + i, WINDOW);
      if (strstr(text, window) != NULL) return window;
    }
  }
  return NULL;
}

static void expect_untold(const char *text) {
  const char *digits = digits_told(text);
  if (digits != NULL) fail_msg("'%s' of the secret is in: %s", digits, text);
}

static void look_at_line(gloo_log_level level, const char *line, void *user) {
  (void)level;
  (void)user;
  expect_untold(line);
}

static void digits_would_be_found(void **state) {
  (void)state;
  assert_string_equal(digits_told("the secret 9d3f1... is odd"), "9d3f1");
  assert_string_equal(digits_told("it ends with a5968"), "a5968");
  assert_null(digits_told("a secret is 32 to 128 hexadecimal digits"));
}

/* ---- a place to try in -----------------------------------------------------
 */

static int lowest_descriptor(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

static int setup(void **state) {
  (void)state;
  strcpy(strrchr(directory, '-'), "-XXXXXX");
  if (mkdtemp(directory) == NULL || chmod(directory, 0755) != 0) return -1;
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  unsetenv("GLOO_SECURITY");
  setenv("HOME", directory, 1);
  snprintf(path, sizeof path, "%s/file", directory);
  gloo_log_set_level(GLOO_LOG_DEBUG);
  gloo_log_set_sink(look_at_line, NULL);
  first_descriptor = lowest_descriptor();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  gloo_log_set_sink(NULL, NULL);
  (void)remove_tree(directory);
  return lowest_descriptor() == first_descriptor ? 0 : -1;
}

static void write_bytes(const char *name, const char *data, size_t bytes,
                        unsigned mode) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, data, bytes), bytes);
  assert_int_equal(fchmod(fd, (mode_t)mode), 0);
  close(fd);
}

static void write_text(const char *name, const char *text, unsigned mode) {
  write_bytes(name, text, strlen(text), mode);
}

static const char *in_home(void) {
  static char name[160];
  snprintf(name, sizeof name, "%s/.config", directory);
  (void)mkdir(name, 0755);
  snprintf(name, sizeof name, "%s/.config/gloo_c", directory);
  (void)mkdir(name, 0755);
  snprintf(name, sizeof name, "%s/.config/gloo_c/secret", directory);
  return name;
}

/* ---- what is read, or refused ----------------------------------------------
 */

static void expect_secret(const char *digits, const char *source) {
  gli_secret secret;
  if (gli_secret_read(NULL, 0, &secret, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  assert_int_equal(2 * secret.n_bytes, strlen(digits));
  for (size_t i = 0; i < secret.n_bytes; i++) {
    unsigned byte;
    assert_int_equal(sscanf(digits + 2 * i, "%2x", &byte), 1);
    assert_int_equal(secret.bytes[i], byte);
  }
  assert_string_equal(secret.source, source);
  gli_secret_release(&secret);
}

static void expect_none(void) {
  gli_secret secret = {.n_bytes = 7};
  if (gli_secret_read(NULL, 0, &secret, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  assert_int_equal(secret.n_bytes, 0);
  assert_string_equal(secret.source, "none");
}

/* Expects an error whose message contains these words; `todo` may be NULL. */
static void expect_refused(gloo_status status, const char *what,
                           const char *why, const char *todo) {
  gli_secret secret = {.n_bytes = 7}, before = secret;
  memset(&e, 0, sizeof e);
  assert_int_equal(gli_secret_read(NULL, 0, &secret, &e), status);
  const char *words[] = {what, why, todo != NULL ? todo : what};
  for (int i = 0; i < 3; i++)
    if (strstr(e.message, words[i]) == NULL)
      fail_msg("'%s' is not in: %s", words[i], e.message);
  expect_untold(e.message);
  assert_memory_equal(&secret, &before, sizeof secret);
}

static void the_first_source_wins(void **state) {
  gli_secret secret;
  (void)state;
  expect_none();
  write_text(in_home(), OTHER, 0600);
  expect_secret(OTHER, "~/.config/gloo_c/secret");
  write_text(path, DIGITS, 0600);
  setenv("GLOO_JOB_SECRET_FILE", path, 1);
  expect_secret(DIGITS, "GLOO_JOB_SECRET_FILE");
  setenv("GLOO_JOB_SECRET", OTHER, 1);
  expect_secret(OTHER, "GLOO_JOB_SECRET");
  assert_int_equal(gli_secret_read("sixteen bytes ..", 16, &secret, &e),
                   GLOO_OK);
  assert_int_equal(secret.n_bytes, 16);
  assert_memory_equal(secret.bytes, "sixteen bytes ..", 16);
  assert_string_equal(secret.source, "options");
}

/* Otherwise the rank would use another secret than the other ranks. */
static void a_bad_source_hides_those_after_it(void **state) {
  (void)state;
  write_text(in_home(), OTHER, 0600);
  setenv("GLOO_JOB_SECRET_FILE", "/nowhere/at/all", 1);
  expect_refused(GLOO_ERR_IO, "GLOO_JOB_SECRET_FILE", "/nowhere/at/all",
                 "No such file");
  setenv("GLOO_JOB_SECRET", "short", 1);
  expect_refused(GLOO_ERR_INVALID, "GLOO_JOB_SECRET", "5 characters", NULL);
}

static void an_empty_variable_is_none(void **state) {
  (void)state;
  setenv("GLOO_JOB_SECRET", "", 1);
  setenv("GLOO_JOB_SECRET_FILE", "", 1);
  expect_none();
  write_text(in_home(), DIGITS, 0600);
  expect_secret(DIGITS, "~/.config/gloo_c/secret");
  setenv("HOME", "", 1);
  expect_none();
}

static void options_have_16_to_64_bytes(void **state) {
  uint8_t bytes[65] = {1, 2, 3};
  gli_secret secret;
  (void)state;
  for (size_t n = 0; n <= 65; n++) {
    gloo_status status = gli_secret_read(bytes, n, &secret, &e);
    assert_int_equal(status, n >= 16 && n <= 64 ? GLOO_OK : GLOO_ERR_INVALID);
  }
  assert_non_null(strstr(e.message, "has 65 bytes; pass 16 to 64"));
}

static void digits_are_of_either_case(void **state) {
  (void)state;
  setenv("GLOO_JOB_SECRET", "0123456789abcdefABCDEF9876543210", 1);
  expect_secret("0123456789abcdefabcdef9876543210", "GLOO_JOB_SECRET");
}

static void there_are_32_to_128_digits_in_pairs(void **state) {
  (void)state;
  for (size_t n = 1; n < 140; n++) {
    char digits[] = DIGITS DIGITS DIGITS;
    digits[n] = '\0';
    setenv("GLOO_JOB_SECRET", digits, 1);
    if (n >= 32 && n <= 128 && n % 2 == 0) {
      expect_secret(digits, "GLOO_JOB_SECRET");
    } else {
      char said[32];
      snprintf(said, sizeof said, "has %zu characters", n);
      expect_refused(GLOO_ERR_INVALID, "GLOO_JOB_SECRET", said,
                     "openssl rand -hex 32");
    }
  }
}

static void what_is_no_digit_is_refused(void **state) {
  static const char odd[] = "gGxX @/:`'\n\t\x80\xff";
  (void)state;
  for (size_t i = 0; i < sizeof odd - 1; i++) {
    char digits[] = DIGITS;
    digits[40] = odd[i];
    setenv("GLOO_JOB_SECRET", digits, 1);
    expect_refused(GLOO_ERR_INVALID, "GLOO_JOB_SECRET",
                   "character 41 of the environment variable",
                   "not a hexadecimal digit");
  }
}

/* ---- files ------------------------------------------------------------------
 */

static void one_newline_may_follow(void **state) {
  static const char *const bad[] = {DIGITS "\n\n", DIGITS "\r\n", " " DIGITS,
                                    DIGITS " ",    "\n",          ""};
  (void)state;
  setenv("GLOO_JOB_SECRET_FILE", path, 1);
  write_text(path, DIGITS "\n", 0400);
  expect_secret(DIGITS, "GLOO_JOB_SECRET_FILE");
  (void)unlink(path);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_text(path, bad[i], 0600);
    expect_refused(GLOO_ERR_INVALID, path, "hexadecimal digit", NULL);
  }
  write_bytes(path, DIGITS "\0" DIGITS, 2 * sizeof DIGITS - 1, 0600);
  expect_refused(GLOO_ERR_INVALID, path, "129 characters", NULL);
}

static void a_file_of_more_than_4_kib_is_refused(void **state) {
  static char text[4097];
  (void)state;
  setenv("GLOO_JOB_SECRET_FILE", path, 1);
  memset(text, '0', sizeof text);
  write_bytes(path, text, 4096, 0600);
  expect_refused(GLOO_ERR_INVALID, path, "has 4096 characters", NULL);
  write_bytes(path, text, 4097, 0600);
  expect_refused(GLOO_ERR_INVALID, path, "more than 4096 bytes", NULL);
}

static void expect_mode_refused(unsigned bit) {
  char mode[32];
  snprintf(mode, sizeof mode, "mode %04o", 0600 | bit);
  write_text(path, DIGITS, 0600 | bit);
  setenv("GLOO_JOB_SECRET_FILE", path, 1);
  expect_refused(GLOO_ERR_INVALID, path, mode, "chmod 600");
  unsetenv("GLOO_JOB_SECRET_FILE");
  write_text(in_home(), DIGITS, 0600 | bit);
  expect_refused(GLOO_ERR_INVALID, in_home(), mode, "chmod 600");
  (void)unlink(in_home());
}

static void what_others_may_read_or_write_is_refused(void **state) {
  (void)state;
  expect_mode_refused(02);
  expect_mode_refused(04);
}

static void what_a_group_may_write_or_others_run_is_refused(void **state) {
  (void)state;
  expect_mode_refused(01);
  expect_mode_refused(010);
  expect_mode_refused(020);
}

static void what_is_no_regular_file_is_refused(void **state) {
  (void)state;
  assert_int_equal(mkfifo(path, 0600), 0);
  setenv("GLOO_JOB_SECRET_FILE", path, 1);
  expect_refused(GLOO_ERR_INVALID, path, "not a regular file", NULL);
  setenv("GLOO_JOB_SECRET_FILE", directory, 1);
  expect_refused(GLOO_ERR_INVALID, directory, "not a regular file", NULL);
  setenv("GLOO_JOB_SECRET_FILE", "/dev/zero", 1);
  expect_refused(GLOO_ERR_INVALID, "/dev/zero", "not a regular file", NULL);
}

/* The links and files that Kubernetes mounts with mode 0400. */
static void links_to_a_mounted_file_are_followed(void **state) {
  char name[160], link[160];
  (void)state;
  snprintf(name, sizeof name, "%s/..2026_01_01", directory);
  assert_int_equal(mkdir(name, 0755), 0);
  snprintf(link, sizeof link, "%s/..data", directory);
  assert_int_equal(symlink("..2026_01_01", link), 0);
  snprintf(name, sizeof name, "%s/..2026_01_01/secret", directory);
  write_text(name, DIGITS, 0400);
  snprintf(link, sizeof link, "%s/secret", directory);
  assert_int_equal(symlink("..data/secret", link), 0);
  setenv("GLOO_JOB_SECRET_FILE", link, 1);
  expect_secret(DIGITS, "GLOO_JOB_SECRET_FILE");
  assert_int_equal(chmod(name, 0444), 0);
  expect_refused(GLOO_ERR_INVALID, link, "mode 0444", "chmod 600");
}

static void a_link_at_home_is_refused(void **state) {
  (void)state;
  write_text(path, DIGITS, 0600);
  assert_int_equal(symlink(path, in_home()), 0);
  expect_refused(GLOO_ERR_INVALID, in_home(), "symbolic link",
                 "GLOO_JOB_SECRET_FILE");
}

static void a_home_may_have_none(void **state) {
  static char long_home[5000];
  (void)state;
  (void)in_home();
  expect_none();
  unsetenv("HOME");
  expect_none();
  write_text(path, "a file", 0600);
  setenv("HOME", path, 1);
  expect_none();
  setenv("HOME", "tmp", 1);
  expect_none();
  memset(long_home, '/', sizeof long_home - 1);
  setenv("HOME", long_home, 1);
  expect_none();
}

static void a_secret_in_place_of_a_file_is_not_told(void **state) {
  (void)state;
  setenv("GLOO_JOB_SECRET_FILE", DIGITS, 1);
  expect_refused(GLOO_ERR_INVALID, "GLOO_JOB_SECRET_FILE contains digits",
                 "GLOO_JOB_SECRET", NULL);
}

/* ---- users ------------------------------------------------------------------
 */

/* Runs `body` as another user, which needs root, without cmocka. */
static int as_stranger(int (*body)(void)) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    if (setuid(STRANGER) != 0) _exit(99);
    _exit(body());
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static bool message_has(const char *word) {
  return strstr(e.message, word) != NULL;
}

/* Returns 0 if no secret is set, 1 if one is read, 2 if its owner is refused, 3
 * if its mode is, 4 if the file cannot be opened. */
static int what_becomes_of_it(void) {
  gli_secret secret;
  gloo_status status = gli_secret_read(NULL, 0, &secret, &e);
  if (status == GLOO_OK) return secret.n_bytes > 0;
  if (message_has("belongs to user")) return 2;
  if (message_has("(mode ")) return 3;
  return message_has("cannot be opened: Permission denied") ? 4 : 5;
}

static void give(const char *name, uid_t user, gid_t group, unsigned mode) {
  assert_int_equal(chown(name, user, group), 0);
  assert_int_equal(chmod(name, (mode_t)mode), 0);
}

static void the_owner_is_this_user_or_root(void **state) {
  (void)state;
  if (geteuid() != 0) skip();
  write_text(path, DIGITS, 0600);
  setenv("GLOO_JOB_SECRET_FILE", path, 1);
  give(path, STRANGER, 0, 0600);
  expect_refused(GLOO_ERR_INVALID, path, "belongs to user 12345",
                 "user 0, the user of this process");
  assert_int_equal(as_stranger(what_becomes_of_it), 1);
  give(path, STRANGER, 0, 0640);
  assert_int_equal(as_stranger(what_becomes_of_it), 3);
  give(path, STRANGER + 1, getgid(), 0640);
  assert_int_equal(as_stranger(what_becomes_of_it), 2);
}

/* Such files occur in a pod with fsGroup. */
static void a_file_of_root_may_be_read_by_its_group(void **state) {
  (void)state;
  if (geteuid() != 0) skip();
  write_text(path, DIGITS, 0600);
  setenv("GLOO_JOB_SECRET_FILE", path, 1);
  give(path, 0, getgid(), 0440);
  assert_int_equal(as_stranger(what_becomes_of_it), 1);
  give(path, 0, getgid(), 0460);
  assert_int_equal(as_stranger(what_becomes_of_it), 3);
  give(path, 0, getgid(), 0400);
  assert_int_equal(as_stranger(what_becomes_of_it), 4);
}

static void a_home_of_another_user_has_none(void **state) {
  (void)state;
  if (geteuid() != 0) skip();
  write_text(in_home(), DIGITS, 0600);
  assert_int_equal(as_stranger(what_becomes_of_it), 4);
  assert_int_equal(chmod(directory, 0700), 0);
  assert_int_equal(as_stranger(what_becomes_of_it), 0);
}

/* ---- the end ----------------------------------------------------------------
 */

static void releasing_wipes_all_of_it(void **state) {
  static const uint8_t zeros[sizeof(gli_secret)];
  gli_secret secret;
  (void)state;
  setenv("GLOO_JOB_SECRET", DIGITS, 1);
  assert_int_equal(gli_secret_read(NULL, 0, &secret, &e), GLOO_OK);
  assert_memory_not_equal(secret.bytes, zeros, sizeof secret.bytes);
  gli_secret_release(&secret);
  assert_memory_equal(&secret, zeros, sizeof secret);
}

static void how_much_is_asked(void **state) {
  static const char *const words[] = {"auth", "required", "off", "require"};
  static const gli_security meant[] = {GLI_SECURITY_AUTH, GLI_SECURITY_REQUIRE,
                                       GLI_SECURITY_OFF, GLI_SECURITY_REQUIRE};
  static const char *const bad[] = {"on", "Auth", "0", "off "};
  gli_security security = GLI_SECURITY_OFF;
  (void)state;
  assert_int_equal(gli_security_read(&security, &e), GLOO_OK);
  assert_int_equal(security, GLI_SECURITY_AUTH);
  for (int i = 0; i < 4; i++) {
    setenv("GLOO_SECURITY", words[i], 1);
    assert_int_equal(gli_security_read(&security, &e), GLOO_OK);
    assert_int_equal(security, meant[i]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    setenv("GLOO_SECURITY", bad[i], 1);
    assert_int_equal(gli_security_read(&security, &e), GLOO_ERR_INVALID);
    assert_non_null(strstr(e.message, "GLOO_SECURITY"));
    assert_non_null(strstr(e.message, "required, auth, off"));
    assert_int_equal(security, GLI_SECURITY_REQUIRE);
  }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(digits_would_be_found),
      CASE(the_first_source_wins),
      CASE(a_bad_source_hides_those_after_it),
      CASE(an_empty_variable_is_none),
      CASE(options_have_16_to_64_bytes),
      CASE(digits_are_of_either_case),
      CASE(there_are_32_to_128_digits_in_pairs),
      CASE(what_is_no_digit_is_refused),
      CASE(one_newline_may_follow),
      CASE(a_file_of_more_than_4_kib_is_refused),
      CASE(what_others_may_read_or_write_is_refused),
      CASE(what_a_group_may_write_or_others_run_is_refused),
      CASE(what_is_no_regular_file_is_refused),
      CASE(links_to_a_mounted_file_are_followed),
      CASE(a_link_at_home_is_refused),
      CASE(a_home_may_have_none),
      CASE(a_secret_in_place_of_a_file_is_not_told),
      CASE(the_owner_is_this_user_or_root),
      CASE(a_file_of_root_may_be_read_by_its_group),
      CASE(a_home_of_another_user_has_none),
      CASE(releasing_wipes_all_of_it),
      CASE(how_much_is_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
