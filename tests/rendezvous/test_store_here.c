/* A TCP store at an address that other hosts reach, in a job without a secret:
 * of its own host it accepts processes of this user only. The test runs in
 * private namespaces; to create them and to become another user it needs
 * root. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "children.h"
#include "gloo_c/gloo_c.h"
#include "raw.h"
#include "rendezvous/store/tcp/tcp_protocol.h"
#include "security/keys.h"

#define PATIENCE INT64_C(60000000000)
#define HERE "10.77.0.1"
#define ALSO_HERE "10.77.0.2"
#define LINK_HERE "10.78.0.1"

enum { NOBODY = 65534 };

/* ---- stores -------------------------------------------------------------- */

static gloo_status open_at(const char *host, uint16_t port, bool serve,
                           int64_t timeout_ns, gloo_store **store,
                           gloo_error *error) {
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = host;
  o.port = port;
  o.serve = serve;
  o.timeout_ns = timeout_ns;
  return gloo_store_tcp_create(&o, store, error);
}

static gloo_store *served_at(const char *host, uint16_t port) {
  gloo_error e;
  gloo_store *store;
  if (open_at(host, port, true, PATIENCE, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return store;
}

static void expect_let_in(const char *host, uint16_t port) {
  gloo_error e;
  gloo_store *store;
  if (open_at(host, port, false, PATIENCE, &store, &e) != GLOO_OK)
    fail_msg("%s: %s", host, e.message);
  assert_int_equal(gloo_store_set(store, "k", "v", 1, NULL), GLOO_OK);
  gloo_store_destroy(store);
}

static void expect_words(const char *text, const char *words) {
  if (strstr(text, words) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", text, words);
}

/* Expects a refusal of a client that says hello over TCP, from address `from`
 * to `to`. */
static void expect_refused_over_tcp(const char *from, const char *to,
                                    uint16_t port) {
  char reply[1024];
  gli_frame hello;
  struct sockaddr_in own = {.sin_family = AF_INET},
                     there = {.sin_family = AF_INET, .sin_port = htons(port)};
  assert_int_equal(inet_pton(AF_INET, from, &own.sin_addr), 1);
  assert_int_equal(inet_pton(AF_INET, to, &there.sin_addr), 1);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&there, sizeof there), 0);
  raw_make_hello(&hello, GLI_TCP_MAGIC, 0, "");
  gli_frame_end(&hello, GLI_TCP_HELLO);
  raw_send(fd, hello.data, hello.bytes);
  /* Half-closes the connection, so that the server drops a client that it
   * admits by mistake. */
  (void)shutdown(fd, SHUT_WR);
  size_t got = raw_read_all(fd, reply, sizeof reply);
  close(fd);
  free(hello.data);
  assert_true(got > GLI_TCP_HEAD_BYTES);
  expect_words(reply + GLI_TCP_HEAD_BYTES, "processes of its own user");
  expect_words(reply + GLI_TCP_HEAD_BYTES, "GLOO_JOB_SECRET");
}

/* ---- a host and its users ------------------------------------------------ */

static const char *const hosts[] = {HERE, "0.0.0.0", "::"};
enum { HOSTS = sizeof hosts / sizeof *hosts };

static void own_clients_come_in_and_tcp_is_for_other_hosts(void **state) {
  (void)state;
  for (int i = 0; i < HOSTS; i++) {
    gloo_store *server = served_at(hosts[i], 0);
    uint16_t port = gloo_store_tcp_port(server);
    expect_let_in(HERE, port);
    expect_refused_over_tcp(HERE, HERE, port);
    expect_refused_over_tcp("127.0.0.1", HERE, port);
    expect_refused_over_tcp(ALSO_HERE, HERE, port);
    if (i > 0) {
      expect_let_in("127.0.0.1", port);
      expect_let_in(ALSO_HERE, port);
      expect_refused_over_tcp("127.0.0.1", "127.0.0.1", port);
    }
    gloo_store_destroy(server);
  }
}

/* Another user's client is refused, also with GLOO_SECURITY=off. */
static int try_as_nobody(int port, void *unused) {
  gloo_store *store;
  gloo_error e;
  (void)unused;
  if (setuid(NOBODY) != 0) return 2;
  gloo_log_set_level(GLOO_LOG_OFF);
  if (open_at(HERE, (uint16_t)port, false, PATIENCE, &store, &e) !=
      GLOO_ERR_AUTH)
    return 3;
  if (strstr(e.message,
             "processes of its own user; this client is of user 65534") == NULL)
    return 4;
  setenv("GLOO_SECURITY", "off", 1);
  if (open_at(HERE, (uint16_t)port, false, PATIENCE, &store, &e) !=
      GLOO_ERR_AUTH)
    return 5;
  return strstr(e.message, "processes of its own user") != NULL ? 0 : 6;
}

static void another_user_of_this_host_stays_outside(void **state) {
  (void)state;
  for (int i = 0; i < HOSTS; i++) {
    gloo_store *server = served_at(hosts[i], 0);
    pid_t stranger =
        child_start(try_as_nobody, gloo_store_tcp_port(server), NULL);
    assert_int_equal(child_wait(stranger), 0);
    gloo_store_destroy(server);
  }
}

static void who_is_not_asked_may_use_tcp(void **state) {
  (void)state;
  setenv("GLOO_SECURITY", "off", 1);
  gloo_store *server = served_at(HERE, 0);
  expect_let_in(HERE, gloo_store_tcp_port(server));
  unsetenv("GLOO_SECURITY");
  gloo_store_destroy(server);
}

/* ---- another host -------------------------------------------------------- */

static int come_from_another_host(int port, void *argument) {
  const int *ends = argument; /* write end to the parent, read end from it */
  char byte;
  gloo_store *store;
  gloo_error e;
  if (unshare(CLONE_NEWNET) != 0 || write(ends[0], "", 1) != 1) return 2;
  if (read(ends[1], &byte, 1) != 1) return 3;
  if (byte != 0) return 0;
  if (setuid(NOBODY) != 0) return 4; /* the users of other hosts are unknown */
  if (open_at(LINK_HERE, (uint16_t)port, false, PATIENCE, &store, &e) !=
      GLOO_OK) {
    print_message("# %s\n", e.message);
    return 5;
  }
  gloo_status status = gloo_store_set(store, "k", "v", 1, NULL);
  gloo_store_destroy(store);
  return status == GLOO_OK ? 0 : 6;
}

static void other_hosts_come_over_tcp(void **state) {
  int to_parent[2], to_child[2];
  char byte, command[512];
  (void)state;
  assert_int_equal(pipe(to_parent), 0);
  assert_int_equal(pipe(to_child), 0);
  gloo_store *server = served_at("0.0.0.0", 0);
  int ends[] = {to_parent[1], to_child[0]};
  pid_t child =
      child_start(come_from_another_host, gloo_store_tcp_port(server), ends);
  assert_int_equal(read(to_parent[0], &byte, 1), 1);
  snprintf(command, sizeof command,
           "ip link add gloo0 type veth peer name gloo1 netns %d && "
           "ip addr add 10.78.0.1/24 dev gloo0 && ip link set gloo0 up && "
           "nsenter -t %d -n sh -c 'ip addr add 10.78.0.2/24 dev gloo1 && "
           "ip link set gloo1 up' > /dev/null 2>&1",
           (int)child, (int)child);
  bool linked = system(command) == 0;
  assert_int_equal(write(to_child[1], linked ? "" : "x", 1), 1);
  assert_int_equal(child_wait(child), 0);
  gloo_store_destroy(server);
  if (linked) return;
  print_message("# skipped: no link to another network namespace\n");
  skip();
}

/* ---- squatters of the socket's name or of the port ----------------------- */

/* A process of another user that holds some names until the pipe is closed. */
typedef struct squatter {
  const char *host; /* address in the names; NULL: take the port */
  uint16_t first, last;
  bool asleep; /* the socket does not listen */
  int ready[2], done[2];
  pid_t pid;
} squatter;

static squatter squatter_of(const char *host, uint16_t first, uint16_t last) {
  return (squatter){.host = host, .first = first, .last = last};
}

static int squat_name(const squatter *s, uint16_t port) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                   "gloo_c-store-%s:%u", s->host, (unsigned)port);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  socklen_t bytes =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  if (bind(fd, (struct sockaddr *)&name, bytes) != 0) return -1;
  return s->asleep ? fd : listen(fd, 8) == 0 ? fd : -1;
}

