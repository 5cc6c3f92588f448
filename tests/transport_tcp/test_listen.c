/* The addresses that an end point listens on, and the errors if it cannot. */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "harness.h"
#include "net/socket.h"

static gloo_status try_open(const gli_transport_config *config,
                            gli_transport **t, gloo_error *error) {
  static const gli_upcalls none;
  gli_transport_config with = *config;
  with.upcalls = &none;
  if (with.streams == 0) with.streams = 1;
  *t = NULL;
  return gli_transport_tcp.open(&with, t, error);
}

static void assert_refused(const gli_transport_config *config,
                           gloo_status status, const char *part) {
  gli_transport *t;
  gloo_error error;
  assert_int_equal(try_open(config, &t, &error), status);
  assert_null(t);
  assert_int_equal(error.status, status);
  if (strstr(error.message, part) == NULL)
    fail_msg("\"%s\" does not contain \"%s\"", error.message, part);
}

/* Writes the address as text: "127.0.0.1:4242". */
static void open_and_tell(const gli_transport_config *config,
                          char text[GLI_ENDPOINT_TEXT_BYTES]) {
  gli_transport *t;
  gloo_error error;
  if (try_open(config, &t, &error) != GLOO_OK) fail_msg("%s", error.message);
  gli_endpoint at = har_listens_at(t);
  gli_endpoint_text(&at, text);
  gli_transport_tcp.close(t);
}

static void ranks_of_one_host_listen_on_loopback_alone(void **state) {
  (void)state;
  char text[GLI_ENDPOINT_TEXT_BYTES];
  open_and_tell(&(gli_transport_config){.towards = "127.0.0.1"}, text);
  assert_true(strncmp(text, "127.0.0.1:", 10) == 0 ||
              strncmp(text, "[::1]:", 6) == 0);
}

/* On any machine the first address is one of its own, and not loopback if it
 * has another. */
static void default_is_what_others_reach(void **state) {
  (void)state;
  gli_interfaces own;
  gli_transport *t;
  gloo_error error;
  assert_int_equal(gli_interfaces_read(&own, &error), GLOO_OK);
  bool others = false;
  for (size_t i = 0; i < own.n; i++)
    others = others || (own.list[i].up && !own.list[i].loopback);
  assert_int_equal(try_open(&(gli_transport_config){0}, &t, &error), GLOO_OK);
  gli_endpoint first = har_listens_at(t);
  const gli_interface *one = gli_interfaces_find(&own, &first);
  assert_true(others ? one != NULL && !one->loopback
                     : gli_endpoint_is_loopback(&first));
  gli_transport_tcp.close(t);
  gli_interfaces_free(&own);
}

/* ---- variables ----------------------------------------------------------- */

static void ports_are_of_the_range(void **state) {
  (void)state;
  gli_transport *taken[3];
  gloo_error error;
  gli_transport_config config = {.host = "127.0.0.1"};
  bool seen[3] = {false, false, false};
  setenv("GLOO_PORT_RANGE", "28731-28733", 1);
  for (int i = 0; i < 3; i++) {
    if (try_open(&config, &taken[i], &error) != GLOO_OK)
      fail_msg("%s", error.message);
    gli_endpoint at = har_listens_at(taken[i]);
    int which = gli_endpoint_port(&at) - 28731;
    assert_in_range(which, 0, 2);
    assert_false(seen[which]);
    seen[which] = true;
  }
  assert_refused(&config, GLOO_ERR_ADDRESS, "GLOO_PORT_RANGE (28731-28733)");
  config.port = 28731; /* a fixed port */
  assert_refused(&config, GLOO_ERR_ADDRESS, "choose another port");
  for (int i = 0; i < 3; i++) gli_transport_tcp.close(taken[i]);
  unsetenv("GLOO_PORT_RANGE");
}

