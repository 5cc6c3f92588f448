/* Statistics of contexts: exact calls and bytes, and the ranks that were
 * late. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

static const char *transport;

enum { RANKS = 3, CALLS_MAX = 64, ELEMENTS = 1000 };

/* ---- queries ------------------------------------------------------------- */

/* Returns the totals of a call, over all its algorithms. */
static gloo_call_totals called(rank_env *env, gloo_context *context,
                               const char *call) {
  gloo_call_totals all[CALLS_MAX], sum = {.call = call};
  size_t n = 0;
  RANK_OK(env, gloo_context_call_totals(context, all, CALLS_MAX, &n, NULL));
  RANK_CHECK(env, n <= CALLS_MAX);
  for (size_t i = 0; i < n; i++) {
    if (strcmp(all[i].call, call) != 0) continue;
    sum.calls += all[i].calls;
    sum.bytes += all[i].bytes;
    sum.nanoseconds += all[i].nanoseconds;
  }
  return sum;
}

static gloo_peer_totals with(rank_env *env, int peer) {
  gloo_peer_totals t;
  memset(&t, 0, sizeof t);
  RANK_OK(env, gloo_context_peer_totals(env->context, peer, &t, NULL));
  return t;
}

static void nap_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* ---- calls --------------------------------------------------------------- */

/* Blocking, started, persistent, and started with another type, which may share
 * the plan; repeated so that operations are reused. */