static int squat_port(uint16_t port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0) return -1;
  return listen(fd, 8) == 0 ? fd : -1;
}

static int squat(int unused, void *argument) {
  const squatter *s = argument;
  char byte;
  (void)unused;
  if (setuid(NOBODY) != 0) return 2;
  for (unsigned port = s->first; port <= s->last; port++)
    if ((s->host != NULL ? squat_name(s, (uint16_t)port)
                         : squat_port((uint16_t)port)) < 0)
      return 3;
  close(s->done[1]);
  if (write(s->ready[1], "", 1) != 1) return 4;
  (void)!read(s->done[0], &byte, 1);
  return 0;
}

/* Returns false if the process cannot start here; it has then ended. */
static bool squatter_start(squatter *s, int (*body)(int, void *)) {
  char byte;
  assert_int_equal(pipe(s->ready), 0);
  assert_int_equal(pipe(s->done), 0);
  s->pid = child_start(body, 0, s);
  close(s->ready[1]);
  if (read(s->ready[0], &byte, 1) == 1) return true;
  assert_int_equal(child_wait(s->pid), 77);
  return false;
}

static void squatter_end(squatter *s) {
  close(s->done[1]);
  assert_int_equal(child_wait(s->pid), 0);
  close(s->done[0]);
  close(s->ready[0]);
}

