/* Readiness sets, in both forms: over epoll and over libuv's loop. With
 * WRAPPED, also system calls that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "net/events.h"

enum { PAIRS = 8, POLLS = 100 };

typedef struct end {
  gli_watch watch;
  int other; /* the descriptor it is connected to */
  int calls, events;
  struct end *victims; /* [n_victims] ends closed by the callback */
  int n_victims;
} end;

static int touches;

static void on_touched(void *user) {
  (void)user;
  touches++;
}

static void on_ready(void *owner, int events) {
  end *e = owner;
  e->calls++;
  e->events = events;
  for (int i = 0; i < e->n_victims; i++) gli_watch_close(&e->victims[i].watch);
}

static gli_events *set_of(end *ends, int n) {
  gli_events *set = gli_events_open(on_touched, NULL);
  assert_non_null(set);
  memset(ends, 0, sizeof *ends * (size_t)n);
  for (int i = 0; i < n; i++) {
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ends[i].other = fds[1];
    assert_true(
        gli_watch_init(&ends[i].watch, set, fds[0], on_ready, &ends[i]));
  }
  return set;
}

static void close_all(gli_events *set, end *ends, int n) {
  for (int i = 0; i < n; i++) {
    gli_watch_close(&ends[i].watch);
    if (ends[i].other >= 0) close(ends[i].other);
  }
  gli_events_close(set);
}

static void hang_up(end *e) {
  close(e->other);
  e->other = -1;
}

static void poll_often(gli_events *set) {
  for (int i = 0; i < POLLS; i++) gli_events_poll(set);
}

/* ---- reported events ----------------------------------------------------- */

static void what_is_ready_is_told_until_it_is_dealt_with(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  gli_watch_for(&e.watch, GLI_READABLE);
  poll_often(set);
  assert_int_equal(e.calls, 0);
  assert_int_equal(write(e.other, "a", 1), 1);
  gli_events_poll(set);
  gli_events_poll(set);
  assert_int_equal(e.calls, 2);
  assert_int_equal(e.events, GLI_READABLE);
  char byte;
  assert_int_equal(read(e.watch.fd, &byte, 1), 1);
  poll_often(set);
  assert_int_equal(e.calls, 2);
  gli_watch_for(&e.watch, GLI_READABLE | GLI_WRITABLE);
  gli_events_poll(set);
  assert_int_equal(e.calls, 3);
  assert_int_equal(e.events, GLI_WRITABLE);
  close_all(set, &e, 1);
}

static void nothing_is_told_where_nothing_is_asked_for(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  gli_watch_for(&e.watch, GLI_READABLE);
  gli_events_poll(set);
  gli_watch_for(&e.watch, 0);
  hang_up(&e);
  poll_often(set);
  assert_int_equal(e.calls, 0);
  struct pollfd sleeper = {.fd = gli_events_fd(set), .events = POLLIN};
  assert_int_equal(poll(&sleeper, 1, 0), 0);
  close_all(set, &e, 1);
}

static void an_end_is_told_whatever_is_asked_for(void **state) {
  (void)state;
  static const int asked[] = {GLI_READABLE, GLI_WRITABLE,
                              GLI_READABLE | GLI_WRITABLE};
  for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
    end e;
    gli_events *set = set_of(&e, 1);
    gli_watch_for(&e.watch, asked[i]);
    hang_up(&e);
    gli_events_poll(set);
    assert_int_equal(e.calls, 1);
    assert_true((e.events & asked[i]) != 0);
    assert_int_equal(e.events & ~(asked[i] | GLI_BROKEN), 0);
    close_all(set, &e, 1);
  }
}

/* Returns a port without a listener. */
static struct sockaddr_in nowhere(void) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t bytes = sizeof at;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&at, bytes), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
  close(fd);
  return at;
}

static void an_error_is_told_with_what_was_asked_for(void **state) {
  (void)state;
  struct sockaddr_in at = nowhere();
  end e = {.other = -1};
  gli_events *set = gli_events_open(NULL, NULL);
  int fd = gli_socket_open(AF_INET, SOCK_STREAM);
  assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), -1);
  assert_true(gli_watch_init(&e.watch, set, fd, on_ready, &e));
  gli_watch_for(&e.watch, GLI_WRITABLE);
  for (int i = 0; i < POLLS && e.calls == 0; i++) {
    struct pollfd sleeper = {.fd = gli_events_fd(set), .events = POLLIN};
    gli_events_poll(set);
    if (e.calls == 0) (void)poll(&sleeper, 1, 1000);
  }
  assert_int_equal(e.events, GLI_WRITABLE | GLI_BROKEN);
  poll_often(set); /* the condition persists, and may be ignored */
  assert_true(e.calls > 1);
  close_all(set, &e, 1);
}