static void sum_in_all_ways(rank_env *env) {
  int32_t x[ELEMENTS] = {0};
  float y[ELEMENTS] = {0};
  gloo_request *request = NULL;
  gloo_context *c = env->context;
  for (int i = 0; i < 100; i++)
    RANK_OK(env, gloo_allreduce(c, GLOO_IN_PLACE, x, ELEMENTS, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
  for (int i = 0; i < 50; i++) {
    RANK_OK(env,
            gloo_allreduce_start(c, GLOO_IN_PLACE, y, ELEMENTS, GLOO_FLOAT32,
                                 GLOO_MAX, NULL, &request, NULL));
    RANK_OK(env, gloo_request_wait(request, 0, NULL));
    gloo_request_destroy(request);
  }
  RANK_OK(env, gloo_allreduce_init(c, GLOO_IN_PLACE, x, 1, GLOO_INT32, GLOO_SUM,
                                   NULL, &request, NULL));
  for (int i = 0; i < 70; i++) {
    RANK_OK(env, gloo_request_start(request, NULL));
    RANK_OK(env, gloo_request_wait(request, 0, NULL));
  }
  gloo_call_totals t = called(env, c, "allreduce");
  RANK_CHECK(env, t.calls == 220);
  RANK_CHECK(env, t.bytes == 150 * 4 * ELEMENTS + 70 * 4);
  RANK_CHECK(env, t.nanoseconds > 0);
  gloo_request_destroy(request);
  RANK_CHECK(env, called(env, c, "allreduce").calls == 220);
  RANK_CHECK(env, called(env, c, "barrier").calls == 0);
}

static void calls_are_counted_once_each(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, sum_in_all_ways);
}

static void call_in_a_group(rank_env *env) {
  int32_t x = 0;
  gloo_context *group;
  RANK_OK(env,
          gloo_context_split(env->context, 0, -env->rank, NULL, &group, NULL));
  RANK_OK(env, gloo_barrier(group, NULL, NULL));
  RANK_OK(env, gloo_broadcast(group, &x, &x, 1, GLOO_INT32, 1, NULL, NULL));
  RANK_CHECK(env, called(env, group, "barrier").calls == 1);
  gloo_peer_totals theirs, ours = with(env, 0);
  RANK_OK(env, gloo_context_peer_totals(group, RANKS - 1, &theirs, NULL));
  RANK_CHECK(env, ours.messages_sent == theirs.messages_sent);
  gloo_context_destroy(group);
  RANK_CHECK(env, called(env, env->context, "barrier").calls == 1);
  RANK_CHECK(env, called(env, env->context, "broadcast").calls == 1);
}

static void groups_count_for_their_root(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(RANKS, &o, call_in_a_group);
}

/* ---- ranks --------------------------------------------------------------- */

typedef struct matrix {
  gloo_peer_totals of[RANKS][RANKS];
} matrix;

static void talk(rank_env *env) {
  int32_t x[ELEMENTS] = {0}, all[RANKS * ELEMENTS];
  gloo_context *c = env->context;
  gloo_request *request = NULL;
  matrix *m = env->user;
  RANK_OK(env, gloo_allreduce(c, GLOO_IN_PLACE, x, ELEMENTS, GLOO_INT32,
                              GLOO_SUM, NULL, NULL));
  RANK_OK(env, gloo_allgather(c, x, all, ELEMENTS, GLOO_INT32, NULL, NULL));
  RANK_OK(env, gloo_reduce(c, x, all, ELEMENTS, GLOO_INT32, GLOO_SUM, 1, NULL,
                           NULL));
  gloo_peer_totals before = with(env, 2);
  for (int i = 0; i < 20 && env->rank == 0; i++)
    RANK_OK(env, gloo_send(c, x, 10, GLOO_INT32, 1 + i % 2, NULL, NULL));
  for (int i = 0; i < 10 && env->rank == 1; i++)
    RANK_OK(env, gloo_recv(c, x, 10, GLOO_INT32, 0, NULL, NULL));
  if (env->rank == 2)
    RANK_OK(env, gloo_recv_any_init(c, x, 10, GLOO_INT32, NULL, 0, NULL,
                                    &request, NULL));
  for (int i = 0; i < 10 && request != NULL; i++) {
    RANK_OK(env, gloo_request_start(request, NULL));
    RANK_OK(env, gloo_request_wait(request, 0, NULL));
  }
  if (env->rank == 0) {
    gloo_peer_totals after = with(env, 2);
    RANK_CHECK(env, after.messages_sent - before.messages_sent == 10);
    RANK_CHECK(env, after.bytes_sent - before.bytes_sent == 10 * 40);
    RANK_CHECK(env, called(env, c, "send").calls == 20);
    RANK_CHECK(env, called(env, c, "send").bytes == 20 * 40);
  } else {
    RANK_CHECK(env, called(env, c, "receive").calls == 10);
  }
  for (int peer = 0; peer < RANKS; peer++)
    m->of[env->rank][peer] = with(env, peer);
  gloo_request_destroy(request);
}

static void both_ends_count_the_same(void **state) {
  (void)state;
  matrix m;
  ranks_options o = {.transport = transport, .user = &m};
  ranks_run(RANKS, &o, talk);
  uint64_t bytes = 0;
  for (int a = 0; a < RANKS; a++) {
    for (int b = 0; b < RANKS; b++) {
      assert_int_equal(m.of[a][b].messages_sent, m.of[b][a].messages_received);
      assert_int_equal(m.of[a][b].bytes_sent, m.of[b][a].bytes_received);
      bytes += m.of[a][b].bytes_sent;
    }
  }
  assert_true(bytes > 4 * ELEMENTS);
}

/* ---- who was late -------------------------------------------------------- */

static void come_late(rank_env *env) {
  int32_t x = 0;
  for (int i = 0; i < 3; i++) {
    if (env->rank == 1) nap_ms(200);
    RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
  }
  if (env->rank != 0) return;
  gloo_peer_totals t = with(env, 1);
  RANK_CHECK(env, t.late >= 1 && t.late <= 3);
  RANK_CHECK(env, t.late_nanoseconds >= 1000000);
  /* All of their time is waiting; the tick length is measured each time. */
  uint64_t all = called(env, env->context, "allreduce").nanoseconds;
  RANK_CHECK(env, t.late_nanoseconds < all + all / 8);
}

static void late_rank_is_counted(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, come_late);
}

/* ---- text, and misuse ---------------------------------------------------- */

typedef struct metrics_text {
  char text[1 << 16];
  size_t used;
} metrics_text;

static int append(void *user, const char *text, size_t bytes) {
  metrics_text *t = user;
  if (bytes >= sizeof t->text - t->used) return 1;
  memcpy(t->text + t->used, text, bytes);
  t->used += bytes;
  t->text[t->used] = '\0';
  return 0;
}

