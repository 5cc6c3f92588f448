/* Readiness of sockets by WSAPoll. libuv's poll handles are no alternative: a
 * thread can wait for them only by running their loop, while any thread may
 * sleep on a group (docs/adr/0079). */
#include "windows/posix.h"
#undef SHORT
#undef WORD

typedef struct member {
  int fd;
  struct epoll_event event;
} member;

/* A change of a group wakes the sleepers with a byte in the group's pipe. The
 * last sleeper reads the byte. */
typedef struct group {
  member *members;
  int n, room, first; /* `first`: member to report first, so that all get on */
  int sleepers, wake[2];
  bool woken;
} group;

enum { GROUPS_MAX = 4096 };
static SRWLOCK lock = SRWLOCK_INIT;
static group *groups[GROUPS_MAX];

static group *group_of(int fd) {
  int i = fd & ~GLI_MARKS;
  if (fd > 0 && (fd & GLI_MARKS) == GLI_MARK_GROUP && i < GROUPS_MAX &&
      groups[i] != NULL)
    return groups[i];
  errno = EBADF;
  return NULL;
}

/* ---- waiting ------------------------------------------------------------- */

/* Sockets to look at; `few` has room for those that most calls have. */
typedef struct look {
  WSAPOLLFD few[32], *fds;
  ULONG n, room;
} look;

static bool look_add(look *at, SOCKET s, SHORT events) {
  if (at->n == at->room) {
    ULONG room = at->room * 2;
    WSAPOLLFD *more = malloc(room * sizeof *more);
    if (more == NULL) {
      errno = ENOMEM;
      return false;
    }
    memcpy(more, at->fds, at->n * sizeof *more);
    if (at->fds != at->few) free(at->fds);
    at->fds = more;
    at->room = room;
  }
  at->fds[at->n++] = (WSAPOLLFD){.fd = s, .events = events};
  return true;
}

static void look_end(look *at) {
  if (at->fds != at->few) free(at->fds);
}

static SHORT look_events(uint32_t events) {
  return (SHORT)(((events & EPOLLIN) != 0 ? POLLRDNORM : 0) |
                 ((events & EPOLLOUT) != 0 ? POLLWRNORM : 0));
}

/* Returns the number of ready sockets, or -1 with errno. */
static int look_wait(look *at, int timeout_ms) {
  if (at->n == 0) {
    Sleep(timeout_ms < 0 ? INFINITE : (DWORD)timeout_ms);
    return 0;
  }
  int n = WSAPoll(at->fds, at->n, timeout_ms);
  if (n >= 0) return n;
  errno = gli_windows_errno((DWORD)WSAGetLastError());
  return -1;
}

/* Returns the sum of POLLIN and so on that were asked for or are errors. */
static short look_seen(const WSAPOLLFD *one, short wanted) {
  short seen = (short)(one->revents & (POLLERR | POLLHUP | POLLNVAL));
  if ((one->revents & POLLRDNORM) != 0) seen |= (short)(wanted & POLLIN);
  if ((one->revents & POLLWRNORM) != 0) seen |= (short)(wanted & POLLOUT);
  return seen;
}

/* ---- poll ---------------------------------------------------------------- */

/* Adds the members of a group, and then its pipe. */
static bool poll_add_group(look *at, group *g) {
  for (int i = 0; i < g->n; i++)
    if (!look_add(at, gli_windows_socket(g->members[i].fd),
                  look_events(g->members[i].event.events)))
      return false;
  return look_add(at, gli_windows_socket(g->wake[0]), POLLRDNORM);
}

static bool poll_add(look *at, struct gli_windows_pollfd *one) {
  one->revents = 0;
  if (one->fd < 0) return true;
  if ((one->fd & GLI_MARKS) != GLI_MARK_GROUP) {
    SOCKET s = gli_windows_socket(one->fd);
    uint32_t events = ((one->events & POLLIN) != 0 ? EPOLLIN : 0) |
                      ((one->events & POLLOUT) != 0 ? EPOLLOUT : 0);
    return s != INVALID_SOCKET && look_add(at, s, look_events(events));
  }
  AcquireSRWLockExclusive(&lock);
  group *g = group_of(one->fd);
  bool added = g != NULL && poll_add_group(at, g);
  if (added) g->sleepers++;
  ReleaseSRWLockExclusive(&lock);
  return added;
}

/* Takes what was seen of one descriptor. Returns the number of its sockets. */
static ULONG poll_take(look *at, ULONG from, struct gli_windows_pollfd *one,
                       bool *changed) {
  if (one->fd < 0) return 0;
  if ((one->fd & GLI_MARKS) != GLI_MARK_GROUP) {
    one->revents = look_seen(&at->fds[from], one->events);
    return 1;
  }
  AcquireSRWLockExclusive(&lock);
  group *g = group_of(one->fd);
  SOCKET end = g != NULL ? gli_windows_socket(g->wake[0]) : INVALID_SOCKET;
  ULONG n = 0;
  while (from + n < at->n && at->fds[from + n].fd != end)
    if (at->fds[from + n++].revents != 0)
      one->revents = (short)(one->events & POLLIN);
  if (from + n < at->n && at->fds[from + n].revents != 0) *changed = true;
  if (g != NULL && --g->sleepers == 0 && g->woken) {
    char byte;
    (void)gli_windows_recv(g->wake[0], &byte, 1, 0);
    g->woken = false;
  }
  ReleaseSRWLockExclusive(&lock);
  return n + 1;
}

