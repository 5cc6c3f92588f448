#include "net/tcp_race.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "net/tcp_socket.h"
#include "net/time_limit.h"

#define TURN_NS INT64_C(250000000)

typedef struct race {
  const struct sockaddr_storage *addresses;
  size_t n;
  bool *failed;
  int fds[GLI_TCP_RACE_MAX]; /* -1: not begun, or failed */
  int code;
} race;

static void race_fail(race *r, size_t i, int code) {
  gli_fd_close(r->fds[i]);
  r->fds[i] = -1;
  r->failed[i] = true;
  r->code = code;
}

/* Has it connected at once? */
static bool race_begin(race *r, size_t i) {
  if (r->failed[i]) return false;
  r->fds[i] = gli_socket_open(r->addresses[i].ss_family, SOCK_STREAM);
  if (r->fds[i] < 0) {
    race_fail(r, i, errno);
    return false;
  }
  if (connect(r->fds[i], (const struct sockaddr *)&r->addresses[i],
              gli_store_address_bytes(&r->addresses[i])) == 0)
    return true;
  if (errno != EINPROGRESS && errno != EINTR) race_fail(r, i, errno);
  return false;
}

/* Returns the index of an address that has connected, or -1. Sleeps for at most
 * `left_ns`, and at most a second. */
static int race_look(race *r, int64_t left_ns) {
  struct pollfd ready[GLI_TCP_RACE_MAX];
  nfds_t n = 0;
  for (size_t i = 0; i < r->n; i++)
    if (r->fds[i] >= 0)
      ready[n++] = (struct pollfd){.fd = r->fds[i], .events = POLLOUT};
  int ms =
      left_ns < 0 || left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000);
  if (poll(ready, n, ms + 1) <= 0) return -1;
  for (size_t i = 0, k = 0; i < r->n; i++) {
    int code = 0;
    socklen_t bytes = sizeof code;
    if (r->fds[i] < 0 || ready[k++].revents == 0) continue;
    if (getsockopt(r->fds[i], SOL_SOCKET, SO_ERROR, &code, &bytes) != 0)
      code = errno;
    if (code == 0) return (int)i;
    race_fail(r, i, code);
  }
  return -1;
}

static bool race_is_on(const race *r) {
  for (size_t i = 0; i < r->n; i++)
    if (r->fds[i] >= 0) return true;
  return false;
}

static int race_run(race *r, uint64_t deadline_ns) {
  uint64_t turn = 0; /* when the next one has its */
  size_t begun = 0;
  for (;;) {
    bool on = race_is_on(r);
    if (begun < r->n && (!on || gli_deadline_left(turn) == 0)) {
      turn = gli_deadline_after(TURN_NS);
      if (race_begin(r, begun++)) return (int)begun - 1;
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
  for (size_t i = 0; i < r.n; i++) r.fds[i] = -1;
  int winner = race_run(&r, deadline_ns);
  for (size_t i = 0; i < r.n; i++) gli_fd_close(r.fds[i]);
  *code = r.code;
  return winner;
}
