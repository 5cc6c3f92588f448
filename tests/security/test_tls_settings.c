/* TLS options and variables, and the files that they name: invalid values,
 * passwords, and files that change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gloo_c/gloo_c.h"
#include "pki.h"
#include "tls_ends.h"

static const char *folder, *hashed;
static pki_authority *authority, *other_authority;
static char ca[80], rank0[80], rank1[80], cert[80], key[80], locked[80];

static int set_up_files(void **state) {
  (void)state;
  gloo_log_set_level(GLOO_LOG_OFF);
  folder = pki_folder();
  hashed = pki_folder();
  snprintf(ca, sizeof ca, "%s/ca.pem", folder);
  snprintf(rank0, sizeof rank0, "%s/rank0.pem", folder);
  snprintf(rank1, sizeof rank1, "%s/rank1.pem", folder);
  snprintf(cert, sizeof cert, "%s/alone.pem", folder);
  snprintf(key, sizeof key, "%s/alone.key", folder);
  snprintf(locked, sizeof locked, "%s/locked.pem", folder);
  authority = pki_authority_new("the authority");
  other_authority = pki_authority_new("another authority");
  pki_authority_write(authority, ca);
  pki_authority_write_hashed(authority, hashed);
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/0"}, rank0, NULL);
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/1"}, rank1, NULL);
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/2"}, cert, key);
  pki_issue(authority,
            &(pki_paper){.names = "URI:gloo:rank/3", .password = "open sesame"},
            locked, NULL);
  return 0;
}

static int tear_down_files(void **state) {
  (void)state;
  pki_authority_free(authority);
  pki_authority_free(other_authority);
  pki_folder_remove(folder);
  pki_folder_remove(hashed);
  return 0;
}

static int forget(void **state) {
  (void)state;
  ends_forget_environment();
  return 0;
}

static gloo_tls_options options_of(const char *certificate, const char *its_key,
                                   const char *its_authority) {
  gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  o.use = 1;
  o.certificate = certificate;
  o.key = its_key;
  o.authority = its_authority;
  return o;
}

/* Fails unless the message contains both texts (`second` may be NULL) and no
 * settings are created. */
static void assert_refused(const gloo_tls_options *o, gloo_status status,
                           const char *first, const char *second) {
  gloo_error e = {.status = GLOO_OK};
  gli_tls_settings *settings = NULL;
  if (gli_tls_settings_read(o, &settings, &e) != status ||
      strstr(e.message, first) == NULL ||
      (second != NULL && strstr(e.message, second) == NULL))
    fail_msg("%s: %s", gloo_status_string(e.status), e.message);
  assert_null(settings);
}

/* ---- kind of authentication ---------------------------------------------- */