/* A watch that begins at once wakes a thread that goes to sleep next, or asks it
 * to poll first. */
static void watch_that_begins_at_once_misses_nothing(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  assert_int_equal(write(e.other, "", 1), 1);
  int before = touches;
  assert_true(gli_watch_now(&e.watch, GLI_READABLE));
  struct pollfd sleeper = {gli_events_fd(set), POLLIN, 0};
  assert_true(poll(&sleeper, 1, 0) == 1 || touches != before);
  (void)gli_events_poll(set);
  assert_int_equal(e.calls, 1);
  close_all(set, &e, 1);
}

static void a_sleeper_is_woken_by_what_the_poll_would_find(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  struct pollfd sleeper = {.fd = gli_events_fd(set), .events = POLLIN};
  int before = touches;
  gli_watch_for(&e.watch, GLI_READABLE);
  assert_int_equal(touches, before + 1); /* the next poll is needed */
  gli_events_poll(set);
  assert_int_equal(poll(&sleeper, 1, 0), 0);
  assert_int_equal(write(e.other, "a", 1), 1);
  assert_int_equal(poll(&sleeper, 1, 10000), 1);
  gli_events_poll(set);
  assert_int_equal(e.calls, 1);
  close_all(set, &e, 1);
}

/* ---- closing ------------------------------------------------------------- */

/* All ends are ready at the same time, and the first callback closes all,
 * including its own. */
static void who_is_closed_is_not_called_any_more(void **state) {
  (void)state;
  end ends[PAIRS];
  gli_events *set = set_of(ends, PAIRS);
  for (int i = 0; i < PAIRS; i++) {
    ends[i].victims = ends;
    ends[i].n_victims = PAIRS;
    gli_watch_for(&ends[i].watch, GLI_READABLE);
    assert_int_equal(write(ends[i].other, "a", 1), 1);
  }
  gli_events_poll(set);
  poll_often(set);
  int calls = 0;
  for (int i = 0; i < PAIRS; i++) calls += ends[i].calls;
  assert_int_equal(calls, 1);
  close_all(set, ends, PAIRS);
}

static void a_change_goes_with_the_watch(void **state) {
  (void)state;
  end ends[PAIRS];
  gli_events *set = set_of(ends, PAIRS);
  for (int i = 0; i < PAIRS; i++) gli_watch_for(&ends[i].watch, GLI_WRITABLE);
  for (int i = 0; i < PAIRS; i += 3) gli_watch_close(&ends[i].watch);
  gli_events_poll(set);
  for (int i = 0; i < PAIRS; i++) assert_int_equal(ends[i].calls, i % 3 != 0);
  close_all(set, ends, PAIRS);
}

#if GLI_LINUX
/* A forked child keeps the file open: the kernel must not keep watching it for
 * a freed watch, and the other end must see the end. */
static void a_copy_in_a_child_keeps_nothing_watched(void **state) {
  (void)state;
  end e;
  int hold[2];
  gli_events *set = set_of(&e, 1);
  gli_watch_for(&e.watch, GLI_READABLE);
  gli_events_poll(set);
  assert_int_equal(pipe(hold), 0);
  pid_t child = fork();
  if (child == 0) {
    char byte;
    close(hold[1]);
    _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
  }
  gli_watch_close(&e.watch);
  assert_int_equal(send(e.other, "a", 1, MSG_NOSIGNAL), -1);
  assert_int_equal(errno, EPIPE);
  poll_often(set);
  assert_int_equal(e.calls, 0);
  struct pollfd sleeper = {.fd = gli_events_fd(set), .events = POLLIN};
  assert_int_equal(poll(&sleeper, 1, 0), 0);
  close(hold[0]);
  close(hold[1]);
  assert_int_equal(waitpid(child, NULL, 0), child);
  close_all(set, &e, 1);
}

