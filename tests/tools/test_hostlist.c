/* The hosts of `gloo run`: their syntax, and the ranks of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants those above first */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run_hostlist.h"

/* Writes hosts as "user@name/port*slots " each. */
static const char *list_text(const gli_run_hosts *hosts) {
  static char text[4096];
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < hosts->n; i++) {
    const gli_run_host *h = &hosts->list[i];
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s/%d*%d",
                             i > 0 ? " " : "", h->user,
                             h->user[0] != '\0' ? "@" : "", h->port, h->slots);
    used += (size_t)snprintf(text + used, sizeof text - used, "=%s", h->name);
  }
  return text;
}

static void assert_hosts(const char *list, const char *expected) {
  gli_run_hosts hosts = {0};
  gloo_error error = {.message = ""};
  if (!gli_run_hosts_parse(list, &hosts, &error))
    fail_msg("%s: %s", list, error.message);
  assert_string_equal(list_text(&hosts), expected);
  gli_run_hosts_free(&hosts);
}

static void assert_bad(const char *list, const char *part) {
  gli_run_hosts hosts = {0};
  gloo_error error = {.message = ""};
  assert_false(gli_run_hosts_parse(list, &hosts, &error));
  if (strstr(error.message, part) == NULL)
    fail_msg("%s: '%s' lacks '%s'", list, error.message, part);
  gli_run_hosts_free(&hosts);
}

static void hosts_have_slots_users_and_ports(void **state) {
  (void)state;
  assert_hosts("a", "/0*0=a");
  assert_hosts("a:4,b:2", "/0*4=a /0*2=b");
  assert_hosts("u@a", "u@/0*0=a");
  assert_hosts("u@a:2222", "u@/2222*0=a");
  assert_hosts("u@a:2222:3", "u@/2222*3=a");
  assert_hosts("a:2222:3", "/2222*3=a");
  assert_hosts("[fd00::1]:4", "/0*4=fd00::1");
  assert_hosts("[fe80::1%eth0]", "/0*0=fe80::1%eth0");
  assert_hosts("u@[::1]:22:1", "u@/22*1=::1");
  assert_hosts("10.0.0.1:16384", "/0*16384=10.0.0.1");
}

static void equal_hosts_add_up(void **state) {
  (void)state;
  assert_hosts("a:2,b:1,a:3", "/0*5=a /0*1=b");
  assert_hosts("a,a:3", "/0*4=a");
  assert_hosts("a:3,a", "/0*4=a");
  assert_hosts("a,u@a", "/0*0=a u@/0*0=a");
  assert_bad("a:16384,a:1", "more than 16384 slots");
}

static void faults_are_named(void **state) {
  (void)state;
  assert_bad("", "'' is not a host name");
  assert_bad("a,", "'' is not a host name");
  assert_bad("a,,b", "'' is not a host name");
  assert_bad("-oX", "'-oX' is not a host name");
  assert_bad("u@-oX", "'u@-oX' is not a host name");
  assert_bad("-u@a", "with a user");
  assert_bad("@a", "with a user");
  assert_bad("a b", "is not a host name");
  assert_bad("a;b", "is not a host name");
  assert_bad("$(a)", "is not a host name");
  assert_bad("a:", "with slots");
  assert_bad("a:x", "with slots");
  assert_bad("a:0", "with slots");
  assert_bad("a:-1", "with slots");
  assert_bad("a:16385", "with slots");
  assert_bad("a:99999999999999999999", "with slots");
  assert_bad("u@a:70000", "with slots");
  assert_bad("a:22:0", "with slots");
  assert_bad("a:1:2:3", "with slots");
  assert_bad("fd00::1", "in brackets");
  assert_bad("fd00:1:2:3:4:5:6:7", "in brackets");
  assert_bad("[fd00::1", "in brackets");
  assert_bad("[a]", "in brackets");
  assert_bad("[]", "in brackets");
  assert_bad("[::1]x", "with slots");
}

static void a_list_has_at_most_4096_hosts(void **state) {
  (void)state;
  const size_t room = 4097 * 8;
  char *text = calloc(1, room);
  assert_non_null(text);
  size_t used = 0;
  for (int i = 0; i < 4096; i++)
    used += (size_t)snprintf(text + used, room - used, "%sh%d",
                             i > 0 ? "," : "", i);
  gli_run_hosts hosts = {0};
  assert_true(gli_run_hosts_parse(text, &hosts, NULL));
  assert_int_equal(hosts.n, 4096);
  gloo_error error;
  assert_false(gli_run_hosts_parse("more", &hosts, &error));
  assert_non_null(strstr(error.message, "at most 4096 hosts"));
  gli_run_hosts_free(&hosts);
  free(text);
}

/* ---- files --------------------------------------------------------------- */

static bool read_text(const char *text, gli_run_hosts *hosts,
                      gloo_error *error) {
  char path[] = "/tmp/gloo_c-hostfile-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
  bool good = gli_run_hosts_read(path, hosts, error);
  unlink(path);
  return good;
}

