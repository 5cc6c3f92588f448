/* The choice of interfaces, the published addresses, and the order in which a
 * peer's addresses are tried. The interfaces are simulated: this machine need
 * not have them. */
#include <stdlib.h>

#include "harness.h"
#include "net/interfaces.h"
#include "net/published.h"

/* ---- interfaces of text -------------------------------------------------- */

enum { ENTRIES_MAX = 32 };
static gli_interface entries[ENTRIES_MAX];

/* Parses "eth0 10.0.0.2/24, !eth1 10.1.0.2/16", where the second is down. */
static gli_interfaces interfaces_of(const char *text) {
  static char copy[1024];
  gli_interfaces all = {0, entries};
  memset(entries, 0, sizeof entries);
  assert_true(strlen(text) < sizeof copy);
  memcpy(copy, text, strlen(text) + 1);
  for (char *at = strtok(copy, ","); at != NULL; at = strtok(NULL, ",")) {
    gli_interface *one = &entries[all.n++];
    char figures[64];
    int bits;
    one->up = strchr(at, '!') == NULL;
    assert_int_equal(
        sscanf(at, "%*[ !]%31s %63[^/]/%d", one->name, figures, &bits), 3);
    assert_true(gli_endpoint_from_text(figures, &one->at));
    if (one->at.any.sa_family == AF_INET6 &&
        gli_endpoint_is_link_local(&one->at))
      one->at.v6.sin6_scope_id = (uint32_t)(100 + all.n);
    one->prefix = (uint8_t)bits;
    one->loopback = gli_endpoint_is_loopback(&one->at);
    one->internal = gli_interface_name_is_internal(one->name);
  }
  return all;
}

/* Writes "10.0.0.2 fd00::2". */
static void text_of(const gli_endpoints *list, char *text, size_t room) {
  text[0] = '\0';
  for (uint32_t i = 0; i < list->n; i++) {
    char one[GLI_ENDPOINT_TEXT_BYTES];
    gli_endpoint at = list->at[i];
    gli_endpoint_set_port(&at, 0);
    gli_endpoint_text(&at, one);
    assert_true(strlen(text) + strlen(one) + 2 < room);
    if (i > 0) strcat(text, " ");
    strcat(text, one);
  }
}

#define HOST                                                                \
  " lo 127.0.0.1/8, lo ::1/128, eth0 10.0.0.2/24, eth0 fd00::2/64,"         \
  " eth0 fe80::2/64, eth1 10.1.0.2/16, eth1 fe80::3/64, eth10 10.2.0.2/16," \
  " !eth2 10.3.0.2/16, ib0 10.4.0.2/16, docker0 172.17.0.1/16,"             \
  " br-1234 172.18.0.1/16, virbr0 192.168.122.1/24, veth1 169.254.7.7/16"

/* ---- the grammar --------------------------------------------------------- */

static void assert_published(const char *host, const char *choice,
                             const char *towards, const char *expected) {
  gli_interfaces all = interfaces_of(host);
  gli_endpoint at;
  gli_publishing how = {.choice = choice, .origin = "a test"};
  gli_published published;
  gloo_error error;
  char text[512];
  if (towards != NULL) {
    assert_true(gli_endpoint_from_text(towards, &at));
    how.towards = &at;
  }
  if (gli_published_find(&how, &all, &published, &error) != GLOO_OK)
    fail_msg("%s: %s", choice, error.message);
  text_of(&published.own, text, sizeof text);
  if (strcmp(text, expected) != 0)
    fail_msg("%s, %s: \"%s\" instead of \"%s\"", choice, towards, text,
             expected);
  assert_memory_equal(&published.own, &published.told, sizeof published.told);
}

static void choices_mean_what_they_say(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"eth0", "10.0.0.2 fd00::2"},
      {"eth1", "10.1.0.2"}, /* not eth10 */
      {"eth", "10.0.0.2 fd00::2 10.1.0.2 10.2.0.2"},
      {"=eth1", "10.1.0.2"},
      {"ib,eth0", "10.4.0.2 10.0.0.2 fd00::2"},
      {" eth1 , eth0 ,", "10.1.0.2 10.0.0.2 fd00::2"},
      {"=ib0,docker0", "10.4.0.2 172.17.0.1"},
      {"docker", "172.17.0.1"},
      {"lo", "127.0.0.1 ::1"},
      {"10.0.0.0/8", "10.0.0.2 10.1.0.2 10.2.0.2 10.4.0.2"},
      {"10.1.0.0/16,fd00::/8", "10.1.0.2 fd00::2"},
      {"10.4.0.2", "10.4.0.2"},
      {"fd00::2", "fd00::2"},
      {"fe80::/10", "fe80::2%105 fe80::3%107"},
      {"0.0.0.0/0,lo",
       "127.0.0.1 10.0.0.2 10.1.0.2 10.2.0.2 10.4.0.2 172.17.0.1 172.18.0.1 "
       "192.168.122.1"},
      {"^eth0", "10.1.0.2 10.2.0.2 10.4.0.2"},
      {"^eth1", "10.0.0.2 fd00::2 10.4.0.2"}, /* and not eth10 */
      {"^=eth1", "10.0.0.2 fd00::2 10.2.0.2 10.4.0.2"},
      {"^lo,docker", "10.0.0.2 fd00::2 10.1.0.2 10.2.0.2 10.4.0.2"},
      {"^10.0.0.0/8", "fd00::2"},
      {"^eth,ib", "172.17.0.1 172.18.0.1 192.168.122.1"},
      {"^eth,ib,docker,br,virbr,veth", "127.0.0.1 ::1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_published(HOST, cases[i][0], NULL, cases[i][1]);
}

