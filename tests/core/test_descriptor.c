/* The library's descriptors are never 0, 1 or 2, and local resource errors are
 * distinguished from others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"

static bool is_ours(int fd) {
  int flags = fcntl(fd, F_GETFD);
  int mode = fcntl(fd, F_GETFL);
  return fd > STDERR_FILENO && (flags & FD_CLOEXEC) != 0 &&
         (mode & O_NONBLOCK) != 0;
}

/* Makes all kinds of descriptors while 0, 1 and 2 are free. */
static int make_all(void) {
  int fds[2];
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t bytes = sizeof at;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int listener = gli_socket_open(AF_INET, SOCK_STREAM);
  if (!is_ours(listener)) return 1;
  if (bind(listener, (struct sockaddr *)&at, bytes) != 0) return 2;
  if (listen(listener, 1) != 0) return 2;
  if (getsockname(listener, (struct sockaddr *)&at, &bytes) != 0) return 2;
  int client = gli_socket_open(AF_INET, SOCK_STREAM);
  if (!is_ours(client)) return 3;
  if (connect(client, (struct sockaddr *)&at, bytes) != 0 &&
      errno != EINPROGRESS)
    return 4;
  int accepted;
  do accepted = gli_socket_accept(listener);
  while (accepted < 0 && errno == EAGAIN);
  if (!is_ours(accepted)) return 5;
  if (!gli_pipe_open(fds) || !is_ours(fds[0]) || !is_ours(fds[1])) return 6;
  int kept = gli_fd_keep(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (kept <= STDERR_FILENO) return 7;
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) != -1) return 8;
  return 0;
}

static void none_is_one_of_the_first_three(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++) close(fd);
    _exit(make_all());
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_failure_is_passed_on(void **state) {
  (void)state;
  errno = EMFILE;
  assert_int_equal(gli_fd_keep(-1), -1);
  assert_int_equal(errno, EMFILE);
  gli_fd_close(-1);
  assert_int_equal(errno, EMFILE);
}

static void a_lack_says_what_to_do(void **state) {
  (void)state;
  static const int own[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, ENOSPC};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
    assert_true(gli_is_exhaustion(own[i]));
    assert_non_null(strchr(gli_exhaustion_text(own[i]), ';'));
  }
  assert_non_null(strstr(gli_exhaustion_text(EMFILE), "ulimit -n"));
  assert_int_equal(gli_exhaustion_status(EMFILE), GLOO_ERR_IO);
  assert_int_equal(gli_exhaustion_status(ENOMEM), GLOO_ERR_NO_MEMORY);
  static const int others[] = {0, EAGAIN, ECONNREFUSED, ECONNRESET, EPIPE};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    assert_false(gli_is_exhaustion(others[i]));
}

static void the_upper_half_is_scarce(void **state) {
  struct rlimit before, few;
  (void)state;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  few = before;
  few.rlim_cur = 100;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  bool lower = gli_fd_is_scarce(49), upper = gli_fd_is_scarce(50);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_false(lower);
  assert_true(upper);
}

/* A check of the test harness: see tests/fork_guard.c. */
static void a_child_that_crashes_runs_no_tests(void **state) {
  int status = 0;
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    (void)raise(SIGSEGV);
    _exit(0);
  }
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_upper_half_is_scarce),
      cmocka_unit_test(none_is_one_of_the_first_three),
      cmocka_unit_test(a_failure_is_passed_on),
      cmocka_unit_test(a_lack_says_what_to_do),
      cmocka_unit_test(a_child_that_crashes_runs_no_tests),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