static void say(rank_env *env) {
  gloo_error error;
  gloo_peer_totals peer;
  size_t n;
  metrics_text *t = calloc(1, sizeof *t);
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  RANK_OK(env, gloo_context_metrics(env->context, append, t, NULL));
  RANK_CHECK(env, strstr(t->text, "gloo_calls_total{rank=\"") != NULL);
  RANK_CHECK(env, strstr(t->text, "call=\"barrier\"") != NULL);
  RANK_CHECK(env, strstr(t->text, "# TYPE gloo_calls_total counter\n") != NULL);
  RANK_CHECK(env, strstr(t->text, "gloo_rank_info{rank=\"") != NULL);
  RANK_CHECK(env, t->used > 6 && strcmp(t->text + t->used - 6, "# EOF\n") == 0);
  free(t);
  RANK_CHECK(env, gloo_context_metrics(env->context, NULL, NULL, &error) ==
                      GLOO_ERR_INVALID);
  RANK_CHECK(env, gloo_context_call_totals(env->context, NULL, 1, &n, &error) ==
                      GLOO_ERR_INVALID);
  RANK_OK(env, gloo_context_call_totals(env->context, NULL, 0, &n, &error));
  RANK_CHECK(env, n == 1);
  RANK_CHECK(env, gloo_context_peer_totals(env->context, 2, &peer, &error) ==
                      GLOO_ERR_RANK);
  RANK_CHECK(env, gloo_context_peer_totals(NULL, 0, &peer, &error) ==
                      GLOO_ERR_INVALID);
}

static uint64_t kept_bytes(rank_env *env, const char *part) {
  char line[64];
  metrics_text *t = calloc(1, sizeof *t);
  RANK_OK(env, gloo_context_metrics(env->context, append, t, NULL));
  (void)snprintf(line, sizeof line, "gloo_kept_bytes{rank=\"%d\",part=\"%s\"} ",
                 env->rank, part);
  const char *at = strstr(t->text, line);
  RANK_CHECK(env, at != NULL);
  uint64_t bytes = at != NULL ? strtoull(at + strlen(line), NULL, 10) : 0;
  free(t);
  return bytes;
}

/* Varying sizes leave plans and scratch memory. A trim frees these, except for
 * those of a request, and calls still work. */
static void trim_what_is_kept(rank_env *env) {
  enum { MOST = 1 << 18 };
  int32_t *x = calloc(MOST, sizeof *x);
  gloo_request *held;
  gloo_error error;
  RANK_OK(env, gloo_allreduce_init(env->context, GLOO_IN_PLACE, x, MOST,
                                   GLOO_INT32, GLOO_SUM, NULL, &held, NULL));
  for (size_t n = 1; n <= MOST; n *= 2)
    RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, x, n, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
  uint64_t plans = kept_bytes(env, "plans");
  RANK_CHECK(env, kept_bytes(env, "operations") > 0);
  RANK_OK(env, gloo_context_trim(env->context, NULL));
  RANK_CHECK(env, kept_bytes(env, "plans") < plans);
  RANK_CHECK(env, kept_bytes(env, "scratch") == 0);
  x[0] = 1;
  RANK_OK(env, gloo_request_start(held, NULL));
  RANK_OK(env, gloo_request_wait(held, GLOO_TIMEOUT_DEFAULT, NULL));
  RANK_CHECK(env, x[0] == env->size);
  RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, x, 1, GLOO_INT32,
                              GLOO_SUM, NULL, NULL));
  RANK_CHECK(env, x[0] == env->size * env->size);
  gloo_request_destroy(held);
  RANK_CHECK(env, gloo_context_trim(NULL, &error) == GLOO_ERR_INVALID);
  free(x);
}

static void kept_memory_is_freed(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, trim_what_is_kept);
}

static void figures_are_told_as_text(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, say);
}

/* ---- the library's own messages ------------------------------------------ */