static void assert_no_choice(const char *choice, gloo_status status,
                             const char *part) {
  gli_interfaces all = interfaces_of(HOST);
  gli_publishing how = {.choice = choice, .origin = "a test"};
  gli_published published;
  gloo_error error;
  assert_int_equal(gli_published_find(&how, &all, &published, &error), status);
  if (strstr(error.message, part) == NULL)
    fail_msg("\"%s\" does not contain \"%s\"", error.message, part);
}

static void choices_that_leave_none_name_the_interfaces(void **state) {
  (void)state;
  assert_no_choice("wlan0", GLOO_ERR_NOT_FOUND,
                   "\"wlan0\" with an address (from a test)");
  assert_no_choice("wlan0", GLOO_ERR_NOT_FOUND, "eth0 10.0.0.2 fd00::2");
  assert_no_choice("wlan0", GLOO_ERR_NOT_FOUND, "eth2 10.3.0.2 (down)");
  assert_no_choice("eth2", GLOO_ERR_NOT_FOUND, "that is up");
  assert_no_choice("=eth", GLOO_ERR_NOT_FOUND, "\"=eth\"");
  assert_no_choice("192.0.2.0/24", GLOO_ERR_NOT_FOUND, "192.0.2.0/24");
  assert_no_choice("^0.0.0.0/0,::/0", GLOO_ERR_NOT_FOUND, "matches");
}

static void choices_that_make_no_sense_are_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "^", "=", ",", " , ", "eth0,^lo", "=eth0,=lo", "=^eth0", "10.0.0.0/33",
      "fe80::/129", "10.0.0/8", "eth0/24", "10.0.0.0/", "10.0.0.0/-1",
      "10.0.0.0/8x",
      /* 128 characters: too long for an alternative name, too */
      ("a-name-of-sixteen"
       "a-name-of-sixteen"
       "a-name-of-sixteen"
       "a-name-of-sixteen"
       "a-name-of-sixteen"
       "a-name-of-sixteen"
       "a-name-of-sixteen"
       "123456789")};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_no_choice(wrong[i], GLOO_ERR_INVALID, "from a test");
  char many[40 * 3 + 1] = "";
  for (int i = 0; i < 40; i++) strcat(many, "a0,");
  assert_no_choice(many, GLOO_ERR_INVALID, "too many");
}

/* ---- without a choice ---------------------------------------------------- */

static void what_reaches_the_store_comes_first(void **state) {
  (void)state;
  assert_published(HOST, NULL, NULL,
                   "10.0.0.2 fd00::2 10.1.0.2 10.2.0.2 10.4.0.2");
  assert_published(HOST, NULL, "10.4.0.2",
                   "10.4.0.2 10.0.0.2 fd00::2 10.1.0.2 10.2.0.2");
  assert_published(HOST, NULL, "fd00::2",
                   "fd00::2 10.0.0.2 10.1.0.2 10.2.0.2 10.4.0.2");
  assert_published(HOST, NULL, "172.17.0.1",
                   "172.17.0.1 10.0.0.2 fd00::2 10.1.0.2 10.2.0.2 10.4.0.2");
  assert_published(HOST, NULL, "127.0.0.1", "127.0.0.1");
  assert_published(HOST, "^eth1", "10.4.0.2", "10.4.0.2 10.0.0.2 fd00::2");
  assert_published(HOST, "^ib", "10.4.0.2",
                   "10.0.0.2 fd00::2 10.1.0.2 10.2.0.2");
  assert_published(HOST, "eth0", "10.4.0.2", "10.0.0.2 fd00::2");
}

/* Without better interfaces the odd ones are used, in this order. */
static void odd_interfaces_do_where_there_are_no_others(void **state) {
  (void)state;
  assert_published(" lo 127.0.0.1/8, veth0 10.9.0.2/24, veth0 fe80::1/64", NULL,
                   NULL, "10.9.0.2");
  assert_published(" lo 127.0.0.1/8, eth0 fe80::1/64", NULL, NULL,
                   "fe80::1%102");
  assert_published(" lo 127.0.0.1/8, lo ::1/128, !eth0 10.0.0.1/8", NULL, NULL,
                   "127.0.0.1 ::1");
  assert_published(" !eth0 10.0.0.1/8", NULL, NULL, "");
}

