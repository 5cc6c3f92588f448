#include "rendezvous/tcp_race.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_socket.h"

#define RUNNERS_MAX 16
#define HEAD_START_NS INT64_C(300000000)

typedef struct race {
  const struct sockaddr_storage *addresses;
  size_t n;
  bool *failed;
  int fds[RUNNERS_MAX]; /* -1: not begun, or failed */
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

/* The number of one that has connected, or -1. Sleeps no longer than that, and
 * than a second. */
static int race_look(race *r, int64_t left_ns) {
  struct pollfd ready[RUNNERS_MAX];
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

/* In two parts: those before `late`, then all. */
static int race_run(race *r, size_t late, uint64_t deadline_ns) {
  const size_t ends[] = {late, r->n};
  uint64_t start = gli_deadline_after(HEAD_START_NS);
  size_t begun = 0;
  for (int part = 0; part < 2; part++) {
    for (; begun < ends[part]; begun++)
      if (race_begin(r, begun)) return (int)begun;
    uint64_t until = part == 0 && start < deadline_ns ? start : deadline_ns;
    while (race_is_on(r)) {
      int64_t left = gli_deadline_left(until);
      if (left == 0) break;
      int winner = race_look(r, left);
      if (winner >= 0) return winner;
    }
  }
  if (race_is_on(r)) r->code = ETIMEDOUT;
  return -1;
}

int gli_tcp_race(const struct sockaddr_storage *addresses, size_t n,
                 size_t late, uint64_t deadline_ns, bool *failed, int *code) {
  race r = {.addresses = addresses,
            .n = n < RUNNERS_MAX ? n : RUNNERS_MAX,
            .failed = failed,
            .code = ETIMEDOUT};
  for (size_t i = 0; i < RUNNERS_MAX; i++) r.fds[i] = -1;
  int winner = race_run(&r, late < r.n ? late : r.n, deadline_ns);
  for (size_t i = 0; i < r.n; i++) gli_fd_close(r.fds[i]);
  *code = r.code;
  return winner;
}