/* Returns the value of a line of metrics, without the rank label; -1: none. */
static long long figure(const rank_env *env, const char *text, const char *name,
                        const char *labels) {
  char line[128];
  (void)snprintf(line, sizeof line, "\n%s{rank=\"%d\"%s} ", name, env->rank,
                 labels);
  const char *at = strstr(text, line);
  return at != NULL ? strtoll(at + strlen(line), NULL, 10) : -1;
}

static int count_of(const char *text, const char *part) {
  int n = 0;
  while ((text = strstr(text, part)) != NULL) {
    text += strlen(part);
    n++;
  }
  return n;
}

/* Expects `sums` allreduces and no other call in figures and traces, and
 * internal messages separately. */
static void expect_sums(rank_env *env, int sums) {
  metrics_text *t = calloc(1, sizeof *t);
  RANK_OK(env, gloo_context_metrics(env->context, append, t, NULL));
  long long sent = figure(env, t->text, "gloo_internal_messages_total",
                          ",direction=\"sent\"");
  RANK_CHECK(env, sent > 0);
  RANK_CHECK(env, figure(env, t->text, "gloo_internal_bytes_total",
                         ",direction=\"received\"") > 0);
  RANK_CHECK(env, count_of(t->text, "\ngloo_calls_total{") == (sums > 0));
  RANK_CHECK(env,
             called(env, env->context, "allreduce").calls == (uint64_t)sums);
  gloo_peer_totals peer = with(env, 1 - env->rank);
  RANK_CHECK(env, peer.messages_sent == (uint64_t)sums);
  RANK_CHECK(env, peer.bytes_received == 4 * (uint64_t)sums);
  t->used = 0;
  RANK_OK(env, gloo_context_trace(env->context, append, t, NULL));
  RANK_CHECK(env, count_of(t->text, "\"call\": ") == sums);
  RANK_CHECK(env, count_of(t->text, "\"call\": \"allreduce\"") == sums);
  char ended[32];
  (void)snprintf(ended, sizeof ended, "\"ended\": %d,", sums);
  RANK_CHECK(env, strstr(t->text, ended) != NULL);
  free(t);
}

static void sum_54_times(rank_env *env) {
  gloo_options direct = GLOO_OPTIONS_INIT;
  direct.algorithm = "direct"; /* one message in each direction */
  expect_sums(env, 0);
  for (int i = 0; i < 54; i++) {
    int32_t x = 1;
    RANK_OK(env, gloo_allreduce(env->context, GLOO_IN_PLACE, &x, 1, GLOO_INT32,
                                GLOO_SUM, &direct, NULL));
  }
  expect_sums(env, 54);
}

/* A start that exchanges messages: ranks of two hosts, which are measured. */
static void start_is_counted_separately(void **state) {
  (void)state;
  static const char *const hosts[] = {"a", "b"};
  ranks_options o = {.transport = transport, .measure = 1, .host_ids = hosts};
  ranks_run(2, &o, sum_54_times);
}

/* Makes a group in one round: a message in each direction. */
static void split_without_calls(rank_env *env) {
  gloo_context *group;
  metrics_text *t = calloc(1, sizeof *t);
  RANK_OK(env, gloo_context_split(env->context, 0, 0, NULL, &group, NULL));
  RANK_OK(env, gloo_context_metrics(env->context, append, t, NULL));
  static const char *const ways[] = {",direction=\"sent\"",
                                     ",direction=\"received\""};
  for (int i = 0; i < 2; i++)
    RANK_CHECK(env, figure(env, t->text, "gloo_internal_messages_total",
                           ways[i]) == 1);
  RANK_CHECK(env, strstr(t->text, "gloo_calls_total{") == NULL);
  RANK_CHECK(env, strstr(t->text, "gloo_messages_sent_total{") == NULL);
  RANK_CHECK(env, figure(env, t->text, "gloo_running", "") == 0);
  gloo_context_destroy(group);
  free(t);
}

static void groups_are_made_with_internal_messages(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(2, &o, split_without_calls);
}

/* ---- the socket ---------------------------------------------------------- */

static char directory[] = "/tmp/gloo-test-totals-XXXXXX";

