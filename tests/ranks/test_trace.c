/* Traces of a context's operations, from calls, files and signals. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

static const char *transport;

enum { RANKS = 3, LATE = 2, TEXT_BYTES = 1 << 20 };

static void nap_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* ---- its text ------------------------------------------------------------ */

typedef struct trace_text {
  char text[TEXT_BYTES];
  size_t used;
} trace_text;

static int append(void *user, const char *text, size_t bytes) {
  trace_text *t = user;
  if (bytes >= TEXT_BYTES - t->used) return 1;
  memcpy(t->text + t->used, text, bytes);
  t->used += bytes;
  t->text[t->used] = '\0';
  return 0;
}

/* For free(). */
static trace_text *trace_of(rank_env *env, gloo_context *context) {
  trace_text *t = calloc(1, sizeof *t);
  RANK_CHECK(env, t != NULL);
  RANK_OK(env, gloo_context_trace(context, append, t, NULL));
  return t;
}

/* Returns the n-th line that contains `part`, as a string for free(), or
 * NULL. */
static char *line_with(const trace_text *t, const char *part, int n) {
  const char *at = t->text;
  while (*at != '\0') {
    size_t length = strcspn(at, "\n");
    char *line = strndup(at, length);
    if (line != NULL && strstr(line, part) != NULL && n-- == 0) return line;
    free(line);
    at += length + (at[length] != '\0');
  }
  return NULL;
}

static bool line_says(const trace_text *t, const char *part, int n,
                      const char *const *said) {
  char *line = line_with(t, part, n);
  bool all = line != NULL;
  for (; all && *said != NULL; said++) all = strstr(line, *said) != NULL;
  if (!all) fprintf(stderr, "# no \"%s\" in: %s\n", *said, line);
  free(line);
  return all;
}
#define SAYS(t, part, n, ...) \
  line_says(t, part, n, (const char *const[]){__VA_ARGS__, NULL})

/* ---- completed operations ------------------------------------------------ */

static void make_some_calls(rank_env *env) {
  float x = 1, all[RANKS];
  gloo_context *c = env->context, *group = NULL;
  gloo_options tagged = GLOO_OPTIONS_INIT;
  tagged.tag = 5;
  RANK_OK(env, gloo_barrier(c, NULL, NULL));
  RANK_OK(env, gloo_allreduce(c, GLOO_IN_PLACE, &x, 1, GLOO_FLOAT32, GLOO_MAX,
                              &tagged, NULL));
  RANK_OK(env, gloo_gather(c, &x, all, 1, GLOO_FLOAT32, 1, NULL, NULL));
  if (env->rank == 0)
    RANK_OK(env, gloo_send(c, &x, 1, GLOO_FLOAT32, 2, NULL, NULL));
  if (env->rank == 2)
    RANK_OK(env, gloo_recv(c, &x, 1, GLOO_FLOAT32, 0, NULL, NULL));
  RANK_OK(env,
          gloo_context_split(c, env->rank > 0, env->rank, NULL, &group, NULL));
  int n = gloo_context_size(group);
  RANK_OK(env,
          gloo_broadcast(group, &x, &x, 1, GLOO_FLOAT32, n - 1, NULL, NULL));
  trace_text *t = trace_of(env, group);
  RANK_CHECK(env, SAYS(t, "\"gloo_trace\": 1", 0, "\"reason\": \"call\"",
                       "\"size\": 3"));
  RANK_CHECK(env, SAYS(t, "\"barrier\"", 0, "\"group\": \"world\"",
                       "\"sequence\": 0", "\"state\": \"completed\""));
  RANK_CHECK(env, SAYS(t, "\"allreduce\"", 0, "\"tag\": 5", "\"sequence\": 0",
                       "\"count\": 1", "\"bytes\": 4", "\"dtype\": \"float32\"",
                       "\"op\": \"max\"", "\"algorithm\": \""));
  RANK_CHECK(env, SAYS(t, "\"gather\"", 0, "\"sequence\": 1", "\"root\": 1"));
  if (env->rank == 0)
    RANK_CHECK(env, SAYS(t, "\"send\"", 0, "\"peer\": 2", "\"sequence\": 0"));
  if (env->rank == 2) RANK_CHECK(env, SAYS(t, "\"receive\"", 0, "\"peer\": 0"));
  if (env->rank > 0) {
    /* The group has the id that its first rank, rank 1, has assigned. */
    RANK_CHECK(
        env, SAYS(t, "\"groups\"", 0, "\"group\": \"1.", "\"ranks\": [1, 2]"));
    RANK_CHECK(env,
               SAYS(t, "\"broadcast\"", 0, "\"group\": \"1.", "\"root\": 1"));
  }
  RANK_CHECK(env, strstr(t->text, "\"started\"") == NULL);
  free(t);
  gloo_context_destroy(group);
}

