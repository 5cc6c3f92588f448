#include "tls_ends.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void ends_forget_environment(void) {
  unsetenv("GLOO_TLS");
  unsetenv("GLOO_TLS_CERTIFICATE");
  unsetenv("GLOO_TLS_KEY");
  unsetenv("GLOO_TLS_AUTHORITY");
  unsetenv("GLOO_TLS_NAME");
}

gli_tls_settings *ends_settings(const gloo_tls_options *options) {
  gloo_error e;
  gli_tls_settings *settings = NULL;
  if (gli_tls_settings_read(options, &settings, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  assert_non_null(settings);
  return settings;
}

gli_tls_settings *ends_by_secret(void) {
  gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  o.use = 1;
  return ends_settings(&o);
}

gli_tls_settings *ends_by_certificate(const char *file, const char *authority) {
  gloo_tls_options o = GLOO_TLS_OPTIONS_INIT;
  o.use = 1;
  o.certificate = file;
  o.authority = authority;
  return ends_settings(&o);
}

gli_key ends_key(uint8_t first) {
  gli_key key = {{first, 2, 3}};
  return key;
}

/* ---- opening and closing ------------------------------------------------- */

static tls_end end_open(int fd, int wire, gli_tls_settings *settings,
                        bool accepts, const gli_key *key) {
  tls_end end = {.fd = fd,
                 .wire = wire,
                 .flip_at = ENDS_NEVER,
                 .flip = 1,
                 .cut_at = ENDS_NEVER,
                 .step = GLI_TLS_WAITS};
  gloo_error e;
  assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  if (gli_tls_open(settings, fd, accepts, key, &end.tls, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return end;
}

static tls_end end_open_at_wire(gli_tls_settings *settings, bool accepts,
                                const gli_key *key) {
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
  return end_open(fds[0], fds[1], settings, accepts, key);
}

tls_ends ends_open(gli_tls_settings *here, gli_tls_settings *there,
                   const gli_key *key_here, const gli_key *key_there) {
  return (tls_ends){{end_open_at_wire(here, false, key_here),
                     end_open_at_wire(there, true, key_there)}};
}

tls_ends ends_open_on(const int fds[ENDS], gli_tls_settings *here,
                      gli_tls_settings *there, const gli_key *key) {
  return (tls_ends){{end_open(fds[HERE], -1, here, false, key),
                     end_open(fds[THERE], -1, there, true, key)}};
}

void ends_close(tls_ends *ends) {
  for (int i = 0; i < ENDS; i++) {
    tls_end *end = &ends->end[i];
    gli_tls_destroy(end->tls);
    if (end->fd >= 0) close(end->fd);
    if (end->wire >= 0) close(end->wire);
    end->tls = NULL;
    end->fd = end->wire = -1;
  }
}

/* ---- the wire ------------------------------------------------------------ */

static size_t wire_carry(tls_end *from, tls_end *to) {
  uint8_t bytes[4096];
  if (from->wire < 0) return 0;
  ssize_t got = recv(from->wire, bytes, sizeof bytes, 0);
  if (got == 0 && !from->hung_up) {
    from->hung_up = true;
    (void)shutdown(to->wire, SHUT_WR);
  }
  if (got <= 0) return 0;
  size_t left = (size_t)got, begin = from->carried;
  from->carried += left;
  if (from->flip_at >= begin && from->flip_at < begin + left)
    bytes[from->flip_at - begin] ^= from->flip;
  if (from->cut_at < begin + left)
    left = from->cut_at > begin ? from->cut_at - begin : 0;
  for (size_t at = 0; at < left;) {
    ssize_t n = send(to->wire, bytes + at, left - at, MSG_NOSIGNAL);
    if (n < 0) break; /* the other end is closed, or its buffer is full */
    at += (size_t)n;
  }
  return (size_t)got;
}

size_t ends_carry(tls_ends *ends) {
  size_t carried = 0, more;
  do {
    more = wire_carry(&ends->end[HERE], &ends->end[THERE]) +
           wire_carry(&ends->end[THERE], &ends->end[HERE]);
    carried += more;
  } while (more > 0);
  return carried;
}

/* ---- the handshake ------------------------------------------------------- */

static void end_go_on(tls_end *end) {
  if (end->step != GLI_TLS_WAITS) return;
  end->step = gli_tls_shake_hands(end->tls);
  if (end->step == GLI_TLS_FAILED) end->code = errno;
  if (end->step == GLI_TLS_FAILED) (void)shutdown(end->fd, SHUT_WR);
}

bool ends_shake_hands(tls_ends *ends) {
  enum { IDLE_TURNS = 4 };
  for (int idle = 0; idle < IDLE_TURNS; idle++) {
    end_go_on(&ends->end[HERE]);
    end_go_on(&ends->end[THERE]);
    if (ends_carry(ends) > 0) idle = 0;
  }
  return ends->end[HERE].step == GLI_TLS_DONE &&
         ends->end[THERE].step == GLI_TLS_DONE;
}

void ends_assert_why(const tls_ends *ends, int which, const char *why) {
  const tls_end *end = &ends->end[which];
  int code = end->code;
  if (end->step == GLI_TLS_DONE) { /* its first read reports the failure */
    uint8_t byte;
    assert_int_equal(ends_receive(end->tls, &byte, 1), -1);
    code = errno;
  }
  assert_int_equal(code, EBADMSG);
  if (strstr(gli_tls_why(end->tls), why) == NULL)
    fail_msg("end %d says: %s", which, gli_tls_why(end->tls));
}

/* ---- sending and receiving ----------------------------------------------- */

ssize_t ends_send(gli_tls *tls, const void *data, size_t bytes) {
  const struct iovec part = {(void *)(uintptr_t)data, bytes};
  return gli_tls_send(tls, &part, 1);
}

ssize_t ends_receive(gli_tls *tls, void *data, size_t bytes) {
  const struct iovec part = {data, bytes};
  return gli_tls_receive(tls, &part, 1);
}

void ends_assert_talk(tls_ends *ends) {
  static const char text[] = "what is said";
  char heard[64];
  for (int i = 0; i < ENDS; i++) {
    gli_tls *from = ends->end[i].tls, *to = ends->end[1 - i].tls;
    assert_int_equal(ends_send(from, text, sizeof text), sizeof text);
    (void)ends_carry(ends);
    assert_int_equal(ends_receive(to, heard, sizeof heard), sizeof text);
    assert_string_equal(heard, text);
  }
}