static void a_taken_name_stops_no_job(void **state) {
  static const char *const at[] = {"127.0.0.1", HERE};
  (void)state;
  for (int i = 0; i < 2; i++)
    for (int asleep = 0; asleep < 2; asleep++) {
      squatter s = squatter_of(at[i], 40100, 40100);
      s.asleep = asleep != 0;
      assert_true(squatter_start(&s, squat));
      gloo_store *server = served_at(at[i], 40100);
      expect_let_in(at[i], 40100);
      gloo_store_destroy(server);
      server = served_at(at[i], 40100); /* no leftovers */
      expect_let_in(at[i], 40100);
      gloo_store_destroy(server);
      squatter_end(&s);
    }
}

/* The name of the wildcard address is taken and the server is at one address,
 * or vice versa. */
static void a_taken_name_of_another_address_is_passed_by(void **state) {
  static const char *const at[][2] = {{"*", HERE}, {HERE, "0.0.0.0"}};
  (void)state;
  for (int i = 0; i < 2; i++) {
    squatter s = squatter_of(at[i][0], 40100, 40100);
    assert_true(squatter_start(&s, squat));
    gloo_store *server = served_at(at[i][1], 40100);
    expect_let_in(HERE, 40100);
    gloo_store_destroy(server);
    squatter_end(&s);
  }
}

static bool write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (file == NULL) return false;
  bool written = fputs(text, file) >= 0;
  return fclose(file) == 0 && written;
}

/* Sets the range of ephemeral ports. */
static void allow_ports(const char *range) {
  assert_true(write_file("/proc/sys/net/ipv4/ip_local_port_range", range));
}

static void any_port_is_one_whose_name_is_free(void **state) {
  squatter s = squatter_of("127.0.0.1", 40201, 40201);
  (void)state;
  assert_true(squatter_start(&s, squat));
  allow_ports("40200 40207");
  for (int i = 0; i < 8; i++) {
    gloo_store *server = served_at("127.0.0.1", 0);
    uint16_t port = gloo_store_tcp_port(server);
    assert_in_range(port, 40200, 40207);
    assert_int_not_equal(port, 40201);
    gloo_store_destroy(server);
  }
  allow_ports("32768 60999");
  setenv("GLOO_PORT_RANGE", "40201-40202", 1);
  gloo_store *server = served_at("127.0.0.1", 0);
  assert_int_equal(gloo_store_tcp_port(server), 40202);
  unsetenv("GLOO_PORT_RANGE");
  gloo_store_destroy(server);
  squatter_end(&s);
}

static void where_all_names_are_taken_there_is_a_directory(void **state) {
  squatter s = squatter_of("127.0.0.1", 40200, 40207);
  (void)state;
  assert_true(squatter_start(&s, squat));
  allow_ports("40200 40207");
  gloo_store *server = served_at("127.0.0.1", 0);
  allow_ports("32768 60999");
  expect_let_in("127.0.0.1", gloo_store_tcp_port(server));
  gloo_store_destroy(server);
  squatter_end(&s);
}