static gli_tls_kind kind_of(const gloo_tls_options *o) {
  gli_tls_settings *settings = NULL;
  gloo_error e;
  if (gli_tls_settings_read(o, &settings, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  gli_tls_kind kind = gli_tls_settings_kind(settings);
  gli_tls_settings_release(settings);
  return kind;
}

static void options_and_variables_say_whether(void **state) {
  gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  (void)state;
  assert_int_equal(kind_of(NULL), GLI_TLS_NONE);
  assert_int_equal(kind_of(&o), GLI_TLS_NONE);
  setenv("GLOO_TLS", "1", 1);
  assert_int_equal(kind_of(NULL), GLI_TLS_BY_SECRET);
  assert_int_equal(kind_of(&o), GLI_TLS_BY_SECRET);
  o.use = -1;
  assert_int_equal(kind_of(&o), GLI_TLS_NONE);
  setenv("GLOO_TLS", "0", 1);
  assert_int_equal(kind_of(NULL), GLI_TLS_NONE);
  o.use = 1;
  assert_int_equal(kind_of(&o), GLI_TLS_BY_SECRET);
  setenv("GLOO_TLS", "", 1);
  assert_int_equal(kind_of(NULL), GLI_TLS_NONE);
  setenv("GLOO_TLS_CERTIFICATE", cert, 1);
  setenv("GLOO_TLS_KEY", key, 1);
  setenv("GLOO_TLS_AUTHORITY", ca, 1);
  assert_int_equal(kind_of(NULL), GLI_TLS_NONE);
  assert_int_equal(kind_of(&o), GLI_TLS_BY_CERTIFICATE);
  setenv("GLOO_TLS", "1", 1);
  assert_int_equal(kind_of(NULL), GLI_TLS_BY_CERTIFICATE);
  /* An option takes precedence over the variable. */
  o.key = rank0;
  assert_refused(&o, GLOO_ERR_INVALID, rank0, cert);
}

static void words_that_make_no_sense_are_refused(void **state) {
  gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  (void)state;
  setenv("GLOO_TLS", "2", 1);
  assert_refused(NULL, GLOO_ERR_INVALID, "GLOO_TLS is '2'", "0 or 1");
  setenv("GLOO_TLS", "yes", 1);
  assert_refused(NULL, GLOO_ERR_INVALID, "GLOO_TLS is 'yes'", "0 or 1");
  o.struct_size = 3;
  assert_refused(&o, GLOO_ERR_INVALID, "gloo_tls_options", NULL);
}

static void half_of_what_it_takes_is_refused(void **state) {
  gloo_tls_options o = options_of(NULL, key, NULL);
  (void)state;
  assert_refused(&o, GLOO_ERR_INVALID, "a key is set",
                 "set GLOO_TLS_CERTIFICATE");
  o = options_of(NULL, NULL, NULL);
  o.name = "node";
  assert_refused(&o, GLOO_ERR_INVALID, "a name is set",
                 "set GLOO_TLS_CERTIFICATE");
  o = options_of(rank0, NULL, NULL);
  assert_refused(&o, GLOO_ERR_INVALID, rank0, "GLOO_TLS_AUTHORITY");
}

static void a_secret_or_a_certificate_is_needed(void **state) {
  gloo_error e;
  (void)state;
  assert_int_equal(gli_tls_suffices(GLI_TLS_BY_SECRET, false, &e),
                   GLOO_ERR_AUTH);
  assert_non_null(strstr(e.message, "GLOO_JOB_SECRET"));
  assert_non_null(strstr(e.message, "GLOO_TLS_CERTIFICATE"));
  assert_int_equal(gli_tls_suffices(GLI_TLS_BY_SECRET, true, &e), GLOO_OK);
  assert_int_equal(gli_tls_suffices(GLI_TLS_BY_CERTIFICATE, false, &e),
                   GLOO_OK);
  assert_int_equal(gli_tls_suffices(GLI_TLS_NONE, false, &e), GLOO_OK);
}

/* Messages are not truncated. */
static void differences_are_told_in_full(void **state) {
  (void)state;
  for (int own = 0; own <= GLI_TLS_BY_CERTIFICATE; own++) {
    for (int other = 0; other <= GLI_TLS_BY_CERTIFICATE; other++) {
      gli_tls_text differs =
          gli_tls_differs((gli_tls_kind)own, (gli_tls_kind)other);
      size_t bytes = strlen(differs.text);
      assert_true(bytes > 12);
      assert_string_equal(differs.text + bytes - 12, "on all ranks");
    }
  }
}

/* ---- files --------------------------------------------------------------- */

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void bad_files_are_named(void **state) {
  char absent[96], broken[96], empty[96], rsa[96];
  (void)state;
  snprintf(absent, sizeof absent, "%s/absent.pem", folder);
  snprintf(broken, sizeof broken, "%s/broken.pem", folder);
  snprintf(empty, sizeof empty, "%s/empty.pem", folder);
  snprintf(rsa, sizeof rsa, "%s/rsa.pem", folder);
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/1", .rsa = 1}, rsa,
            NULL);
  write_text(broken,
             "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  write_text(empty, "");
  const struct {
    gloo_tls_options o;
    gloo_status status;
    const char *first, *second;
  } cases[] = {
      {options_of(absent, NULL, ca), GLOO_ERR_IO, absent, "No such file"},
      {options_of(rank0, absent, ca), GLOO_ERR_IO, absent, "No such file"},
      {options_of(rank0, NULL, absent), GLOO_ERR_IO, absent, "No such file"},
      {options_of(broken, rank0, ca), GLOO_ERR_INVALID, broken, "expected PEM"},
      {options_of(rank0, broken, ca), GLOO_ERR_INVALID, broken, "expected PEM"},
      {options_of(rank0, NULL, broken), GLOO_ERR_INVALID, broken,
       "expected PEM"},
      {options_of(empty, rank0, ca), GLOO_ERR_INVALID, empty, "expected PEM"},
      {options_of(rank0, empty, ca), GLOO_ERR_INVALID, empty, "expected PEM"},
      {options_of(rank0, NULL, empty), GLOO_ERR_INVALID, empty, "expected PEM"},
      {options_of(cert, NULL, ca), GLOO_ERR_INVALID, cert, "key"},
      {options_of(key, key, ca), GLOO_ERR_INVALID, key, "certificate"},
      {options_of(rank0, rank1, ca), GLOO_ERR_INVALID, rank1,
       "does not match the certificate"},
      {options_of(rank0, rsa, ca), GLOO_ERR_INVALID, rsa,
       "does not match the certificate"},
      {options_of(folder, rank1, ca), GLOO_ERR_IO, folder, "directory"},
      {options_of(rank0, folder, ca), GLOO_ERR_IO, folder, "directory"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_refused(&cases[i].o, cases[i].status, cases[i].first,
                   cases[i].second);
}

/* All functions with these options report the same error and create nothing. */
static void devices_and_stores_say_the_same(void **state) {
  gloo_tls_options o = options_of("/absent.pem", NULL, ca);
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_device *device = NULL;
  gloo_error e;
  (void)state;
  d.transport = "tcp";
  d.tls = &o;
  assert_int_equal(gloo_device_create(&d, &device, &e), GLOO_ERR_IO);
  assert_non_null(strstr(e.message, "/absent.pem"));
  assert_null(device);
  for (int serve = 0; serve < 2; serve++) {
    gloo_store_tcp_options s = GLOO_STORE_TCP_OPTIONS_INIT;
    gloo_store *store = NULL;
    s.host = "127.0.0.1";
    s.port = serve ? 0 : 9;
    s.serve = serve;
    s.tls = &o;
    o.certificate = "/absent.pem";
    assert_int_equal(gloo_store_tcp_create(&s, &store, &e), GLOO_ERR_IO);
    assert_non_null(strstr(e.message, "/absent.pem"));
    o.certificate = o.authority = NULL; /* and no secret is set */
    assert_int_equal(gloo_store_tcp_create(&s, &store, &e), GLOO_ERR_AUTH);
    assert_null(store);
    o.authority = ca;
  }
}

/* ---- passwords ----------------------------------------------------------- */

typedef struct told {
  const char *text; /* NULL: the password is unknown */
  int asked;
  int returns; /* result in place of the length, unless 0 */
} told;

static int tell(void *user, char *text, size_t room) {
  told *t = user;
  t->asked++;
  if (t->text == NULL) return -1;
  size_t bytes = strlen(t->text);
  if (bytes > room) bytes = room;
  memcpy(text, t->text, bytes); /* without a terminating 0 */
  return t->returns != 0 ? t->returns : (int)bytes;
}

static void keys_with_a_password_ask_for_it(void **state) {
  told t = {.text = "open sesame"};
  gloo_tls_options o = options_of(locked, NULL, ca);
  (void)state;
  o.password = tell;
  o.user = &t;
  assert_int_equal(kind_of(&o), GLI_TLS_BY_CERTIFICATE);
  assert_int_equal(t.asked, 1);
  t.text = "open barley";
  assert_refused(&o, GLOO_ERR_INVALID, locked, "password");
  t.text = "";
  assert_refused(&o, GLOO_ERR_INVALID, locked, "password");
  t.text = NULL;
  assert_refused(&o, GLOO_ERR_INVALID, locked, "password");
  t = (told){.text = "open sesame", .returns = 1000000};
  assert_refused(&o, GLOO_ERR_INVALID, locked, "password");
  o.certificate = rank0; /* its key has no password */
  t = (told){.text = NULL};
  assert_int_equal(kind_of(&o), GLI_TLS_BY_CERTIFICATE);
  assert_int_equal(t.asked, 0);
}

/* The terminal has no user. */
static void without_anybody_to_ask_it_is_an_error(void **state) {
  gloo_tls_options o = options_of(locked, NULL, ca);
  (void)state;
  assert_refused(&o, GLOO_ERR_INVALID, locked, "has a password");
}

/* ---- authorities --------------------------------------------------------- */

static bool connects(gli_tls_settings *here, gli_tls_settings *there) {
  tls_ends ends = ends_open(here, there, NULL, NULL);
  bool done = ends_shake_hands(&ends);
  ends_close(&ends);
  return done;
}

static void a_directory_of_authorities_will_do(void **state) {
  gli_tls_settings *by_file = ends_by_certificate(rank0, ca);
  gli_tls_settings *by_folder = ends_by_certificate(rank1, hashed);
  (void)state;
  assert_true(connects(by_file, by_folder));
  assert_true(connects(by_folder, by_file));
  gli_tls_settings_release(by_folder);
  /* A folder without that authority. */
  by_folder = ends_by_certificate(rank1, folder);
  assert_false(connects(by_file, by_folder));
  gli_tls_settings_release(by_folder);
  gli_tls_settings_release(by_file);
}

/* ---- files that change --------------------------------------------------- */

static int warned;

static void count_warnings(gloo_log_level level, const char *line, void *user) {
  (void)user;
  (void)line;
  if (level == GLOO_LOG_WARN) warned++;
}

/* Returns the rank in the certificate of a new connection, or -1. */
static int rank_shown(gli_tls_settings *looks, gli_tls_settings *shows) {
  static const uint32_t ranks[] = {1, 10, 11, 12};
  int shown = -1;
  for (int i = 0; i < 4 && shown < 0; i++) {
    tls_ends ends = ends_open(looks, shows, NULL, NULL);
    gli_tls_expect_rank(ends.end[HERE].tls, ranks[i], NULL, 0);
    if (ends_shake_hands(&ends)) shown = (int)ranks[i];
    ends_close(&ends);
  }
  return shown;
}

static void replace(const char *path, const char *by) {
  assert_int_equal(rename(by, path), 0);
}

static void files_that_change_are_read_again(void **state) {
  char its[96], its_key[96], next[96], next_key[96];
  (void)state;
  snprintf(its, sizeof its, "%s/its.pem", folder);
  snprintf(its_key, sizeof its_key, "%s/its.key", folder);
  snprintf(next, sizeof next, "%s/next.pem", folder);
  snprintf(next_key, sizeof next_key, "%s/next.key", folder);
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/10"}, its, its_key);
  gloo_tls_options o = options_of(its, its_key, ca);
  gli_tls_settings *looks = ends_by_certificate(rank0, ca);
  gli_tls_settings *shows = ends_settings(&o);
  gloo_log_set_sink(count_warnings, NULL);
  gloo_log_set_level(GLOO_LOG_WARN);
  warned = 0;
  tls_ends old = ends_open(looks, shows, NULL, NULL);
  gli_tls_expect_rank(old.end[HERE].tls, 10, NULL, 0);
  assert_int_equal(rank_shown(looks, shows), 10);
  /* The files are replaced one after the other, and do not match in between. */
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/11"}, next,
            next_key);
  replace(its, next);
  for (int i = 0; i < 3; i++) assert_int_equal(rank_shown(looks, shows), 10);
  assert_int_equal(warned, 1);
  replace(its_key, next_key);
  assert_int_equal(rank_shown(looks, shows), 11);
  assert_int_equal(warned, 1);
  /* An invalid certificate, then a missing file. */
  write_text(its, "no certificate");
  for (int i = 0; i < 3; i++) assert_int_equal(rank_shown(looks, shows), 11);
  assert_int_equal(warned, 2);
  assert_int_equal(unlink(its), 0);
  for (int i = 0; i < 3; i++) assert_int_equal(rank_shown(looks, shows), 11);
  assert_int_equal(warned, 3);
  pki_issue(authority, &(pki_paper){.names = "URI:gloo:rank/12"}, its, its_key);
  assert_int_equal(rank_shown(looks, shows), 12);
  /* An existing connection keeps its certificate. */
  assert_true(ends_shake_hands(&old));
  ends_close(&old);
  assert_int_equal(warned, 3);
  gloo_log_set_level(GLOO_LOG_OFF);
  gloo_log_set_sink(NULL, NULL);
  gli_tls_settings_release(looks);
  gli_tls_settings_release(shows);
}

static void an_authority_that_changes_is_read_again(void **state) {
  char its[96], next[96], other[96];
  (void)state;
  snprintf(its, sizeof its, "%s/its_ca.pem", folder);
  snprintf(next, sizeof next, "%s/next_ca.pem", folder);
  snprintf(other, sizeof other, "%s/other.pem", folder);
  pki_authority_write(authority, its);
  pki_issue(other_authority, &(pki_paper){.names = "URI:gloo:rank/1"}, other,
            NULL);
  gli_tls_settings *looks = ends_by_certificate(rank0, its);
  gli_tls_settings *shows = ends_by_certificate(other, ca);
  assert_int_equal(rank_shown(looks, shows), -1);
  pki_authority_write(other_authority, next);
  replace(its, next);
  assert_int_equal(rank_shown(looks, shows), 1);
  gli_tls_settings_release(looks);
  gli_tls_settings_release(shows);
}

#define TEST(name) cmocka_unit_test_setup(name, forget)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(options_and_variables_say_whether),
      TEST(words_that_make_no_sense_are_refused),
      TEST(half_of_what_it_takes_is_refused),
      TEST(a_secret_or_a_certificate_is_needed),
      TEST(differences_are_told_in_full),
      TEST(bad_files_are_named),
      TEST(devices_and_stores_say_the_same),
      TEST(keys_with_a_password_ask_for_it),
      TEST(without_anybody_to_ask_it_is_an_error),
      TEST(a_directory_of_authorities_will_do),
      TEST(files_that_change_are_read_again),
      TEST(an_authority_that_changes_is_read_again),
  };
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  unsetenv("GLOO_SECURITY");
  setenv("HOME", "/nowhere", 1); /* a real home directory may hold a secret */
  return cmocka_run_group_tests(tests, set_up_files, tear_down_files);
}