static void files_have_both_syntaxes(void **state) {
  (void)state;
  gli_run_hosts hosts = {0};
  gloo_error error = {.message = ""};
  assert_true(
      read_text("# of the cluster\n"
                "a slots=4 max_slots=8 # fast\n"
                "\n"
                "  b:2\r\n"
                "c max-slots=3\n"
                "d slots=9 max_slots=5\n"
                "u@e:2222 slots=7\n"
                "[fd00::1] slots=2",
                &hosts, &error));
  assert_string_equal(list_text(&hosts),
                      "/0*4=a /0*2=b /0*3=c /0*5=d u@/2222*7=e /0*2=fd00::1");
  gli_run_hosts_free(&hosts);
}

static void assert_bad_file(const char *text, const char *part) {
  gli_run_hosts hosts = {0};
  gloo_error error = {.message = ""};
  assert_false(read_text(text, &hosts, &error));
  if (strstr(error.message, part) == NULL)
    fail_msg("'%s' lacks '%s'", error.message, part);
  gli_run_hosts_free(&hosts);
}

static void faults_of_files_have_a_line(void **state) {
  (void)state;
  assert_bad_file("a\nb slot=4\n", "line 2: 'slot=4' is not a setting");
  assert_bad_file("a slots=0\n", "line 1: 'slots=0' is not a setting");
  assert_bad_file("a slots=\n", "line 1: 'slots=' is not");
  assert_bad_file("a\n\n-x\n", "line 3: '-x' is not a host name");
  assert_bad_file("# none\n", "has no hosts");
  char line[1200];
  memset(line, 'a', sizeof line);
  line[sizeof line - 1] = '\0';
  assert_bad_file(line, "line 1: the line has more than 1022");
  gli_run_hosts hosts = {0};
  gloo_error error;
  assert_false(gli_run_hosts_read("/nonexistent", &hosts, &error));
  assert_non_null(strstr(error.message, "cannot open /nonexistent"));
}

/* ---- placement ----------------------------------------------------------- */

/* Places ranks, and writes them as "name:first+ranks " each, or the error. */
static const char *placed(const char *list, int ppn, int ranks) {
  static char text[1024];
  gli_run_hosts hosts = {0};
  gloo_error error = {.message = ""};
  assert_true(gli_run_hosts_parse(list, &hosts, &error));
  if (gli_run_hosts_place(&hosts, ppn, &ranks, &error)) {
    size_t used = (size_t)snprintf(text, sizeof text, "%d:", ranks);
    for (int i = 0; i < hosts.n; i++) {
      const gli_run_host *h = &hosts.list[i];
      used += (size_t)snprintf(text + used, sizeof text - used, " %s=%d+%d",
                               h->name, h->first, h->ranks);
      for (int rank = h->first; rank < h->first + h->ranks; rank++)
        assert_int_equal(gli_run_hosts_of(&hosts, rank), i);
    }
  } else {
    snprintf(text, sizeof text, "%s", error.message);
  }
  gli_run_hosts_free(&hosts);
  return text;
}

static void ranks_are_placed_by_slots_or_evenly(void **state) {
  (void)state;
  assert_string_equal(placed("a,b", 0, 5), "5: a=0+3 b=3+2");
  assert_string_equal(placed("a:4,b:2", 0, 0), "6: a=0+4 b=4+2");
  assert_string_equal(placed("a:4,b:2", 0, 5), "5: a=0+4 b=4+1");
  assert_string_equal(placed("a:4,b:2", 0, 3), "3: a=0+3");
  assert_string_equal(placed("a,b:2", 0, 0), "3: a=0+1 b=1+2");
  assert_string_equal(placed("a,b,a", 0, 0), "3: a=0+2 b=2+1");
  assert_string_equal(placed("a,b", 3, 0), "6: a=0+3 b=3+3");
  assert_string_equal(placed("a:1,b:1", 3, 4), "4: a=0+3 b=3+1");
}

static void ranks_without_room_are_refused(void **state) {
  (void)state;
  assert_non_null(
      strstr(placed("a:4,b:2", 0, 7), "7 ranks exceed the 6 slots of 2 hosts"));
  assert_non_null(strstr(placed("a:4,b:2", 0, 7), "--ppn"));
  assert_non_null(strstr(placed("a,b", 1, 3), "3 ranks exceed the 2 slots"));
  assert_non_null(strstr(placed("a,b", 0, 1), "1 rank cannot run on 2 hosts"));
  assert_non_null(strstr(placed("a,b", 0, 0), "option -n is required"));
  assert_non_null(strstr(placed("a:16384,b:1", 0, 0), "16385 slots"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hosts_have_slots_users_and_ports),
      cmocka_unit_test(equal_hosts_add_up),
      cmocka_unit_test(faults_are_named),
      cmocka_unit_test(a_list_has_at_most_4096_hosts),
      cmocka_unit_test(files_have_both_syntaxes),
      cmocka_unit_test(faults_of_files_have_a_line),
      cmocka_unit_test(ranks_are_placed_by_slots_or_evenly),
      cmocka_unit_test(ranks_without_room_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