static gloo_status fail_to_serve(gloo_error *e) {
  gloo_store *store;
  return open_at("127.0.0.1", 40100, true, PATIENCE, &store, e);
}

/* The directory in /tmp has the wrong owner, or is open to other users. */
static void without_a_directory_it_says_what_to_do(void **state) {
  squatter s = squatter_of("127.0.0.1", 40100, 40100);
  gloo_error e;
  (void)state;
  unsetenv("XDG_RUNTIME_DIR");
  assert_true(squatter_start(&s, squat));
  assert_int_equal(mkdir("/tmp/gloo_c-0", 0700), 0);
  assert_int_equal(chown("/tmp/gloo_c-0", NOBODY, NOBODY), 0);
  assert_int_equal(fail_to_serve(&e), GLOO_ERR_ADDRESS);
  expect_words(e.message, "user 65534 uses the name of its local socket");
  expect_words(e.message, "GLOO_JOB_SECRET");
  assert_int_equal(chown("/tmp/gloo_c-0", 0, 0), 0);
  assert_int_equal(chmod("/tmp/gloo_c-0", 0755), 0);
  assert_int_equal(fail_to_serve(&e), GLOO_ERR_ADDRESS);
  assert_int_equal(chmod("/tmp/gloo_c-0", 0700), 0);
  gloo_store *server = served_at("127.0.0.1", 40100);
  expect_let_in("127.0.0.1", 40100);
  gloo_store_destroy(server);
  squatter_end(&s);
  setenv("XDG_RUNTIME_DIR", "/tmp", 1);
}

/* All other directories belong to another user; the home directory is empty. */
static void an_empty_home_is_enough(void **state) {
  squatter s = squatter_of("127.0.0.1", 40100, 40100);
  struct stat made;
  (void)state;
  unsetenv("XDG_RUNTIME_DIR");
  setenv("HOME", "/tmp/home", 1);
  assert_true(squatter_start(&s, squat));
  assert_int_equal(chown("/tmp/gloo_c-0", NOBODY, NOBODY), 0);
  assert_int_equal(mkdir("/tmp/home", 0700), 0);
  gloo_store *server = served_at("127.0.0.1", 40100);
  expect_let_in("127.0.0.1", 40100);
  gloo_store_destroy(server);
  assert_int_equal(stat("/tmp/home/.cache", &made), 0);
  assert_int_equal(made.st_mode & 0777, 0700);
  assert_int_equal(rmdir("/tmp/home/.cache/gloo_c"), 0);
  assert_int_equal(rmdir("/tmp/home/.cache"), 0);
  assert_int_equal(chown("/tmp/home", NOBODY, NOBODY), 0);
  gloo_error e;
  assert_int_equal(fail_to_serve(&e), GLOO_ERR_ADDRESS);
  assert_int_equal(stat("/tmp/home/.cache", &made), -1);
  squatter_end(&s);
  setenv("HOME", "/nonexistent", 1);
  setenv("XDG_RUNTIME_DIR", "/tmp", 1);
}

/* A server with a secret needs no local socket. */
static void a_server_that_asks_does_not_mind(void **state) {
  squatter s = squatter_of("127.0.0.1", 40100, 40100);
  (void)state;
  if (gli_openssl_version() == NULL) skip();
  unsetenv("XDG_RUNTIME_DIR");
  assert_int_equal(chown("/tmp/gloo_c-0", NOBODY, NOBODY), 0);
  setenv("GLOO_JOB_SECRET", "000102030405060708090a0b0c0d0e0f", 1);
  assert_true(squatter_start(&s, squat));
  gloo_store *server = served_at("127.0.0.1", 40100);
  expect_let_in("127.0.0.1", 40100);
  gloo_store_destroy(server);
  squatter_end(&s);
  unsetenv("GLOO_JOB_SECRET");
  setenv("XDG_RUNTIME_DIR", "/tmp", 1);
}

static void a_taken_port_is_told_with_its_user(void **state) {
  squatter s = squatter_of(NULL, 40100, 40100);
  gloo_error e;
  (void)state;
  assert_true(squatter_start(&s, squat));
  assert_int_equal(fail_to_serve(&e), GLOO_ERR_ADDRESS);
  expect_words(e.message, "another user, user 65534, uses the port");
  squatter_end(&s);
}