static void no_more_are_published_than_fit(void **state) {
  (void)state;
  char host[1024] = "";
  for (int i = 1; i <= 20; i++)
    (void)snprintf(host + strlen(host), sizeof host - strlen(host),
                   "%s eth%d 10.%d.0.1/16", i > 1 ? "," : "", i, i);
  assert_published(host, NULL, "10.20.0.1",
                   "10.20.0.1 10.1.0.1 10.2.0.1 10.3.0.1 10.4.0.1 10.5.0.1 "
                   "10.6.0.1 10.7.0.1");
}

/* ---- the order ----------------------------------------------------------- */

static void assert_order(const char *host, const gli_tcp_contact *of,
                         uint64_t place, const char *published,
                         const char *expected) {
  gli_interfaces own = interfaces_of(host);
  gli_tcp_contact contact = *of;
  gli_endpoints order;
  char copy[512], text[512];
  contact.n = 0;
  contact.port = 4711;
  memcpy(copy, published, strlen(published) + 1);
  for (char *at = strtok(copy, " "); at != NULL; at = strtok(NULL, " ")) {
    assert_true(gli_endpoint_from_text(at, &contact.at[contact.n]));
    gli_endpoint_set_port(&contact.at[contact.n++], contact.port);
  }
  gli_tcp_order(&contact, place, &own, &order);
  text_of(&order, text, sizeof text);
  if (strcmp(text, expected) != 0)
    fail_msg("%s: \"%s\" instead of \"%s\"", published, text, expected);
}

static void nearest_addresses_are_tried_first(void **state) {
  (void)state;
  const gli_tcp_contact there = {.place = 1};
  static const char *const cases[][2] = {
      /* as published, if there is no reason to change the order */
      {"203.0.113.5 198.51.100.7", "203.0.113.5 198.51.100.7"},
      {"10.0.0.9 10.1.0.9", "10.0.0.9 10.1.0.9"},
      {"10.1.0.9 10.0.0.9", "10.1.0.9 10.0.0.9"},
      /* addresses in a network of ours before others */
      {"203.0.113.5 10.1.7.9", "10.1.7.9 203.0.113.5"},
      {"203.0.113.5 fd00::9", "fd00::9 203.0.113.5"},
      {"10.3.0.9 203.0.113.5", "10.3.0.9 203.0.113.5"}, /* eth2 is down */
      /* addresses of our site before others, the nearer the better */
      {"10.99.0.9 10.0.77.9 10.0.1.9", "10.0.1.9 10.0.77.9 10.99.0.9"},
      {"203.0.113.5 2001:db8::1", "203.0.113.5 2001:db8::1"},
      /* addresses that this host has too, and loopback, last */
      {"172.17.0.1 203.0.113.5", "203.0.113.5 172.17.0.1"},
      {"127.0.0.1 10.0.0.9", "10.0.0.9 127.0.0.1"},
      /* the network of our containers is not the peer's */
      {"203.0.113.5 172.17.0.9", "203.0.113.5 172.17.0.9"},
      /* link-local addresses on every interface that they may belong to */
      {"fe80::9 203.0.113.5", "203.0.113.5 fe80::9%105 fe80::9%107"},
      {"169.254.1.1 203.0.113.5", "203.0.113.5 169.254.1.1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_order(HOST, &there, 2, cases[i][0], cases[i][1]);
  assert_order(" lo 127.0.0.1/8, eth0 10.0.0.2/24, eth0 fe80::2/64", &there, 2,
               "2001:db8::1 203.0.113.5", "203.0.113.5 2001:db8::1");
  assert_order(" lo 127.0.0.1/8, eth0 10.0.0.2/24", &there, 2, "fe80::9",
               "fe80::9"); /* fails, and the error names it */
}

static void what_is_published_for_others_is_believed(void **state) {
  (void)state;
  const gli_tcp_contact there = {.place = 1, .translated = true};
  assert_order(HOST, &there, 2, "127.0.0.1 203.0.113.5",
               "127.0.0.1 203.0.113.5");
}

static void ranks_of_one_place_stay_there(void **state) {
  (void)state;
  gli_tcp_contact here = {.place = 2};
  assert_order(HOST, &here, 2, "10.1.0.2 10.0.0.2", "10.1.0.2 10.0.0.2");
  assert_order(HOST, &here, 2, "fe80::3", "fe80::3%107");
  assert_order(HOST, &here, 2, "203.0.113.5 127.0.0.1",
               "127.0.0.1 203.0.113.5");
  here.translated = here.everywhere = true;
  assert_order(HOST, &here, 2, "203.0.113.5", "127.0.0.1 203.0.113.5");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(choices_mean_what_they_say),
      cmocka_unit_test(choices_that_leave_none_name_the_interfaces),
      cmocka_unit_test(choices_that_make_no_sense_are_refused),
      cmocka_unit_test(what_reaches_the_store_comes_first),
      cmocka_unit_test(odd_interfaces_do_where_there_are_no_others),
      cmocka_unit_test(no_more_are_published_than_fit),
      cmocka_unit_test(nearest_addresses_are_tried_first),
      cmocka_unit_test(what_is_published_for_others_is_believed),
      cmocka_unit_test(ranks_of_one_place_stay_there),
  };
  unsetenv("GLOO_SOCKET_IFNAME");
  unsetenv("GLOO_PUBLISH_ADDR");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