/* Returns the number of sockets, and the path of the last one. */
static int find_sockets(char path[108]) {
  DIR *d = opendir(directory);
  int n = 0;
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    struct stat is;
    if (strncmp(e->d_name, "gloo-metrics-rank0-pid", 22) != 0) continue;
    snprintf(path, 108, "%s/%.60s", directory, e->d_name);
    assert_int_equal(lstat(path, &is), 0);
    assert_true(S_ISSOCK(is.st_mode));
    assert_int_equal(is.st_mode & 0777, 0600);
    n++;
  }
  closedir(d);
  return n;
}

static int open_client(const char *path) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  snprintf(a.sun_path, sizeof a.sun_path, "%.100s", path);
  assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof a), 0);
  return fd;
}

static void expect_answer(int fd) {
  static char text[1 << 16];
  size_t used = 0;
  ssize_t got;
  while ((got = read(fd, text + used, sizeof text - 1 - used)) > 0)
    used += (size_t)got;
  text[used] = '\0';
  assert_int_equal(close(fd), 0);
  assert_int_equal(strncmp(text, "HTTP/1.0 200 OK\r\n", 17), 0);
  assert_non_null(strstr(text, "\r\n\r\n# HELP gloo_rank_info "));
  assert_non_null(strstr(text, "call=\"barrier\",algorithm=\""));
  assert_true(used > 6 && strcmp(text + used - 6, "# EOF\n") == 0);
}

static gloo_context *make_alone(gloo_error *error) {
  gloo_context *context = NULL;
  if (gloo_context_create(0, 1, NULL, NULL, NULL, &context, error) != GLOO_OK)
    return NULL;
  return context;
}

/* The socket answers although one client neither reads nor leaves, and another
 * sends an oversized request. */
static void socket_serves_figures(void **state) {
  (void)state;
  char path[108];
  ranks_need_unix_sockets();
  assert_int_equal(setenv("GLOO_METRICS", directory, 1), 0);
  gloo_context *context = make_alone(NULL), *second = make_alone(NULL);
  assert_non_null(context);
  assert_non_null(second);
  assert_int_equal(unsetenv("GLOO_METRICS"), 0);
  assert_int_equal(find_sockets(path), 2);
  assert_int_equal(gloo_barrier(context, NULL, NULL), GLOO_OK);
  assert_int_equal(gloo_barrier(second, NULL, NULL), GLOO_OK);
  int silent = open_client(path), asking = open_client(path);
  static const char question[20000] = "GET / HTTP/1.0\r\n";
  assert_true(send(asking, question, sizeof question, MSG_NOSIGNAL) > 0);
  expect_answer(open_client(path));
  (void)close(asking);
  (void)close(silent);
  gloo_context_destroy(second);
  assert_int_equal(find_sockets(path), 1);
  expect_answer(open_client(path));
  gloo_context_destroy(context);
  assert_int_equal(find_sockets(path), 0);
}

static void socket_that_cannot_be_is_refused(void **state) {
  (void)state;
  gloo_error error;
  char longer[200] = "/tmp/";
  memset(longer + 5, 'x', sizeof longer - 6);
  const char *const wrong[] = {"/tmp/gloo-test-nowhere", "/dev/null", longer};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(setenv("GLOO_METRICS", wrong[i], 1), 0);
    assert_null(make_alone(&error));
    assert_int_equal(error.status, GLOO_ERR_INVALID);
    assert_non_null(strstr(error.message, "GLOO_METRICS"));
  }
  assert_int_equal(unsetenv("GLOO_METRICS"), 0);
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
      cmocka_unit_test(calls_are_counted_once_each),
      cmocka_unit_test(groups_count_for_their_root),
      cmocka_unit_test(both_ends_count_the_same),
      cmocka_unit_test(late_rank_is_counted),
      cmocka_unit_test(kept_memory_is_freed),
      cmocka_unit_test(figures_are_told_as_text),
      cmocka_unit_test(start_is_counted_separately),
      cmocka_unit_test(groups_are_made_with_internal_messages),
      cmocka_unit_test(socket_serves_figures),
      cmocka_unit_test(socket_that_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
