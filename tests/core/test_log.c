/* Output on standard error, read through a pipe from one child process each,
 * because the level is read from the environment once per process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "core/log.h"

#define OUTPUT_MAX ((size_t)1 << 20)
static char output[OUTPUT_MAX];

/* Runs `body` in a child with GLOO_LOG_LEVEL set to `level` (NULL: unset), and
 * collects its output to standard error. Returns its process id. */
static long in_child(const char *level, void (*body)(void)) {
  int ends[2], status;
  size_t length = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (level != NULL) setenv("GLOO_LOG_LEVEL", level, 1);
    if (level == NULL) unsetenv("GLOO_LOG_LEVEL");
    body();
    _exit(0);
  }
  close(ends[1]);
  for (;;) {
    ssize_t got = read(ends[0], output + length, OUTPUT_MAX - 1 - length);
    if (got <= 0) break;
    length += (size_t)got;
  }
  output[length] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  return (long)child;
}

static void one_of_each(void) {
  gli_log(GLOO_LOG_DEBUG, "d %d", 1);
  gli_log(GLOO_LOG_INFO, "i %d", 2);
  gli_log(GLOO_LOG_WARN, "w %d", 3);
  gli_log(GLOO_LOG_ERROR, "e %d", 4);
  gli_log(GLOO_LOG_OFF, "never");
  gli_log((gloo_log_level)-1, "never");
  gli_log((gloo_log_level)99, "never");
}

static void expect(long pid, const char *lines) {
  char expected[1024];
  size_t length = 0;
  for (const char *at = lines; *at != '\0'; at++) {
    if (*at != '#') {
      expected[length++] = *at;
    } else {
      length += (size_t)snprintf(expected + length, sizeof expected - length,
                                 "%ld", pid);
    }
  }
  expected[length] = '\0';
  assert_string_equal(output, expected);
}

#define DEBUG_1 "gloo_c DEBUG [#] d 1\n"
#define INFO_2 "gloo_c INFO [#] i 2\n"
#define WARN_3 "gloo_c WARN [#] w 3\n"
#define ERROR_4 "gloo_c ERROR [#] e 4\n"

static void the_environment_sets_the_level(void **state) {
  (void)state;
  expect(in_child(NULL, one_of_each), WARN_3 ERROR_4);
  expect(in_child("", one_of_each), WARN_3 ERROR_4);
  expect(in_child("debug", one_of_each), DEBUG_1 INFO_2 WARN_3 ERROR_4);
  expect(in_child("info", one_of_each), INFO_2 WARN_3 ERROR_4);
  expect(in_child("warn", one_of_each), WARN_3 ERROR_4);
  expect(in_child("error", one_of_each), ERROR_4);
  expect(in_child("off", one_of_each), "");
}

static void an_unknown_level_is_reported_once(void **state) {
  (void)state;
  expect(
      in_child("loud", one_of_each),
      "gloo_c WARN [#] GLOO_LOG_LEVEL is \"loud\", which is not a level: use "
      "debug, info, warn, error or off (continuing with warn)\n" WARN_3
          ERROR_4);
}

static void raise_level(void) {
  gloo_log_set_level(GLOO_LOG_ERROR);
  one_of_each();
}
static void lower_level(void) {
  gloo_log_set_level((gloo_log_level)-5);
  one_of_each();
}
static void off_level(void) {
  gloo_log_set_level((gloo_log_level)50);
  one_of_each();
}

static void the_program_sets_the_level(void **state) {
  (void)state;
  expect(in_child("debug", raise_level), ERROR_4);
  expect(in_child(NULL, lower_level), DEBUG_1 INFO_2 WARN_3 ERROR_4);
  expect(in_child(NULL, off_level), "");
}

static void hostile_text(void) {
  errno = ENOENT;
  gli_log(GLOO_LOG_WARN, "%s",
          "a\nb\r\033[2Jc\x7f \xc2\x9b"
          "d\x9b"
          "e \xc3\xa9");
  if (errno != ENOENT) _exit(3);
}

static void control_characters_cannot_fake_lines(void **state) {
  (void)state;
  expect(in_child(NULL, hostile_text),
         "gloo_c WARN [#] a b  [2Jc    d e \xc3\xa9\n");
}

static void long_line(void) {
  static char text[5000];
  memset(text, 'x', sizeof text - 1);
  gli_log(GLOO_LOG_WARN, "%s", text);
  gli_log(GLOO_LOG_WARN, "next");
}

static void long_lines_are_cut_not_joined(void **state) {
  (void)state;
  in_child(NULL, long_line);
  char *newline = strchr(output, '\n');
  assert_non_null(newline);
  assert_int_equal(newline[-1], 'x');
  assert_true(newline - output <= 1024);
  assert_non_null(strstr(newline, "] next\n"));
}

#define LINES 500
static void write_lines(void *argument) {
  int thread = *(int *)argument;
  for (int i = 0; i < LINES; i++) {
    gli_log(GLOO_LOG_WARN, "thread %d line %d end", thread, i);
  }
}

static void four_threads(void) {
  uv_thread_t threads[4];
  int numbers[4];
  for (int i = 0; i < 4; i++) {
    numbers[i] = i;
    if (uv_thread_create(&threads[i], write_lines, &numbers[i]) != 0) _exit(4);
  }
  for (int i = 0; i < 4; i++) uv_thread_join(&threads[i]);
}

static void lines_of_threads_stay_whole(void **state) {
  int seen[4] = {0}, lines = 0;
  (void)state;
  in_child(NULL, four_threads);
  for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
    int thread = -1, number = -1, length = 0;
    const char *text = strstr(line, "] ");
    assert_non_null(text);
    sscanf(text, "] thread %d line %d end%n", &thread, &number, &length);
    assert_int_equal(length, strlen(text));
    assert_in_range(thread, 0, 3);
    assert_int_equal(number, seen[thread]);
    seen[thread]++;
    lines++;
  }
  assert_int_equal(lines, 4 * LINES);
}

static void remember(gloo_log_level level, const char *line, void *user) {
  snprintf(user, 100, "%d %s", (int)level, line);
}

static void sink_then_back(void) {
  char seen[100] = "";
  gloo_log_set_sink(remember, seen);
  gli_log(GLOO_LOG_ERROR, "to the sink");
  if (seen[0] != '3' || strstr(seen, "] to the sink") == NULL) _exit(5);
  if (strchr(seen, '\n') != NULL) _exit(6);
  gloo_log_set_sink(NULL, NULL);
  gli_log(GLOO_LOG_ERROR, "to the pipe");
}

static void a_sink_takes_over(void **state) {
  (void)state;
  expect(in_child(NULL, sink_then_back), "gloo_c ERROR [#] to the pipe\n");
}

static void ask_enabled(void) {
  bool right =
      !gli_log_enabled(GLOO_LOG_DEBUG) && gli_log_enabled(GLOO_LOG_INFO) &&
      gli_log_enabled(GLOO_LOG_ERROR) && !gli_log_enabled(GLOO_LOG_OFF);
  if (!right) _exit(7);
}

static void enabled_agrees_with_what_is_written(void **state) {
  (void)state;
  expect(in_child("info", ask_enabled), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_environment_sets_the_level),
      cmocka_unit_test(an_unknown_level_is_reported_once),
      cmocka_unit_test(the_program_sets_the_level),
      cmocka_unit_test(control_characters_cannot_fake_lines),
      cmocka_unit_test(long_lines_are_cut_not_joined),
      cmocka_unit_test(lines_of_threads_stay_whole),
      cmocka_unit_test(a_sink_takes_over),
      cmocka_unit_test(enabled_agrees_with_what_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
