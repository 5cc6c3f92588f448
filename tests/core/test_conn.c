/* The life cycle of a connection: legal state changes, callbacks to its owner,
 * and blocking waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "net/conn.h"
#include "net/time_limit.h"

static const uint64_t patience_ns = UINT64_C(60000000000);

/* ---- states -------------------------------------------------------------- */

static void only_listed_moves_are_made(void **state) {
  static const char *const moves[GLI_CONN_STATES] = {
      [GLI_CONN_RESOLVING] = "CGE", [GLI_CONN_CONNECTING] = "GE",
      [GLI_CONN_SECURING] = "GE",   [GLI_CONN_GREETING] = "SUE",
      [GLI_CONN_UP] = "DE",         [GLI_CONN_DRAINING] = "E",
      [GLI_CONN_ENDED] = ""};
  static const char letters[] = "RCSGUDE";
  (void)state;
  for (int from = 0; from < GLI_CONN_STATES; from++)
    for (int to = 0; to < GLI_CONN_STATES; to++) {
      gli_conn conn;
      gli_conn_init(&conn, NULL, NULL);
      conn.state = (gli_conn_state)from;
      bool legal = strchr(moves[from], letters[to]) != NULL;
      assert_int_equal(gli_conn_move(&conn, (gli_conn_state)to), legal);
      assert_int_equal(conn.state, legal ? to : from);
    }
}

/* ---- in a set ------------------------------------------------------------ */

/* Counts of calls to an owner. */
typedef struct hearer {
  gli_conn *conn;
  int greets, ready, ended, code;
  bool frees; /* frees the connection in any callback */
} hearer;

static void hearer_free(hearer *h) {
  if (!h->frees) return;
  gli_conn_free(h->conn);
  h->conn = NULL;
}

static void on_greets(void *owner) {
  hearer *h = owner;
  h->greets++;
  hearer_free(h);
}

static void on_ready(void *owner, int events) {
  hearer *h = owner;
  (void)events;
  h->ready++;
  hearer_free(h);
}

static void on_ended(void *owner, int code) {
  hearer *h = owner;
  h->ended++;
  h->code = code;
  hearer_free(h);
}

static const gli_conn_calls calls = {on_greets, on_ready, on_ended};

static int listen_here(gli_endpoint *at, int backlog) {
  socklen_t bytes = sizeof *at;
  int fd = gli_socket_open(AF_INET, SOCK_STREAM);
  assert_true(fd >= 0);
  *at = (gli_endpoint){.v4 = {.sin_family = AF_INET}};
  at->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(bind(fd, &at->any, sizeof at->v4), 0);
  if (backlog > 0) assert_int_equal(listen(fd, backlog), 0);
  assert_int_equal(getsockname(fd, &at->any, &bytes), 0);
  return fd;
}

static void poll_until(gli_events *set, const int *count) {
  uint64_t deadline = gli_deadline_after((int64_t)patience_ns);
  while (*count == 0) {
    assert_true(gli_deadline_left(deadline) > 0);
    (void)gli_tcp_socket_wait(gli_events_fd(set), GLI_READABLE,
                              gli_deadline_after(100000000));
    gli_events_poll(set);
  }
}

static void owner_hears_of_each_step(void **state) {
  gli_endpoint at;
  (void)state;
  for (int frees = 0; frees < 2; frees++) {
    gli_events *set = gli_events_open(NULL, NULL);
    int listener = listen_here(&at, 1);
    hearer h = {.frees = frees != 0};
    gli_conn *conn = h.conn = gli_conn_new(&calls, &h);
    assert_int_equal(gli_conn_open(conn, set, AF_INET), 0);
    assert_int_equal(gli_conn_connect(conn, &at), 0);
    assert_int_equal(conn->state, GLI_CONN_CONNECTING);
    poll_until(set, &h.greets);
    int fd;
    while ((fd = gli_socket_accept(listener)) < 0) continue;
    if (!h.frees) {
      assert_int_equal(conn->state, GLI_CONN_GREETING);
      assert_true(gli_conn_move(conn, GLI_CONN_UP));
      gli_conn_for(conn, GLI_READABLE);
      assert_int_equal(write(fd, "x", 1), 1);
      poll_until(set, &h.ready);
      char byte;
      assert_int_equal(gli_conn_read(conn, &byte, 1), 1);
      assert_true(gli_conn_shut(conn, false));
      assert_int_equal(conn->state, GLI_CONN_DRAINING);
      assert_int_equal(
          gli_tcp_socket_wait(fd, GLI_READABLE,
                              gli_deadline_after((int64_t)patience_ns)),
          0);
      assert_int_equal(read(fd, &byte, 1), 0);
      /* The other direction is still open. */
      h.ready = 0;
      assert_int_equal(write(fd, "y", 1), 1);
      poll_until(set, &h.ready);
      assert_int_equal(gli_conn_read(conn, &byte, 1), 1);
      gli_conn_free(conn);
    }
    assert_int_equal(h.greets, 1);
    assert_int_equal(h.ended, 0);
    close(fd);
    close(listener);
    gli_events_close(set);
  }
}

