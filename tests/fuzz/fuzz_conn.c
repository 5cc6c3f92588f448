/* The life of a connection (net/conn.h), with an owner and a peer that do
 * anything in any order. The input is a sequence of steps. A model follows:
 * which moves are legal, which callbacks may come, and which bytes arrive. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "net/conn.h"

enum { STEPS_MAX = 64 };

typedef struct conn_use {
  gli_events *events;
  gli_conn conn;
  gli_conn_state seen; /* the state after the last step */
  bool ended;          /* the callback was made */
  bool closed;
  int peer;          /* the other end, -1 if closed */
  uint8_t next_sent; /* the peer's bytes count up, and the owner's down */
  uint8_t next_read;
  uint8_t next_written, next_heard;
} conn_use;

/* ---- the owner ----------------------------------------------------------- */

static void check_callback(const conn_use *use) {
  fuzz_check(!use->closed, "no callback comes after the close");
  fuzz_check(!use->ended, "no callback comes after the end");
}

static void on_greets(void *owner) {
  conn_use *use = owner;
  check_callback(use);
  fuzz_check(use->conn.state == GLI_CONN_GREETING, "it greets in GREETING");
}

static void owner_reads(conn_use *use) {
  uint8_t bytes[64];
  ssize_t got = gli_conn_read(&use->conn, bytes, sizeof bytes);
  for (ssize_t i = 0; i < got; i++)
    fuzz_check(bytes[i] == use->next_read++, "bytes arrive once, in order");
  if (got == 0) gli_conn_end(&use->conn, GLI_CONN_CLOSED);
  if (got < 0 && errno != EAGAIN) gli_conn_end(&use->conn, errno);
}

static void on_ready(void *owner, int events) {
  conn_use *use = owner;
  check_callback(use);
  fuzz_check(
      use->conn.state >= GLI_CONN_GREETING && use->conn.state < GLI_CONN_ENDED,
      "events come between GREETING and ENDED");
  fuzz_check((events & GLI_UNWATCHED) == 0, "what is not watched has ended");
  owner_reads(use);
}

static void on_ended(void *owner, int code) {
  conn_use *use = owner;
  check_callback(use);
  fuzz_check(
      code != 0 && code == use->conn.code && use->conn.state == GLI_CONN_ENDED,
      "an end has a cause");
  use->ended = true;
}

static const gli_conn_calls calls = {on_greets, on_ready, on_ended};

static void owner_writes(conn_use *use, size_t bytes) {
  uint8_t data[256];
  if (use->closed || use->conn.state != GLI_CONN_UP) return;
  for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(use->next_written - i);
  ssize_t sent = gli_conn_write(&use->conn, data, bytes);
  if (sent > 0) use->next_written = (uint8_t)(use->next_written - sent);
}

static void owner_moves(conn_use *use, uint8_t to) {
  gli_conn_state from = use->conn.state;
  gli_conn_state state = (gli_conn_state)(to % GLI_CONN_STATES);
  /* The others come with a system call or TLS, which this would leave out. */
  if (state == GLI_CONN_SECURING) return;
  if (state > from && state != GLI_CONN_UP) return;
  bool moved = gli_conn_move(&use->conn, state);
  fuzz_check(moved == (from == GLI_CONN_GREETING && state == GLI_CONN_UP),
             "only a greeting leads up, and no move back");
  fuzz_check(use->conn.state == (moved ? state : from),
             "a move is all or none");
}

/* ---- the peer ------------------------------------------------------------ */

static void peer_sends(conn_use *use, size_t bytes) {
  uint8_t data[256];
  for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(use->next_sent + i);
  if (use->peer < 0) return;
  ssize_t sent = send(use->peer, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) use->next_sent = (uint8_t)(use->next_sent + sent);
}

static void peer_reads(conn_use *use) {
  uint8_t data[256];
  if (use->peer < 0) return;
  ssize_t got = recv(use->peer, data, sizeof data, MSG_DONTWAIT);
  for (ssize_t i = 0; i < got; i++)
    fuzz_check(data[i] == use->next_heard--, "bytes leave once, in order");
}

static void peer_leaves(conn_use *use) {
  if (use->peer >= 0) close(use->peer);
  use->peer = -1;
}

/* ---- one input ----------------------------------------------------------- */

static void step(conn_use *use, fuzz_input *input) {
  uint8_t kind = fuzz_take_u8(input), value = fuzz_take_u8(input);
  gli_conn *conn = &use->conn;
  switch (kind % 12) {
    case 0:
      (void)gli_events_poll(use->events);
      break;
    case 1:
      peer_sends(use, value);
      break;
    case 2:
      peer_reads(use);
      break;
    case 3:
      if (use->peer >= 0) (void)shutdown(use->peer, SHUT_WR);
      break;
    case 4:
      peer_leaves(use);
      break;
    case 5:
      owner_moves(use, value);
      break;
    case 6:
      owner_writes(use, value);
      break;
    case 7:
      if (!use->closed && conn->state < GLI_CONN_ENDED) gli_conn_await(conn);
      break;
    case 8:
      if (!use->closed && conn->state < GLI_CONN_ENDED)
        gli_conn_for(conn, value % 4);
      break;
    case 9:
      if (!use->closed) (void)gli_conn_shut(conn, (value & 1) != 0);
      break;
    case 10:
      gli_conn_end(conn, value != 0 ? value : GLI_CONN_NONSENSE);
      break;
    default:
      gli_conn_close(conn);
      use->closed = true;
  }
}

static void check_state(conn_use *use) {
  const gli_conn *conn = &use->conn;
  fuzz_check(conn->state >= use->seen, "no state comes again");
  use->seen = conn->state;
  fuzz_check(!use->closed || (conn->state == GLI_CONN_ENDED &&
                              conn->watch.fd == -1 && conn->tls == NULL),
             "a closed connection has ended and holds nothing");
  if (conn->state == GLI_CONN_ENDED)
    fuzz_check(use->closed || conn->watch.events == 0,
               "an ended one waits for nothing");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  conn_use use = {.next_written = 255, .next_heard = 255};
  int ends[2];
  fuzz_check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a pair is made");
  for (int i = 0; i < 2; i++)
    fuzz_check(fcntl(ends[i], F_SETFL, O_NONBLOCK) == 0, "it does not block");
  use.peer = ends[1];
  use.events = gli_events_open(NULL, NULL);
  fuzz_check(use.events != NULL, "a set is made");
  gli_conn_init(&use.conn, &calls, &use);
  fuzz_check(gli_conn_adopt(&use.conn, use.events, ends[0]) == 0,
             "the connection is adopted");
  fuzz_check(use.conn.state == GLI_CONN_GREETING, "it is greeted");
  use.seen = use.conn.state;
  for (int i = 0; i < STEPS_MAX && input.left > 0; i++) {
    step(&use, &input);
    check_state(&use);
  }
  gli_conn_close(&use.conn);
  peer_leaves(&use);
  gli_events_close(use.events);
  return 0;
}