static int serve_till_told(const squatter *s) {
  char byte;
  gloo_store *server = served_at(s->host, s->first);
  close(s->done[1]);
  if (write(s->ready[1], "", 1) != 1) return 4;
  (void)!read(s->done[0], &byte, 1);
  gloo_store_destroy(server);
  return 0;
}

static int serve_as_nobody(int unused, void *argument) {
  (void)unused;
  return setuid(NOBODY) == 0 ? serve_till_told(argument) : 2;
}

/* The client fails at once and does not wait for the other server to end. */
static void another_users_server_is_not_believed(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  for (int i = 0; i < HOSTS; i++) {
    squatter s = squatter_of(hosts[i], 40100, 40100);
    assert_true(squatter_start(&s, serve_as_nobody));
    assert_int_equal(open_at(HERE, 40100, false, -1, &store, &e),
                     GLOO_ERR_AUTH);
    squatter_end(&s);
    expect_words(e.message, "another user, user 65534");
    expect_words(e.message, "GLOO_JOB_SECRET");
  }
}

/* ---- user namespaces ----------------------------------------------------- */

/* To the server, the user appears to be its own. */
static int come_as_some_user(int port, void *unused) {
  gloo_store *store;
  gloo_error e;
  (void)unused;
  if (setuid(12345) != 0) return 2;
  if (open_at("127.0.0.1", (uint16_t)port, false, PATIENCE, &store, &e) !=
      GLOO_ERR_AUTH)
    return 3;
  return strstr(e.message, "without a number in this user namespace") != NULL
             ? 0
             : 4;
}

static int serve_without_a_number(int unused, void *argument) {
  (void)unused;
  if (unshare(CLONE_NEWUSER) != 0) return 77;
  if (getuid() != NOBODY) return 5;
  return serve_till_told(argument);
}

static void users_without_a_number_are_nobodys(void **state) {
  squatter s = squatter_of("127.0.0.1", 40100, 40100);
  (void)state;
  if (!squatter_start(&s, serve_without_a_number)) {
    print_message("# skipped: user namespaces cannot be made here\n");
    skip();
  }
  pid_t client = child_start(come_as_some_user, 40100, NULL);
  int result = child_wait(client);
  squatter_end(&s);
  assert_int_equal(result, 0);
}

/* ---- a server that starts late ------------------------------------------- */

static int come_early(int unused, void *argument) {
  gloo_store *store;
  gloo_error e;
  (void)unused;
  (void)argument;
  if (open_at("127.0.0.1", 40100, false, PATIENCE, &store, &e) != GLOO_OK) {
    print_message("# %s\n", e.message);
    return 1;
  }
  gloo_store_destroy(store);
  return 0;
}

/* The client meets the squatter first, several times. */
static void a_client_waits_for_its_own_server(void **state) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  (void)state;
  int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                   "gloo_c-store-127.0.0.1:40100");
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(seteuid(NOBODY), 0); /* the user of the listening socket */
  assert_int_equal(
      bind(fd, (struct sockaddr *)&name,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
      0);
  assert_int_equal(listen(fd, 64), 0);
  assert_int_equal(seteuid(0), 0);
  pid_t client = child_start(come_early, 0, NULL);
  for (int i = 0; i < 3; i++) {
    int met = accept(fd, NULL, NULL);
    assert_true(met >= 0);
    close(met);
  }
  gloo_store *server = served_at("127.0.0.1", 40100);
  assert_int_equal(child_wait(client), 0);
  gloo_store_destroy(server);
  close(fd);
}

/* ---- failures of SO_PEERCRED --------------------------------------------- */

/* The errno of a query for a socket's peer; 0: the query succeeds. */
static _Atomic int peer_code;

int getsockopt(int fd, int level, int option, void *value, socklen_t *bytes) {
  int (*real)(int, int, int, void *, socklen_t *);
  *(void **)&real = dlsym(RTLD_NEXT, "getsockopt");
  if (peer_code != 0 && level == SOL_SOCKET && option == SO_PEERCRED) {
    errno = peer_code;
    return -1;
  }
  return real(fd, level, option, value, bytes);
}

/* Connects when the query fails in the server's process only. */
static int come_once(int port, void *told) {
  gloo_store *store;
  gloo_error e;
  char byte;
  if (read(*(int *)told, &byte, 1) != 1) return 3;
  if (open_at("127.0.0.1", (uint16_t)port, false, PATIENCE, &store, &e) !=
      GLOO_ERR_NO_MEMORY)
    return 1;
  return strstr(e.message, "cannot determine the user of this client") != NULL
             ? 0
             : 2;
}