static void ranges_of_ports_are_checked(void **state) {
  (void)state;
  static const char *const wrong[] = {"0-5",   "5-4",         "1-65536", "x",
                                      "1-",    "-7",          "1-2-3",   " 1-2",
                                      "1 - 2", "99999999999", "1-2x"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    setenv("GLOO_PORT_RANGE", wrong[i], 1);
    assert_refused(&(gli_transport_config){.host = "127.0.0.1"},
                   GLOO_ERR_INVALID, "GLOO_PORT_RANGE");
  }
  setenv("GLOO_PORT_RANGE", "28734", 1);
  char text[GLI_ENDPOINT_TEXT_BYTES];
  open_and_tell(&(gli_transport_config){.host = "127.0.0.1"}, text);
  assert_string_equal(text, "127.0.0.1:28734");
  unsetenv("GLOO_PORT_RANGE");
}

static gli_tcp_contact contact_with(const char *bind, const char *publish) {
  gli_tcp_contact contact;
  gli_address address;
  gli_transport *t;
  gloo_error error;
  if (bind != NULL) setenv("GLOO_BIND_ADDR", bind, 1);
  if (publish != NULL) setenv("GLOO_PUBLISH_ADDR", publish, 1);
  if (try_open(&(gli_transport_config){0}, &t, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  gli_transport_tcp.address(t, &address);
  assert_true(gli_tcp_contact_decode(&address, &contact));
  gli_transport_tcp.close(t);
  unsetenv("GLOO_BIND_ADDR");
  unsetenv("GLOO_PUBLISH_ADDR");
  return contact;
}

static void assert_figures(const gli_endpoint *at, const char *figures) {
  char text[GLI_ENDPOINT_TEXT_BYTES];
  gli_endpoint bare = *at;
  gli_endpoint_set_port(&bare, 0);
  gli_endpoint_text(&bare, text);
  assert_string_equal(text, figures);
}

static void others_are_told_what_is_published(void **state) {
  (void)state;
  gli_tcp_contact told = contact_with(NULL, "192.0.2.7,[2001:db8::7]");
  assert_int_equal(told.n, 2);
  assert_figures(&told.at[0], "192.0.2.7");
  assert_figures(&told.at[1], "2001:db8::7");
  assert_true(told.translated && told.everywhere);
  told = contact_with("127.0.0.1", NULL);
  assert_int_equal(told.n, 1);
  assert_figures(&told.at[0], "127.0.0.1");
  assert_false(told.translated || told.everywhere);
  told = contact_with("127.0.0.1", "192.0.2.7");
  assert_int_equal(told.n, 2); /* ranks on this host need the second */
  assert_figures(&told.at[0], "192.0.2.7");
  assert_figures(&told.at[1], "127.0.0.1");
  told = contact_with("0.0.0.0", "192.0.2.7");
  assert_int_equal(told.n, 1);
  assert_true(told.everywhere);
}

static void addresses_of_variables_are_checked(void **state) {
  (void)state;
  const gli_transport_config config = {0};
  setenv("GLOO_PUBLISH_ADDR", "0.0.0.0", 1);
  assert_refused(&config, GLOO_ERR_ADDRESS, "GLOO_PUBLISH_ADDR");
  setenv("GLOO_PUBLISH_ADDR", "no-such-host.invalid", 1);
  assert_refused(&config, GLOO_ERR_ADDRESS, "GLOO_PUBLISH_ADDR");
  setenv("GLOO_PUBLISH_ADDR", " , ", 1);
  assert_refused(&config, GLOO_ERR_INVALID, "GLOO_PUBLISH_ADDR");
  unsetenv("GLOO_PUBLISH_ADDR");
  setenv("GLOO_BIND_ADDR", "192.0.2.77", 1);
  assert_refused(&config, GLOO_ERR_ADDRESS, "192.0.2.77");
  setenv("GLOO_BIND_ADDR", "no-such-host.invalid", 1);
  assert_refused(&config, GLOO_ERR_ADDRESS, "GLOO_BIND_ADDR");
  char text[GLI_ENDPOINT_TEXT_BYTES];
  open_and_tell(&(gli_transport_config){.host = "127.0.0.1"}, text);
  unsetenv("GLOO_BIND_ADDR");
}

static void port_is_the_one_asked_for(void **state) {
  (void)state;
  char first[GLI_ENDPOINT_TEXT_BYTES], second[GLI_ENDPOINT_TEXT_BYTES];
  gli_transport_config config = {.host = "127.0.0.1"};
  open_and_tell(&config, first);
  config.port = (uint16_t)atoi(strchr(first, ':') + 1);
  open_and_tell(&config, second);
  assert_string_equal(first, second);
}

static void port_in_use_is_an_error(void **state) {
  (void)state;
  har_end end;
  har_open(&end, "127.0.0.1", 1);
  gli_endpoint at = har_listens_at(end.t);
  gli_transport_config config = {.host = "127.0.0.1",
                                 .port = gli_endpoint_port(&at)};
  char text[GLI_ENDPOINT_TEXT_BYTES];
  gli_endpoint_text(&at, text);
  assert_refused(&config, GLOO_ERR_ADDRESS, text);
  assert_refused(&config, GLOO_ERR_ADDRESS, "in use");
  config.host = NULL;
  assert_refused(&config, GLOO_ERR_ADDRESS, "in use");
  har_close(&end);
}

static void host_that_does_not_resolve_is_an_error(void **state) {
  (void)state;
  assert_refused(&(gli_transport_config){.host = "no-such-host.invalid"},
                 GLOO_ERR_ADDRESS, "no-such-host.invalid");
  assert_refused(&(gli_transport_config){.host = ""}, GLOO_ERR_ADDRESS,
                 "resolve");
  assert_refused(&(gli_transport_config){.host = "127.0.0.1.5"},
                 GLOO_ERR_ADDRESS, "127.0.0.1.5");
}

static void address_of_another_machine_is_an_error(void **state) {
  (void)state;
  assert_refused(&(gli_transport_config){.host = "192.0.2.1"}, GLOO_ERR_ADDRESS,
                 "192.0.2.1");
}

static void address_of_every_interface_is_an_error(void **state) {
  (void)state;
  assert_refused(&(gli_transport_config){.host = "0.0.0.0"}, GLOO_ERR_ADDRESS,
                 "not an address that other ranks");
  assert_refused(&(gli_transport_config){.host = "::"}, GLOO_ERR_ADDRESS,
                 "not an address that other ranks");
}

static void unknown_interface_names_the_known(void **state) {
  (void)state;
  assert_refused(&(gli_transport_config){.interface = "nosuch0"},
                 GLOO_ERR_NOT_FOUND, "nosuch0");
  assert_refused(&(gli_transport_config){.interface = "nosuch0"},
                 GLOO_ERR_NOT_FOUND, "lo");
}

static void interface_gives_its_address(void **state) {
  (void)state;
  char text[GLI_ENDPOINT_TEXT_BYTES];
  if (access("/sys/class/net/lo", F_OK) != 0) {
    print_message("# skipped: the loopback interface is not called lo here\n");
    skip();
  }
  open_and_tell(&(gli_transport_config){.interface = "lo"}, text);
  if (strncmp(text, "127.0.0.1:", 10) != 0) fail_msg("%s", text);
}

static void interface_may_come_from_the_environment(void **state) {
  (void)state;
  char text[GLI_ENDPOINT_TEXT_BYTES];
  setenv("GLOO_SOCKET_IFNAME", "nosuch1", 1);
  assert_refused(&(gli_transport_config){0}, GLOO_ERR_NOT_FOUND,
                 "GLOO_SOCKET_IFNAME");
  open_and_tell(&(gli_transport_config){.host = "127.0.0.1"}, text);
  setenv("GLOO_SOCKET_IFNAME", "", 1);
  open_and_tell(&(gli_transport_config){0}, text);
  unsetenv("GLOO_SOCKET_IFNAME");
}

static void streams_have_bounds(void **state) {
  (void)state;
  assert_refused(&(gli_transport_config){.streams = 17}, GLOO_ERR_INVALID,
                 "17");
  assert_refused(&(gli_transport_config){.streams = -1}, GLOO_ERR_INVALID,
                 "-1");
}

/* With room for 0, 1, 2, ... descriptors it fails with an error, until it
 * works. */
static void descriptors_run_out_gracefully(void **state) {
  (void)state;
  if (!GLI_LINUX) {
    print_message("# libuv's loop may end the program then\n");
    skip();
  }
  struct rlimit old, low;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
  int first_free = dup(0), errors = 0;
  assert_true(first_free >= 0);
  close(first_free);
  for (int room = 0;; room++) {
    gli_transport *t;
    gloo_error error;
    low = old;
    low.rlim_cur = (rlim_t)(first_free + room);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    gloo_status status =
        try_open(&(gli_transport_config){.host = "127.0.0.1"}, &t, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    if (status == GLOO_OK) {
      gli_transport_tcp.close(t);
      break;
    }
    errors++;
    assert_true(error.message[0] != '\0');
    int next = dup(0);
    close(next);
    assert_int_equal(next, first_free); /* nothing leaked */
  }
  assert_true(errors >= 3);
}

#if GLI_LINUX
static void assert_control(int fd, const char *expected) {
  char name[GLI_TCP_CONTROL_BYTES + 1] = "";
  socklen_t bytes = GLI_TCP_CONTROL_BYTES;
  assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes),
                   0);
  assert_string_equal(name, expected);
}

static int listening_socket(gli_endpoint *at) {
  socklen_t bytes = sizeof *at;
  memset(at, 0, sizeof *at);
  at->v4.sin_family = AF_INET;
  at->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, &at->any, sizeof at->v4), 0);
  assert_int_equal(listen(fd, 1), 0);
  assert_int_equal(getsockname(fd, &at->any, &bytes), 0);
  return fd;
}