static void what_is_over_is_told_in_its_order(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, make_some_calls);
}

static void make_many_calls(rank_env *env) {
  enum { CALLS = 3000 };
  int32_t x = 0;
  for (int i = 0; i < CALLS; i++)
    RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
  trace_text *t = trace_of(env, env->context);
  RANK_CHECK(env, SAYS(t, "\"gloo_trace\"", 0, "\"ended\": 3000"));
  RANK_CHECK(env, SAYS(t, "\"allreduce\"", 0, "\"sequence\": 1976,"));
  RANK_CHECK(env, SAYS(t, "\"allreduce\"", 1023, "\"sequence\": 2999,"));
  free(t);
}

static void the_last_thousand_are_told(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, make_many_calls);
}

/* ---- operations in progress, and waits-for relations --------------------- */

static void start_what_cannot_end(rank_env *env) {
  int32_t x = 1, y = 0;
  gloo_request *sum = NULL, *message = NULL;
  if (env->rank != LATE) {
    RANK_OK(env, gloo_allreduce_start(env->context, GLOO_IN_PLACE, &x, 1,
                                      GLOO_INT32, GLOO_SUM, NULL, &sum, NULL));
    RANK_OK(env, gloo_recv_start(env->context, &y, 1, GLOO_INT32, LATE, NULL,
                                 &message, NULL));
    for (int i = 0; i < 50; i++) {
      (void)gloo_request_test(sum, NULL);
      nap_ms(2);
    }
    trace_text *t = trace_of(env, env->context);
    RANK_CHECK(env, SAYS(t, "\"allreduce\"", 0, "\"state\": \"started\"",
                         "\"waits_for\": ["));
    RANK_CHECK(env,
               SAYS(t, "\"receive\"", 0, "\"waits_for\": [2]", "\"peer\": 2"));
    RANK_CHECK(env, strstr(t->text, "completed") == NULL);
    free(t);
  } else {
    nap_ms(400);
    RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
    for (int rank = 0; rank < LATE; rank++)
      RANK_OK(env,
              gloo_send(env->context, &x, 1, GLOO_INT32, rank, NULL, NULL));
  }
  if (sum != NULL) RANK_OK(env, gloo_request_wait(sum, 0, NULL));
  if (message != NULL) RANK_OK(env, gloo_request_wait(message, 0, NULL));
  gloo_request_destroy(sum);
  gloo_request_destroy(message);
}

static void what_is_under_way_says_for_whom_it_waits(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, start_what_cannot_end);
}

/* ---- calls --------------------------------------------------------------- */

static int refuse(void *user, const char *text, size_t bytes) {
  (void)text;
  *(size_t *)user += bytes;
  return 1;
}

static void misuse(rank_env *env) {
  gloo_error error;
  size_t offered = 0;
  trace_text *t = calloc(1, sizeof *t);
  RANK_CHECK(env,
             gloo_context_trace(NULL, append, t, &error) == GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_trace(env->context, NULL, t, &error) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_trace(env->context, refuse, &offered, &error) ==
                      GLOO_ERR_IO);
  RANK_CHECK(env, offered > 0);
  RANK_OK(env, gloo_context_abort(env->context, "enough", NULL));
  /* Failed contexts can be traced, since they matter most. */
  RANK_OK(env, gloo_context_trace(env->context, append, t, &error));
  RANK_CHECK(env, strstr(t->text, "\"status\": \"GLOO_ERR_ABORTED\"") != NULL);
  RANK_CHECK(env, strstr(t->text, "enough") != NULL);
  free(t);
}

static void misuse_is_refused_and_failed_contexts_are_not(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(1, &o, misuse);
}

/* ---- files --------------------------------------------------------------- */

static char directory[] = "/tmp/gloo-test-trace-XXXXXX";

/* Returns the number of complete files with `part`, checks their modes and
 * removes them. `text` receives the last one. */
static int take_files(const char *part, trace_text *text) {
  DIR *d = opendir(directory);
  assert_non_null(d);
  int n = 0;
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    if (e->d_name[0] == '.') continue;
    char path[512];
    struct stat is;
    snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
    assert_int_equal(lstat(path, &is), 0);
    assert_true(S_ISREG(is.st_mode));
    assert_int_equal(is.st_mode & 0777, 0600);
    FILE *from = fopen(path, "r");
    assert_non_null(from);
    text->used = fread(text->text, 1, TEXT_BYTES - 1, from);
    text->text[text->used] = '\0';
    fclose(from);
    /* Another thread is still writing this file. */
    if (text->used < 2 || strcmp(text->text + text->used - 2, "}\n") != 0)
      continue;
    if (strncmp(e->d_name, "gloo-trace-rank", 15) == 0 &&
        strstr(text->text, part) != NULL)
      n++;
    assert_int_equal(unlink(path), 0);
  }
  closedir(d);
  return n;
}