static void refused_connection_ends_once(void **state) {
  gli_endpoint at;
  (void)state;
  for (int frees = 0; frees < 2; frees++) {
    gli_events *set = gli_events_open(NULL, NULL);
    int holder = listen_here(&at, 0); /* bound, but not listening */
    hearer h = {.frees = frees != 0};
    gli_conn *conn = h.conn = gli_conn_new(&calls, &h);
    assert_int_equal(gli_conn_open(conn, set, AF_INET), 0);
    int code = gli_conn_connect(conn, &at);
    if (code == 0) {
      poll_until(set, &h.ended);
      code = h.code;
    }
    assert_int_equal(code, ECONNREFUSED);
    assert_int_equal(h.greets, 0);
    if (h.conn != NULL) {
      int ended = h.ended;
      assert_int_equal(conn->code, ended ? ECONNREFUSED : 0);
      gli_events_poll(set);
      assert_int_equal(h.ended, ended);
      gli_conn_free(conn);
    }
    close(holder);
    gli_events_close(set);
  }
}

/* A connect to the port of a rank that has ended may get that same port as its
 * source, and connect to itself. */
static void connection_with_itself_is_refused(void **state) {
  gli_endpoint at;
  socklen_t bytes = sizeof at;
  gli_conn conn;
  (void)state;
  gli_conn_init(&conn, NULL, NULL);
  assert_int_equal(gli_conn_open(&conn, NULL, AF_INET), 0);
  at = (gli_endpoint){.v4 = {.sin_family = AF_INET}};
  at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(bind(conn.watch.fd, &at.any, sizeof at.v4), 0);
  assert_int_equal(getsockname(conn.watch.fd, &at.any, &bytes), 0);
  assert_int_equal(gli_conn_connect(&conn, &at), 0);
  assert_false(
      gli_conn_finish(&conn, gli_deadline_after((int64_t)patience_ns)));
  assert_int_equal(conn.code, ECONNREFUSED);
  gli_conn_close(&conn);
}

/* ---- without a set ------------------------------------------------------- */

static void thread_waits_until_the_deadline(void **state) {
  gli_endpoint at;
  gli_conn conn;
  char byte;
  (void)state;
  int listener = listen_here(&at, 1);
  gli_conn_init(&conn, NULL, NULL);
  assert_int_equal(gli_conn_open(&conn, NULL, AF_INET), 0);
  assert_int_equal(gli_conn_connect(&conn, &at), 0);
  assert_true(gli_conn_finish(&conn, GLI_NEVER));
  assert_int_equal(conn.state, GLI_CONN_GREETING);
  assert_int_equal(
      gli_conn_wait(&conn, GLI_READABLE, gli_deadline_after(1000000)),
      GLI_CONN_LATE);
  int fd;
  while ((fd = gli_socket_accept(listener)) < 0) continue;
  assert_int_equal(write(fd, "x", 1), 1);
  assert_int_equal(gli_conn_wait(&conn, GLI_READABLE, GLI_NEVER), 0);
  assert_int_equal(gli_conn_read(&conn, &byte, 1), 1);
  gli_conn_close(&conn);
  assert_int_equal(conn.state, GLI_CONN_ENDED);
  gli_conn_close(&conn);
  /* The other end sees the end of the connection. */
  assert_int_equal(gli_tcp_socket_wait(fd, GLI_READABLE, GLI_NEVER), 0);
  assert_int_equal(read(fd, &byte, 1), 0);
  close(fd);
  close(listener);
}

static void first_cause_of_an_end_stays(void **state) {
  gli_conn conn;
  (void)state;
  gli_conn_init(&conn, NULL, NULL);
  gli_conn_end(&conn, GLI_CONN_NONSENSE);
  gli_conn_end(&conn, EPIPE);
  gli_conn_close(&conn);
  assert_int_equal(conn.code, GLI_CONN_NONSENSE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_listed_moves_are_made),
      cmocka_unit_test(owner_hears_of_each_step),
      cmocka_unit_test(refused_connection_ends_once),
      cmocka_unit_test(connection_with_itself_is_refused),
      cmocka_unit_test(thread_waits_until_the_deadline),
      cmocka_unit_test(first_cause_of_an_end_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