/* Tries each congestion control that this system offers. */
static void connections_are_not_paced_from_the_start(void **state) {
  (void)state;
  static const char *const names[] = {"reno", "cubic", "bbr"};
  for (size_t i = 0; i < 3; i++) {
    gli_endpoint at;
    int listener = listening_socket(&at);
    if (setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, names[i],
                   (socklen_t)strlen(names[i])) == 0) {
      bool paces = strcmp(names[i], "bbr") == 0;
      char control[GLI_TCP_CONTROL_BYTES];
      gli_tcp_socket_tune_listener(listener, control);
      assert_string_equal(control, paces ? names[i] : "");
      int client = socket(AF_INET, SOCK_STREAM, 0);
      assert_int_equal(connect(client, &at.any, sizeof at.v4), 0);
      int fd = gli_socket_accept(listener);
      assert_true(fd >= 0);
      assert_control(fd, paces ? "reno" : names[i]);
      if (paces) gli_tcp_socket_set_control(fd, control);
      assert_control(fd, names[i]);
      gli_tcp_socket_tune_local(fd);
      assert_control(fd, "reno");
      close(fd);
      close(client);
    } else {
      assert_int_not_equal(i, 0); /* every system has reno */
    }
    close(listener);
  }
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ranks_of_one_host_listen_on_loopback_alone),
    cmocka_unit_test(default_is_what_others_reach),
    cmocka_unit_test(ports_are_of_the_range),
    cmocka_unit_test(ranges_of_ports_are_checked),
    cmocka_unit_test(others_are_told_what_is_published),
    cmocka_unit_test(addresses_of_variables_are_checked),
    cmocka_unit_test(port_is_the_one_asked_for),
    cmocka_unit_test(port_in_use_is_an_error),
    cmocka_unit_test(host_that_does_not_resolve_is_an_error),
    cmocka_unit_test(address_of_another_machine_is_an_error),
    cmocka_unit_test(address_of_every_interface_is_an_error),
    cmocka_unit_test(unknown_interface_names_the_known),
    cmocka_unit_test(interface_gives_its_address),
    cmocka_unit_test(interface_may_come_from_the_environment),
    cmocka_unit_test(streams_have_bounds),
    cmocka_unit_test(descriptors_run_out_gracefully),
#if GLI_LINUX
    cmocka_unit_test(connections_are_not_paced_from_the_start),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