static void fail_by_time(rank_env *env) {
  int32_t x = 0;
  gloo_error error;
  if (env->rank == LATE) {
    for (int i = 0; i < 1000; i++) {
      if (gloo_context_error(env->context, &error) != GLOO_OK) break;
      nap_ms(10);
    }
    return;
  }
  gloo_status status = gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1,
                                      GLOO_INT32, GLOO_SUM, NULL, &error);
  RANK_CHECK(env, status != GLOO_OK && error.cause == GLOO_ERR_TIMEOUT);
}

static void all_ranks_write_when_one_is_late(void **state) {
  (void)state;
  trace_text *text = calloc(1, sizeof *text);
  assert_int_equal(setenv("GLOO_TRACE_DIR", directory, 1), 0);
  ranks_options o = {.transport = transport, .timeout_ns = 700000000};
  ranks_run(RANKS, &o, fail_by_time);
  assert_int_equal(unsetenv("GLOO_TRACE_DIR"), 0);
  assert_int_equal(take_files("\"reason\": \"error\"", text), RANKS);
  assert_non_null(
      strstr(text->text, "\"status\": \"GLOO_ERR_TIMEOUT\", \"rank\": 2"));
  free(text);
}

static void no_file_without_being_asked(void **state) {
  (void)state;
  trace_text *text = calloc(1, sizeof *text);
  ranks_options o = {.transport = transport, .timeout_ns = 700000000};
  ranks_run(RANKS, &o, fail_by_time);
  assert_int_equal(take_files("", text), 0);
  free(text);
}

/* ---- alone --------------------------------------------------------------- */

static gloo_context *alone(const char *where, gloo_error *error) {
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_context *context = NULL;
  o.trace_directory = where;
  if (gloo_context_create(0, 1, NULL, NULL, &o, &context, error) != GLOO_OK)
    return NULL;
  return context;
}

static void no_file_takes_the_place_of_another(void **state) {
  (void)state;
  gloo_error error;
  trace_text *text = calloc(1, sizeof *text);
  for (int i = 0; i < 3; i++) {
    gloo_context *context = alone(directory, &error);
    assert_non_null(context);
    assert_int_equal(gloo_context_abort(context, "enough", NULL), GLOO_OK);
    gloo_context_destroy(context);
  }
  assert_int_equal(take_files("enough", text), 3);
  free(text);
}

/* Paths of files and sockets are resolved when they are set. */
static void program_may_change_its_directory(void **state) {
  (void)state;
  gloo_error error;
  char before[4096];
  ranks_need_unix_sockets();
  trace_text *text = calloc(1, sizeof *text);
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(directory), 0);
  assert_int_equal(mkdir("sockets", 0700), 0);
  assert_int_equal(setenv("GLOO_METRICS", "sockets", 1), 0);
  gloo_context *context = alone(".", &error);
  if (context == NULL) fail_msg("%s", error.message);
  assert_int_equal(unsetenv("GLOO_METRICS"), 0);
  assert_int_equal(chdir("/"), 0);
  assert_int_equal(gloo_context_abort(context, "enough", NULL), 0);
  gloo_context_destroy(context);
  assert_int_equal(chdir(directory), 0);
  assert_int_equal(rmdir("sockets"), 0); /* the socket has been removed */
  assert_int_equal(chdir(before), 0);
  assert_int_equal(take_files("enough", text), 1);
  free(text);
}

static void expect_refused(const char *variable, const char *value,
                           const char *part) {
  gloo_error error;
  if (variable != NULL) assert_int_equal(setenv(variable, value, 1), 0);
  assert_null(alone(variable == NULL ? value : NULL, &error));
  assert_int_equal(error.status, GLOO_ERR_INVALID);
  if (strstr(error.message, part) == NULL) fail_msg("%s", error.message);
  if (variable != NULL) assert_int_equal(unsetenv(variable), 0);
}

static void settings_that_cannot_be_are_refused(void **state) {
  (void)state;
  expect_refused(NULL, "/tmp/gloo-test-trace-nowhere", "No such file");
  expect_refused(NULL, "/dev/null", "");
  expect_refused("GLOO_TRACE_DIR", "/tmp/gloo-test-trace-nowhere", "No such");
  expect_refused("GLOO_TRACE_OPERATIONS", "many", "number");
  expect_refused("GLOO_TRACE_OPERATIONS", "-1", "number");
  expect_refused("GLOO_TRACE_OPERATIONS", "1048577", "1048576");
  expect_refused("GLOO_TRACE_SIGNAL", "USR1", "GLOO_TRACE_DIR");
  expect_refused("GLOO_TRACE_SIGNAL", "KILL", "USR1 or USR2");
}