static void a_child_that_closes_its_copies_is_not_noticed(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  gli_watch_for(&e.watch, GLI_READABLE);
  gli_events_poll(set);
  pid_t child = fork();
  if (child == 0) {
    gli_events_abandon(set);
    gli_watch_close(&e.watch);
    gli_events_close(set);
    _exit(0);
  }
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_int_equal(write(e.other, "a", 1), 1);
  gli_events_poll(set);
  assert_int_equal(e.calls, 1);
  close_all(set, &e, 1);
}
#endif

/* ---- failing system calls ------------------------------------------------ */

#if defined(WRAPPED)
struct epoll_event;
int __real_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event);

static int refuse_with; /* 0: none fails */

int __wrap_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event) {
  if (refuse_with == 0) return __real_epoll_ctl(epoll, operation, fd, event);
  errno = refuse_with;
  return -1;
}

static void what_is_refused_is_told_once_and_may_be_asked_again(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  refuse_with = ENOSPC;
  gli_watch_for(&e.watch, GLI_WRITABLE);
  poll_often(set);
  assert_int_equal(e.calls, 1);
  assert_int_equal(e.events, GLI_UNWATCHED);
  assert_int_equal(e.watch.code, ENOSPC);
  assert_int_equal(e.watch.events, 0);
  refuse_with = 0;
  gli_watch_for(&e.watch, GLI_WRITABLE);
  gli_events_poll(set);
  assert_int_equal(e.events, GLI_WRITABLE);
  refuse_with = ENOMEM;
  gli_watch_for(&e.watch, GLI_READABLE); /* stays as it was */
  gli_events_poll(set);
  assert_int_equal(e.watch.events, GLI_WRITABLE);
  refuse_with = 0;
  close_all(set, &e, 1);
}

static void on_refused(void *owner, int events) {
  end *e = owner;
  on_ready(owner, events);
  gli_watch_for(&e->watch, GLI_READABLE);
}

static void who_asks_again_at_once_is_told_with_the_next_poll(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  e.watch.ready = on_refused;
  refuse_with = ENOSPC;
  gli_watch_for(&e.watch, GLI_READABLE);
  for (int i = 1; i <= POLLS; i++) {
    gli_events_poll(set);
    assert_int_equal(e.calls, i);
  }
  refuse_with = 0;
  close_all(set, &e, 1);
}

static void to_ask_for_nothing_cannot_be_refused(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  gli_watch_for(&e.watch, GLI_READABLE);
  gli_events_poll(set);
  refuse_with = ENOMEM;
  gli_watch_for(&e.watch, 0);
  assert_int_equal(write(e.other, "a", 1), 1);
  poll_often(set);
  assert_int_equal(e.calls, 0);
  refuse_with = 0;
  close_all(set, &e, 1);
}

static void what_is_refused_at_once_changes_nothing(void **state) {
  (void)state;
  end e;
  gli_events *set = set_of(&e, 1);
  refuse_with = ENOMEM;
  errno = 0;
  assert_false(gli_watch_now(&e.watch, GLI_WRITABLE));
  assert_int_equal(errno, ENOMEM);
  refuse_with = 0;
  poll_often(set);
  assert_int_equal(e.calls, 0);
  assert_true(gli_watch_now(&e.watch, GLI_WRITABLE));
  gli_events_poll(set);
  assert_int_equal(e.calls, 1);
  close_all(set, &e, 1);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_ready_is_told_until_it_is_dealt_with),
    cmocka_unit_test(nothing_is_told_where_nothing_is_asked_for),
    cmocka_unit_test(an_end_is_told_whatever_is_asked_for),
    cmocka_unit_test(an_error_is_told_with_what_was_asked_for),
    cmocka_unit_test(a_sleeper_is_woken_by_what_the_poll_would_find),
    cmocka_unit_test(watch_that_begins_at_once_misses_nothing),
    cmocka_unit_test(who_is_closed_is_not_called_any_more),
    cmocka_unit_test(a_change_goes_with_the_watch),
#if GLI_LINUX
    cmocka_unit_test(a_copy_in_a_child_keeps_nothing_watched),
    cmocka_unit_test(a_child_that_closes_its_copies_is_not_noticed),
#endif
#if defined(WRAPPED)
    cmocka_unit_test(what_is_refused_is_told_once_and_may_be_asked_again),
    cmocka_unit_test(who_asks_again_at_once_is_told_with_the_next_poll),
    cmocka_unit_test(to_ask_for_nothing_cannot_be_refused),
    cmocka_unit_test(what_is_refused_at_once_changes_nothing),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
