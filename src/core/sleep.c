/* Waiting for descriptors, with a resolution of nanoseconds where there is one.
 */
#if GLI_LINUX
#define _GNU_SOURCE /* ppoll */
#endif
#include "core/sleep.h"

#include <poll.h>
#include <time.h>

void gli_sleep_add(gli_sleep *sleep, int fd, uint64_t due_ns) {
  if (fd >= 0 && sleep->fds < GLI_SLEEP_FDS) sleep->fd[sleep->fds++] = fd;
  if (due_ns == 0) return;
  if (sleep->due_ns == 0 || due_ns < sleep->due_ns) sleep->due_ns = due_ns;
}

static int64_t limit_of(const gli_sleep *sleep, uint64_t now_ns,
                        int64_t timeout_ns) {
  if (sleep->due_ns == 0) return timeout_ns;
  uint64_t left = sleep->due_ns > now_ns ? sleep->due_ns - now_ns : 0;
  if (timeout_ns >= 0 && left > (uint64_t)timeout_ns) return timeout_ns;
  return left > INT64_MAX ? INT64_MAX : (int64_t)left;
}

void gli_sleep_wait(const gli_sleep *sleep, uint64_t now_ns,
                    int64_t timeout_ns) {
  struct pollfd fds[GLI_SLEEP_FDS];
  for (int i = 0; i < sleep->fds; i++)
    fds[i] = (struct pollfd){.fd = sleep->fd[i], .events = POLLIN};
  int64_t limit_ns = limit_of(sleep, now_ns, timeout_ns);
#if GLI_LINUX
  struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000),
                           .tv_nsec = (long)(limit_ns % 1000000000)};
  (void)ppoll(fds, (nfds_t)sleep->fds, limit_ns < 0 ? NULL : &limit, NULL);
#else
  const int64_t longest_ms = 1000000000;
  int64_t ms = limit_ns < 0 ? -1 : limit_ns / 1000000 + 1;
  (void)poll(fds, (nfds_t)sleep->fds, (int)(ms > longest_ms ? longest_ms : ms));
#endif
}