static void as_many_are_told_as_asked(void **state) {
  (void)state;
  static const char *const asked[] = {"0", "1", "300"};
  static const int told[] = {0, 1, 300};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(setenv("GLOO_TRACE_OPERATIONS", asked[i], 1), 0);
    gloo_context *context = alone(NULL, NULL);
    assert_non_null(context);
    for (int k = 0; k < 400; k++)
      assert_int_equal(gloo_barrier(context, NULL, NULL), GLOO_OK);
    trace_text *t = calloc(1, sizeof *t);
    assert_int_equal(gloo_context_trace(context, append, t, NULL), GLOO_OK);
    int n = 0;
    for (const char *at = t->text; (at = strstr(at, "\"barrier\"")) != NULL;
         at++)
      n++;
    assert_int_equal(n, told[i]);
    free(t);
    gloo_context_destroy(context);
  }
  assert_int_equal(unsetenv("GLOO_TRACE_OPERATIONS"), 0);
}

/* ---- signals ------------------------------------------------------------- */

static void own_handler(int number) {
  (void)number;
}

static int wait_for_files(trace_text *text) {
  for (int i = 0; i < 2000; i++) {
    int n = take_files("\"reason\": \"signal\"", text);
    if (n > 0) return n;
    nap_ms(5);
  }
  return 0;
}

static void signal_writes_while_the_program_is_elsewhere(void **state) {
  (void)state;
  struct sigaction now;
  assert_int_equal(sigaction(SIGUSR2, NULL, &now), 0);
  trace_text *text = calloc(1, sizeof *text);
  assert_int_equal(setenv("GLOO_TRACE_SIGNAL", "USR2", 1), 0);
  gloo_context *context = alone(directory, NULL);
  assert_non_null(context);
  assert_int_equal(gloo_barrier(context, NULL, NULL), GLOO_OK);
  for (int i = 0; i < 2; i++) { /* and the program continues */
    assert_int_equal(raise(SIGUSR2), 0);
    assert_int_equal(wait_for_files(text), 1);
  }
  gloo_context_destroy(context);
  assert_int_equal(unsetenv("GLOO_TRACE_SIGNAL"), 0);
  assert_int_equal(sigaction(SIGUSR2, NULL, &now), 0);
  assert_true(now.sa_handler == SIG_DFL);
  free(text);
}

static void handler_of_the_program_stays(void **state) {
  (void)state;
  struct sigaction own = {.sa_handler = own_handler}, now;
  gloo_error error;
  assert_int_equal(sigaction(SIGUSR1, &own, NULL), 0);
  assert_int_equal(setenv("GLOO_TRACE_SIGNAL", "USR1", 1), 0);
  assert_null(alone(directory, &error));
  assert_int_equal(error.status, GLOO_ERR_BUSY);
  assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
  assert_true(now.sa_handler == own_handler);
  /* A handler set later is kept as well. */
  own.sa_handler = SIG_DFL;
  assert_int_equal(sigaction(SIGUSR1, &own, NULL), 0);
  gloo_context *context = alone(directory, NULL);
  assert_non_null(context);
  own.sa_handler = own_handler;
  assert_int_equal(sigaction(SIGUSR1, &own, NULL), 0);
  gloo_context_destroy(context);
  assert_int_equal(unsetenv("GLOO_TRACE_SIGNAL"), 0);
  assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
  assert_true(now.sa_handler == own_handler);
}

static int make_directory(void **state) {
  (void)state;
  return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state) {
  (void)state;
  return rmdir(directory);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_over_is_told_in_its_order),
      cmocka_unit_test(the_last_thousand_are_told),
      cmocka_unit_test(what_is_under_way_says_for_whom_it_waits),
      cmocka_unit_test(misuse_is_refused_and_failed_contexts_are_not),
      cmocka_unit_test(all_ranks_write_when_one_is_late),
      cmocka_unit_test(no_file_without_being_asked),
      cmocka_unit_test(no_file_takes_the_place_of_another),
      cmocka_unit_test(program_may_change_its_directory),
      cmocka_unit_test(settings_that_cannot_be_are_refused),
      cmocka_unit_test(as_many_are_told_as_asked),
      cmocka_unit_test(signal_writes_while_the_program_is_elsewhere),
      cmocka_unit_test(handler_of_the_program_stays),
  };
  gloo_log_set_level(GLOO_LOG_OFF);
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
