/* Data sent through TLS arrives complete and in order, whatever the sizes of
 * the pieces sent and received, and of the socket's buffers. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tls_ends.h"

enum { PARTS_MAX = 24, PATIENCE_S = 120 };

static uint64_t drawn = 88172645463325252;

static size_t draw(size_t below) {
  drawn ^= drawn << 13;
  drawn ^= drawn >> 7;
  drawn ^= drawn << 17;
  return (size_t)(drawn % below);
}

/* Draws a size of any magnitude, or 0. */
static size_t draw_size(size_t most) {
  size_t bits = draw(24);
  size_t size = draw(4) == 0 ? draw(3) : draw(((size_t)1 << bits) + 1);
  if (draw(6) == 0) size = 16384 - 2 + draw(5); /* about the size of a record */
  return size < most ? size : most;
}

static size_t draw_parts(uint8_t *from, size_t bytes, struct iovec *parts,
                         int *n) {
  size_t all = 0;
  *n = 1 + (int)draw(PARTS_MAX);
  for (int i = 0; i < *n; i++) {
    size_t size = draw_size(bytes - all);
    parts[i] = (struct iovec){from + all, size};
    all += size;
  }
  return all;
}

/* ---- connections --------------------------------------------------------- */

static void make_local(int fds[ENDS], int room) {
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  for (int i = 0; i < ENDS && room > 0; i++)
    assert_int_equal(
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
}

static void make_tcp(int fds[ENDS], int room) {
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  fds[HERE] = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(listener >= 0 && fds[HERE] >= 0);
  for (int i = 0; i < 2 && room > 0; i++) {
    int fd = i == 0 ? listener : fds[HERE];
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  }
  assert_int_equal(bind(listener, (struct sockaddr *)&at, bytes), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
  assert_int_equal(connect(fds[HERE], (struct sockaddr *)&at, bytes), 0);
  fds[THERE] = accept(listener, NULL, NULL);
  assert_true(fds[THERE] >= 0);
  close(listener);
}

static bool readable(int fd) {
  struct pollfd look = {.fd = fd, .events = POLLIN};
  return poll(&look, 1, 0) == 1;
}

static tls_ends open_on(const int fds[ENDS]) {
  gli_tls_settings *settings = ends_by_secret();
  gli_key key = ends_key(9);
  tls_ends ends = ends_open_on(fds, settings, settings, &key);
  gli_tls_settings_release(settings);
  for (int i = 0; i < 1000 && !ends_shake_hands(&ends); i++) {
    struct pollfd look = {.fd = fds[i % 2], .events = POLLIN};
    (void)poll(&look, 1, 10);
  }
  assert_int_equal(ends.end[HERE].step, GLI_TLS_DONE);
  assert_int_equal(ends.end[THERE].step, GLI_TLS_DONE);
  return ends;
}

/* ---- one direction, in turns --------------------------------------------- */

typedef struct flow {
  gli_tls *from, *to;
  int fd; /* the receiving socket */
  uint8_t *said, *heard;
  size_t bytes, sent, received;
  bool refused; /* the socket has refused part of the data */
} flow;

static void flow_send(flow *f) {
  struct iovec parts[PARTS_MAX];
  int n;
  if (f->sent == f->bytes && gli_tls_unsent(f->from)) {
    assert_true(gli_tls_flush(f->from));
    return;
  }
  bool was_unsent = gli_tls_unsent(f->from);
  size_t all = draw_parts(f->said + f->sent, f->bytes - f->sent, parts, &n);
  ssize_t sent = gli_tls_send(f->from, parts, n);
  if (sent < 0) {
    assert_int_equal(errno, EAGAIN);
    assert_true(was_unsent && gli_tls_unsent(f->from));
    return;
  }
  assert_true((size_t)sent <= all);
  /* A short count occurs only after the socket has refused part of the data. */
  if ((size_t)sent < all) assert_true(gli_tls_unsent(f->from));
  f->refused = f->refused || gli_tls_unsent(f->from);
  f->sent += (size_t)sent;
}

/* Receives as the library does: if the socket or TLS has data. */
static void flow_receive(flow *f) {
  struct iovec parts[PARTS_MAX];
  int n;
  if (!readable(f->fd) && !gli_tls_pending(f->to)) return;
  size_t all =
      draw_parts(f->heard + f->received, f->bytes - f->received + 9, parts, &n);
  ssize_t got = gli_tls_receive(f->to, parts, n);
  if (got < 0) {
    assert_int_equal(errno, EAGAIN);
    return;
  }
  if (all > 0) assert_true(got > 0);
  f->received += (size_t)got;
  assert_true(f->received <= f->sent);
}

static void flow_run(flow *f) {
  time_t until = time(NULL) + PATIENCE_S;
  while (f->received < f->bytes) {
    assert_true(time(NULL) < until);
    if (f->sent < f->bytes || gli_tls_unsent(f->from))
      for (size_t i = draw(3); i > 0; i--) flow_send(f);
    for (size_t i = draw(3); i > 0; i--) flow_receive(f);
  }
  assert_false(gli_tls_unsent(f->from));
  assert_memory_equal(f->heard, f->said, f->bytes);
}

static void flow_between(const tls_ends *ends, int from, size_t bytes,
                         bool *refused) {
  flow f = {.from = ends->end[from].tls,
            .to = ends->end[1 - from].tls,
            .fd = ends->end[1 - from].fd,
            .said = malloc(bytes + 9),
            .heard = calloc(1, bytes + 9),
            .bytes = bytes};
  assert_true(f.said != NULL && f.heard != NULL);
  for (size_t i = 0; i < bytes; i++) f.said[i] = (uint8_t)draw(256);
  flow_run(&f);
  *refused = *refused || f.refused;
  free(f.said);
  free(f.heard);
}

static void pieces_of_all_sizes_arrive_in_order(void **state) {
  static const struct {
    void (*make)(int fds[ENDS], int room);
    int room;
  } sockets[] = {
      {make_local, 0}, {make_local, 2048}, {make_tcp, 0}, {make_tcp, 1024}};
  static const size_t sizes[] = {1, 2, 16383, 16384, 16385, 70000, 3000000};
  (void)state;
  for (size_t i = 0; i < sizeof sockets / sizeof *sockets; i++) {
    int fds[ENDS];
    bool refused = false;
    sockets[i].make(fds, sockets[i].room);
    tls_ends ends = open_on(fds);
    for (size_t k = 0; k < 7; k++)
      flow_between(&ends, k % ENDS, sizes[k], &refused);
    /* A small buffer must have refused some data. */
    if (sockets[i].room > 0) assert_true(refused);
    ends_close(&ends);
  }
}

/* ---- retained bytes ------------------------------------------------------ */

static size_t send_until_refused(gli_tls *tls, const uint8_t *said,
                                 size_t bytes) {
  size_t sent = 0;
  while (sent < bytes && !gli_tls_unsent(tls)) {
    ssize_t n = ends_send(tls, said + sent, bytes - sent);
    assert_true(n > 0);
    sent += (size_t)n;
  }
  return sent;
}

static void what_is_kept_goes_first(void **state) {
  enum { BYTES = 1 << 20 };
  uint8_t *said = malloc(BYTES), *heard = calloc(1, BYTES);
  int fds[ENDS];
  (void)state;
  assert_true(said != NULL && heard != NULL);
  for (size_t i = 0; i < BYTES; i++) said[i] = (uint8_t)draw(256);
  make_local(fds, 4096);
  tls_ends ends = open_on(fds);
  gli_tls *from = ends.end[HERE].tls, *to = ends.end[THERE].tls;
  size_t sent = send_until_refused(from, said, BYTES), got = 0;
  assert_true(sent > 0 && sent < BYTES);
  /* No more data is accepted, in repeated calls also. */
  for (int i = 0; i < 3; i++) {
    assert_int_equal(ends_send(from, said + sent, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_true(gli_tls_flush(from));
    assert_true(gli_tls_unsent(from));
  }
  /* Other bytes at another address may follow. */
  memset(said + sent, 'x', 5);
  while (gli_tls_unsent(from)) {
    ssize_t n = ends_receive(to, heard + got, BYTES - got);
    if (n > 0) got += (size_t)n;
    assert_true(gli_tls_flush(from));
  }
  assert_int_equal(ends_send(from, "xxxxx", 5), 5);
  while (got < sent + 5) {
    ssize_t n = ends_receive(to, heard + got, BYTES - got);
    assert_true(n > 0);
    got += (size_t)n;
    assert_true(gli_tls_flush(from));
  }
  assert_memory_equal(heard, said, got);
  ends_close(&ends);
  free(said);
  free(heard);
}

/* close_notify follows the retained bytes. */
static void the_end_comes_behind_what_is_kept(void **state) {
  static uint8_t said[1 << 20];
  int fds[ENDS];
  (void)state;
  make_local(fds, 4096);
  tls_ends ends = open_on(fds);
  gli_tls *from = ends.end[HERE].tls, *to = ends.end[THERE].tls;
  size_t sent = send_until_refused(from, said, sizeof said), got = 0;
  gli_tls_shut(from);
  assert_true(gli_tls_unsent(from));
  for (;;) {
    uint8_t heard[1000];
    ssize_t n = ends_receive(to, heard, sizeof heard);
    if (n == 0) break;
    if (n > 0) got += (size_t)n;
    assert_true(gli_tls_flush(from));
  }
  assert_int_equal(got, sent);
  assert_false(gli_tls_unsent(from));
  ends_close(&ends);
}

static void what_is_kept_for_nobody_fails(void **state) {
  static uint8_t said[1 << 20];
  int fds[ENDS];
  (void)state;
  make_local(fds, 4096);
  tls_ends ends = open_on(fds);
  gli_tls *from = ends.end[HERE].tls;
  assert_int_equal(ends_send(ends.end[THERE].tls, "bye", 3), 3);
  (void)send_until_refused(from, said, sizeof said);
  (void)shutdown(ends.end[HERE].fd, SHUT_WR);
  for (int i = 0; i < 2; i++) {
    assert_false(gli_tls_flush(from));
    assert_int_equal(errno, EPIPE);
    assert_int_equal(ends_send(from, said, 1), -1);
    assert_int_equal(errno, EPIPE);
  }
  assert_int_equal(ends_receive(from, said, sizeof said), 3);
  ends_close(&ends);
}

/* Received data also survives a failing key update. */
static void what_has_come_outlives_any_write_that_fails(void **state) {
  enum { RECORDS = 8 };
  (void)state;
  for (int n = 0; n < RECORDS; n++) {
    uint8_t heard[8];
    int fds[ENDS];
    make_local(fds, 0);
    tls_ends ends = open_on(fds);
    gli_tls *from = ends.end[HERE].tls;
    for (int i = 0; i < n; i++) assert_int_equal(ends_send(from, "on", 2), 2);
    assert_int_equal(ends_send(ends.end[THERE].tls, "bye", 3), 3);
    (void)shutdown(ends.end[HERE].fd, SHUT_WR);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(ends_send(from, "on", 2), -1);
      assert_int_equal(errno, EPIPE);
    }
    assert_int_equal(ends_receive(from, heard, sizeof heard), 3);
    assert_memory_equal(heard, "bye", 3);
    assert_int_equal(ends_receive(from, heard, sizeof heard), -1);
    assert_int_equal(errno, EAGAIN);
    ends_close(&ends);
  }
}

/* ---- bytes pending in TLS ------------------------------------------------ */

static void hidden_bytes_are_told_of(void **state) {
  uint8_t byte;
  int fds[ENDS];
  (void)state;
  make_local(fds, 0);
  tls_ends ends = open_on(fds);
  gli_tls *from = ends.end[HERE].tls, *to = ends.end[THERE].tls;
  for (int i = 0; i < 3; i++) assert_int_equal(ends_send(from, "two", 2), 2);
  assert_false(gli_tls_pending(to));
  for (int i = 0; i < 6; i++) {
    assert_int_equal(ends_receive(to, &byte, 1), 1);
    assert_int_equal(byte, "tw"[i % 2]);
    assert_false(readable(ends.end[THERE].fd));
    assert_int_equal(gli_tls_pending(to), i < 5);
  }
  assert_int_equal(ends_receive(to, &byte, 1), -1);
  assert_int_equal(errno, EAGAIN);
  assert_false(gli_tls_pending(to));
  ends_close(&ends);
}

/* Data arrives with the last bytes of the handshake, in one read. */
static void bytes_behind_the_handshake_are_told_of(void **state) {
  gli_tls_settings *settings = ends_by_secret();
  gli_key key = ends_key(5);
  uint8_t heard[8];
  (void)state;
  tls_ends ends = ends_open(settings, settings, &key, &key);
  tls_end *here = &ends.end[HERE], *there = &ends.end[THERE];
  for (int i = 0; i < 5 && here->step != GLI_TLS_DONE; i++) {
    here->step = gli_tls_shake_hands(here->tls);
    if (here->step == GLI_TLS_DONE) break;
    (void)ends_carry(&ends);
    there->step = gli_tls_shake_hands(there->tls);
    (void)ends_carry(&ends);
  }
  assert_int_equal(ends_send(here->tls, "early", 5), 5);
  (void)ends_carry(&ends);
  assert_int_equal(gli_tls_shake_hands(there->tls), GLI_TLS_DONE);
  assert_true(gli_tls_pending(there->tls));
  assert_false(readable(there->fd));
  assert_int_equal(ends_receive(there->tls, heard, sizeof heard), 5);
  assert_memory_equal(heard, "early", 5);
  ends_close(&ends);
  gli_tls_settings_release(settings);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_of_all_sizes_arrive_in_order),
      cmocka_unit_test(what_is_kept_goes_first),
      cmocka_unit_test(the_end_comes_behind_what_is_kept),
      cmocka_unit_test(what_is_kept_for_nobody_fails),
      cmocka_unit_test(what_has_come_outlives_any_write_that_fails),
      cmocka_unit_test(hidden_bytes_are_told_of),
      cmocka_unit_test(bytes_behind_the_handshake_are_told_of),
  };
  ends_forget_environment();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
