#include "net/tcp_race.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

#include "net/conn.h"
#include "net/time_limit.h"

#define TURN_NS INT64_C(250000000)

typedef struct race {
  const struct sockaddr_storage *addresses;
  size_t n;
  bool *failed;
  gli_conn conns[GLI_TCP_RACE_MAX];
  int code;
} race;

static void race_fail(race *r, size_t i, int code) {
  gli_conn_close(&r->conns[i]);
  r->failed[i] = true;
  r->code = code;
}

static void race_begin(race *r, size_t i) {
  const gli_endpoint *to = (const gli_endpoint *)&r->addresses[i];
  if (r->failed[i]) return;
  int code = gli_conn_open(&r->conns[i], NULL, to->any.sa_family);
  if (code == 0) code = gli_conn_connect(&r->conns[i], to);
  if (code != 0) race_fail(r, i, code);
}

/* Returns the index of a connected address, or -1. Sleeps for at most
 * `left_ns`, and at most a second. */
static int race_look(race *r, int64_t left_ns) {
  struct pollfd ready[GLI_TCP_RACE_MAX];
  nfds_t n = 0;
  for (size_t i = 0; i < r->n; i++)
    if (r->conns[i].state == GLI_CONN_CONNECTING)
      ready[n++] =
          (struct pollfd){.fd = r->conns[i].watch.fd, .events = POLLOUT};
  int ms =
      left_ns < 0 || left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000);
  if (poll(ready, n, ms + 1) <= 0) return -1;
  for (size_t i = 0, k = 0; i < r->n; i++) {
    gli_conn *conn = &r->conns[i];
    if (conn->state != GLI_CONN_CONNECTING || ready[k++].revents == 0) continue;
    if (gli_conn_finish(conn, 0)) return (int)i;
    race_fail(r, i, conn->code);
  }
  return -1;
}

static bool race_is_on(const race *r) {
  for (size_t i = 0; i < r->n; i++)
    if (r->conns[i].state == GLI_CONN_CONNECTING) return true;
  return false;
}

static int race_run(race *r, uint64_t deadline_ns) {
  uint64_t turn = 0; /* time to start the next attempt */
  size_t begun = 0;
  for (;;) {
    bool on = race_is_on(r);
    if (begun < r->n && (!on || gli_deadline_left(turn) == 0)) {
      turn = gli_deadline_after(TURN_NS);
      race_begin(r, begun++);
      continue;
    }
    if (!on) return -1;
    uint64_t until = begun < r->n && turn < deadline_ns ? turn : deadline_ns;
    int winner = race_look(r, gli_deadline_left(until));
    if (winner >= 0) return winner;
    if (gli_deadline_left(deadline_ns) == 0) break;
  }
  if (race_is_on(r)) r->code = ETIMEDOUT;
  return -1;
}

int gli_tcp_race(const struct sockaddr_storage *addresses, size_t n,
                 uint64_t deadline_ns, bool *failed, int *code) {
  race r = {.addresses = addresses,
            .n = n < GLI_TCP_RACE_MAX ? n : GLI_TCP_RACE_MAX,
            .failed = failed,
            .code = ETIMEDOUT};
  for (size_t i = 0; i < r.n; i++) gli_conn_init(&r.conns[i], NULL, NULL);
  int winner = race_run(&r, deadline_ns);
  for (size_t i = 0; i < r.n; i++) gli_conn_close(&r.conns[i]);
  *code = r.code;
  return winner;
}