int gli_windows_poll(struct gli_windows_pollfd *fds, nfds_t n, int timeout_ms) {
  look at = {.fds = at.few, .room = sizeof at.few / sizeof at.few[0]};
  bool changed = false;
  nfds_t added = 0;
  while (added < n && poll_add(&at, &fds[added])) added++;
  int code = added < n ? -1 : look_wait(&at, timeout_ms), ready = 0;
  int error = errno;
  ULONG from = 0;
  for (nfds_t i = 0; i < added; i++) {
    from += poll_take(&at, from, &fds[i], &changed);
    if (fds[i].revents != 0) ready++;
  }
  look_end(&at);
  errno = changed ? EINTR : error;
  return code < 0 || (ready == 0 && changed) ? -1 : ready;
}

/* ---- groups -------------------------------------------------------------- */

static group *group_new(void) {
  group *g = calloc(1, sizeof *g);
  if (g == NULL || gli_windows_pipe(g->wake) == 0) return g;
  int code = errno;
  free(g);
  errno = code;
  return NULL;
}

int epoll_create1(int flags) {
  (void)flags;
  group *g = group_new();
  if (g == NULL) return -1;
  int i = 0;
  AcquireSRWLockExclusive(&lock);
  while (i < GROUPS_MAX && groups[i] != NULL) i++;
  if (i < GROUPS_MAX) groups[i] = g;
  ReleaseSRWLockExclusive(&lock);
  if (i < GROUPS_MAX) return i | GLI_MARK_GROUP;
  (void)gli_windows_close(g->wake[0]);
  (void)gli_windows_close(g->wake[1]);
  free(g);
  errno = EMFILE;
  return -1;
}

void gli_windows_group_close(int fd) {
  AcquireSRWLockExclusive(&lock);
  group *g = group_of(fd);
  if (g != NULL) groups[fd & ~GLI_MARKS] = NULL;
  ReleaseSRWLockExclusive(&lock);
  if (g == NULL) return;
  (void)gli_windows_close(g->wake[0]);
  (void)gli_windows_close(g->wake[1]);
  free(g->members);
  free(g);
}

/* Returns 0 or errno. */
static int group_change(group *g, int operation, int fd,
                        const struct epoll_event *event) {
  int i = 0;
  while (i < g->n && g->members[i].fd != fd) i++;
  if (gli_windows_socket(fd) == INVALID_SOCKET) return errno;
  if (operation != EPOLL_CTL_ADD && i == g->n) return ENOENT;
  if (operation == EPOLL_CTL_ADD && i < g->n) return EEXIST;
  if (operation == EPOLL_CTL_DEL) {
    g->members[i] = g->members[--g->n];
    return 0;
  }
  if (i == g->room) {
    int room = g->room * 2 + 16;
    member *more = realloc(g->members, (size_t)room * sizeof *more);
    if (more == NULL) return ENOMEM;
    g->members = more;
    g->room = room;
  }
  if (i == g->n) g->n++;
  g->members[i] = (member){fd, *event};
  return 0;
}

int epoll_ctl(int fd, int operation, int member_fd, struct epoll_event *event) {
  AcquireSRWLockExclusive(&lock);
  group *g = group_of(fd);
  int code = g != NULL ? group_change(g, operation, member_fd, event) : EBADF;
  if (code == 0 && g->sleepers > 0 && !g->woken)
    g->woken = gli_windows_send(g->wake[1], "", 1, 0) == 1;
  ReleaseSRWLockExclusive(&lock);
  if (code == 0) return 0;
  errno = code;
  return -1;
}

static uint32_t group_seen(const WSAPOLLFD *one, uint32_t wanted) {
  uint32_t seen = 0;
  if ((one->revents & POLLRDNORM) != 0) seen |= wanted & EPOLLIN;
  if ((one->revents & POLLWRNORM) != 0) seen |= wanted & EPOLLOUT;
  if ((one->revents & (POLLERR | POLLNVAL)) != 0) seen |= EPOLLERR;
  if ((one->revents & POLLHUP) != 0) seen |= EPOLLHUP;
  return seen;
}

int epoll_wait(int fd, struct epoll_event *events, int room, int timeout_ms) {
  look at = {.fds = at.few, .room = sizeof at.few / sizeof at.few[0]};
  int found = 0;
  (void)timeout_ms;
  AcquireSRWLockExclusive(&lock);
  group *g = group_of(fd);
  int code = g != NULL ? 0 : -1;
  for (int i = 0; code == 0 && i < g->n; i++)
    if (!look_add(&at, gli_windows_socket(g->members[i].fd),
                  look_events(g->members[i].event.events)))
      code = -1;
  if (code == 0 && at.n > 0 && look_wait(&at, 0) < 0) code = -1;
  for (int k = 0; code == 0 && k < g->n && found < room; k++) {
    int i = (g->first + k) % g->n;
    uint32_t seen = group_seen(&at.fds[i], g->members[i].event.events);
    if (seen != 0)
      events[found++] = (struct epoll_event){seen, g->members[i].event.data};
    if (found == room) g->first = i + 1;
  }
  ReleaseSRWLockExclusive(&lock);
  look_end(&at);
  return code == 0 ? found : -1;
}