static void what_the_system_does_not_say_is_not_another_user(void **state) {
  gloo_store *store;
  gloo_error e;
  (void)state;
  gloo_store *server = served_at("127.0.0.1", 0);
  peer_code = ENOMEM;
  gloo_status status = open_at("127.0.0.1", gloo_store_tcp_port(server), false,
                               PATIENCE, &store, &e);
  peer_code = 0;
  gloo_store_destroy(server);
  assert_int_equal(status, GLOO_ERR_NO_MEMORY);
  assert_null(strstr(e.message, "another user"));
  expect_words(e.message, "memory");
  server = served_at("127.0.0.1", 0);
  int told[2];
  assert_int_equal(pipe(told), 0);
  pid_t client = child_start(come_once, gloo_store_tcp_port(server), &told[0]);
  peer_code = ENOMEM; /* from now on in the server's process */
  assert_int_equal(write(told[1], "", 1), 1);
  int result = child_wait(client);
  close(told[0]);
  close(told[1]);
  peer_code = 0;
  gloo_store_destroy(server);
  assert_int_equal(result, 0);
}

/* ---- namespaces ---------------------------------------------------------- */

static bool add_address(const char *name, const char *address) {
  struct ifreq request;
  struct sockaddr_in at = {.sin_family = AF_INET};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  memset(&request, 0, sizeof request);
  (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  (void)inet_pton(AF_INET, address, &at.sin_addr);
  memcpy(&request.ifr_addr, &at, sizeof at);
  bool added = ioctl(fd, SIOCSIFADDR, &request) == 0;
  at.sin_addr.s_addr = htonl(INADDR_NONE); /* the netmask of /32 */
  memcpy(&request.ifr_netmask, &at, sizeof at);
  if (strchr(name, ':') != NULL)
    added = added && ioctl(fd, SIOCSIFNETMASK, &request) == 0;
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  added = added && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  close(fd);
  return added;
}

/* Creates an empty /tmp and /run/user, and a network without a link. Returns
 * NULL or the resource that is not available. */
static const char *make_namespaces(void) {
  if (geteuid() != 0) return "it takes root to be another user";
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0)
    return "namespaces cannot be made here";
  if (mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777") != 0)
    return "no file system can be mounted here";
  (void)mount("tmpfs", "/run/user", "tmpfs", 0, "mode=755");
  if (!add_address("lo", "127.0.0.1") || !add_address("lo:1", HERE) ||
      !add_address("lo:2", ALSO_HERE))
    return "addresses cannot be set here";
  return NULL;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(own_clients_come_in_and_tcp_is_for_other_hosts),
      cmocka_unit_test(another_user_of_this_host_stays_outside),
      cmocka_unit_test(who_is_not_asked_may_use_tcp),
      cmocka_unit_test(other_hosts_come_over_tcp),
      cmocka_unit_test(a_taken_name_stops_no_job),
      cmocka_unit_test(a_taken_name_of_another_address_is_passed_by),
      cmocka_unit_test(any_port_is_one_whose_name_is_free),
      cmocka_unit_test(where_all_names_are_taken_there_is_a_directory),
      cmocka_unit_test(without_a_directory_it_says_what_to_do),
      cmocka_unit_test(an_empty_home_is_enough),
      cmocka_unit_test(a_server_that_asks_does_not_mind),
      cmocka_unit_test(a_taken_port_is_told_with_its_user),
      cmocka_unit_test(another_users_server_is_not_believed),
      cmocka_unit_test(users_without_a_number_are_nobodys),
      cmocka_unit_test(a_client_waits_for_its_own_server),
      cmocka_unit_test(what_the_system_does_not_say_is_not_another_user),
  };
  unsetenv("GLOO_SECURITY");
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  setenv("HOME", "/nonexistent", 1);
  const char *lacks = make_namespaces();
  if (lacks != NULL) {
    print_message("1..0 # SKIP %s\n", lacks);
    return 0;
  }
  setenv("XDG_RUNTIME_DIR", "/tmp", 1);
  gloo_log_set_level(GLOO_LOG_OFF);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
