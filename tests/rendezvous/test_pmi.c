/* The exchange with a launcher by PMI-1, with a correct one and with faulty
 * ones. Each rank is a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "pmi_server.h"
#include "rendezvous/launch/pmi.h"
#include "rendezvous/launch/pmi_line.h"

#define LONG INT64_C(20000000000)
#define SHORT INT64_C(300000000)

/* Called in a rank: returns 0 if `good`, else prints a sentence and returns
 * 1. */
static int expect(bool good, const char *what, const gloo_error *error) {
  if (!good)
    fprintf(stderr, "# %s: %s\n", what, error != NULL ? error->message : "");
  return good ? 0 : 1;
}
#define EXPECT(condition) \
  if (expect(condition, #condition, &error) != 0) return 1

/* ---- correct launchers --------------------------------------------------- */

static const char *text_of(int round) {
  static char text[2000];
  if (round == 1) return "";
  /* All byte values but 0, and a text longer than a value may be. */
  size_t bytes = round == 2 ? 1999 : 255;
  for (size_t i = 0; i < bytes; i++) text[i] = (char)(1 + (i % 255));
  text[bytes] = '\0';
  return round == 0 ? "served 0123 4567 10.0.0.1 fe::1" : text;
}

static int all_are_told(int rank, void *argument) {
  gli_pmi_job job;
  gloo_error error = {.message = ""};
  char out[2000];
  (void)argument;
  EXPECT(gli_pmi_join(GLI_PMI_SIMPLE, LONG, &job, &error) == GLOO_OK);
  EXPECT(job.rank == (uint32_t)rank && job.size == 3);
  EXPECT(strcmp(job.name, "job-1") == 0);
  for (int round = 0; round < 4; round++) {
    const char *text = text_of(round);
    EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, rank == 0 ? text : NULL, out,
                        sizeof out, LONG, &error) == GLOO_OK);
    EXPECT(strcmp(out, text) == 0);
  }
  job.size = 7;
  EXPECT(gli_pmi_join(GLI_PMI_SIMPLE, LONG, &job, &error) == GLOO_OK);
  EXPECT(job.size == 3);
  return 0;
}

static void texts_of_any_bytes_are_told_round_by_round(void **state) {
  pmi_seen seen;
  (void)state;
  pmi_run(&(pmi_script){.ranks = 3}, all_are_told, NULL, &seen);
  assert_int_equal(seen.inits, 3);
  assert_int_equal(seen.barriers, 12);
  assert_int_equal(seen.finalizes, 3); /* once, at exit */
  int puts = seen.puts;
  pmi_run(&(pmi_script){.ranks = 3, .value_max = 64}, all_are_told, NULL,
          &seen);
  assert_true(seen.puts > 4 * puts); /* in pieces */
}

static int one_is_told(int rank, void *argument) {
  gloo_error error = {.message = ""};
  char out[16];
  (void)argument;
  EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, rank == 0 ? "x" : NULL, out, sizeof out,
                      LONG, &error) == GLOO_OK);
  EXPECT(strcmp(out, "x") == 0);
  return 0;
}

static void callback_joins(void **state) {
  pmi_seen seen;
  (void)state;
  pmi_run(&(pmi_script){.ranks = 1}, one_is_told, NULL, &seen);
  assert_int_equal(seen.inits, 1);
  assert_int_equal(seen.finalizes, 1);
}

static void *told_in_a_thread(void *argument) {
  gloo_error error = {.message = ""};
  char out[16];
  (void)argument;
  (void)expect(gli_pmi_tell(GLI_PMI_SIMPLE, "y", out, sizeof out, LONG,
                            &error) == GLOO_OK,
               "a thread is told", &error);
  return strcmp(out, "y") == 0 ? NULL : argument;
}

static int threads_take_turns(int rank, void *argument) {
  pthread_t threads[4];
  void *failed;
  (void)rank;
  for (int i = 0; i < 4; i++)
    if (pthread_create(&threads[i], NULL, told_in_a_thread, argument) != 0)
      return 1;
  for (int i = 0; i < 4; i++)
    if (pthread_join(threads[i], &failed) != 0 || failed != NULL) return 1;
  return 0;
}

static void threads_are_told_one_after_the_other(void **state) {
  pmi_seen seen;
  (void)state;
  pmi_run(&(pmi_script){.ranks = 1}, threads_take_turns, &seen, &seen);
  assert_int_equal(seen.inits, 1);
  assert_int_equal(seen.barriers, 4);
}

/* ---- children ------------------------------------------------------------ */

static int a_child_is_refused(int rank, void *argument) {
  gloo_error error = {.message = ""};
  gli_pmi_job job;
  char out[16];
  int status;
  if (one_is_told(rank, argument) != 0) return 1;
  fflush(stderr);
  pid_t pid = fork();
  if (pid == 0) {
    gloo_status join = gli_pmi_join(GLI_PMI_SIMPLE, LONG, &job, &error);
    gloo_status tell =
        gli_pmi_tell(GLI_PMI_SIMPLE, "x", out, sizeof out, LONG, NULL);
    exit(join == GLOO_ERR_FORKED && tell == join &&
                 strstr(error.message, "forked process") != NULL
             ? 0
             : 1);
  }
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  return one_is_told(rank, argument);
}

static void forked_children_are_refused_and_say_no_farewell(void **state) {
  pmi_seen seen;
  (void)state;
  pmi_run(&(pmi_script){.ranks = 1}, a_child_is_refused, NULL, &seen);
  assert_int_equal(seen.finalizes, 1);
  assert_int_equal(seen.barriers, 2);
}

/* ---- the descriptor ------------------------------------------------------ */

static int the_number_is_taken(int rank, void *argument) {
  gloo_error error = {.message = ""};
  gli_pmi_job job;
  int number = atoi(getenv("PMI_FD")), pair[2];
  char byte;
  EXPECT(gli_pmi_join(GLI_PMI_SIMPLE, LONG, &job, &error) == GLOO_OK);
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  EXPECT(dup2(pair[0], number) == number);
  int failed = one_is_told(rank, argument);
  EXPECT(recv(pair[1], &byte, 1, MSG_DONTWAIT) < 0);
  return failed;
}

static void its_number_may_become_that_of_something_else(void **state) {
  (void)state;
  pmi_run(&(pmi_script){.ranks = 2}, the_number_is_taken, NULL, NULL);
}

/* ---- invalid answers ----------------------------------------------------- */

typedef struct bad {
  const char *command, *answer;
  size_t bytes;
  gloo_status status;
  const char *words[2];
} bad;

static char endless[9000], chain[64], stuffed[4200];

static const bad bads[] = {
    {"cmd=init",
     "cmd=nonsense\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"'init'", "nonsense"}},
    {"cmd=init", "\n", 0, GLOO_ERR_PROTOCOL, {"'init'"}},
    {"cmd=init",
     "cmd=response_to_init rc=-1 pmi_version=1\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"refused 'init'", "rc=-1"}},
    {"cmd=init",
     "cmd=response_to_init rc=0 pmi_version=2\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"pmi_version=2"}},
    {"cmd=init", "cmd=response_to_init rc=0\n", 0, GLOO_ERR_PROTOCOL, {"init"}},
    {"cmd=init",
     "cmd=response_to_init rc=0 pmi_version=1\ncmd=more\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"init"}},
    {"cmd=init",
     "cmd=response_to_init\0rc=0 pmi_version=1\n",
     41,
     GLOO_ERR_PROTOCOL,
     {"init"}},
    {"cmd=init", endless, sizeof endless, GLOO_ERR_PROTOCOL, {"init"}},
    {"cmd=init", NULL, 0, GLOO_ERR_PEER, {"closed"}},
    {"cmd=init",
     "cmd=response_to_i",
     0,
     GLOO_ERR_TIMEOUT,
     {"'init'", "in time"}},
    {"cmd=get_maxes", "cmd=maxes\n", 0, GLOO_ERR_PROTOCOL, {"get_maxes"}},
    {"cmd=get_maxes",
     "cmd=maxes vallen_max=63\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"get_maxes"}},
    {"cmd=get_maxes",
     "cmd=maxes vallen_max=-5\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"get_maxes"}},
    {"cmd=get_maxes",
     "cmd=maxes vallen_max=18446744073709551617\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"get_maxes"}},
    {"cmd=get_my_kvsname",
     "cmd=my_kvsname kvsname=\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"get_my_kvsname"}},
    {"cmd=get_my_kvsname", stuffed, 0, GLOO_ERR_PROTOCOL, {"get_my_kvsname"}},
    {"cmd=put", "cmd=put_result rc=1\n", 0, GLOO_ERR_PROTOCOL, {"'put'"}},
    {"cmd=put", NULL, 0, GLOO_ERR_PEER, {"'put'", "MPI_Finalize"}},
    {"cmd=barrier_in",
     "cmd=barrier_out rc=-1\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"'barrier_in'"}},
    {"cmd=barrier_in",
     "cmd=get_result rc=0\n",
     0,
     GLOO_ERR_PROTOCOL,
     {"'barrier_in'"}},
    {"cmd=barrier_in", NULL, 0, GLOO_ERR_PEER, {"'barrier_in'"}},
};

static int is_refused(int rank, void *argument) {
  const bad *b = argument;
  gloo_error error = {.message = ""}, again = {.message = ""};
  char out[16] = "kept";
  (void)rank;
  int64_t patience = b->status == GLOO_ERR_TIMEOUT ? SHORT : LONG;
  EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, "x", out, sizeof out, patience, &error) ==
         b->status);
  EXPECT(strcmp(out, "kept") == 0);
  for (int i = 0; i < 2 && b->words[i] != NULL; i++)
    EXPECT(strstr(error.message, b->words[i]) != NULL);
  /* A second call fails at once, with the same reason. */
  EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, "x", out, sizeof out, LONG, &again) ==
         b->status);
  EXPECT(strcmp(error.message, again.message) == 0);
  return 0;
}

static void answers_that_make_no_sense_are_refused(void **state) {
  (void)state;
  memset(endless, 'x', sizeof endless);
  memset(stuffed, 'x', sizeof stuffed);
  memcpy(stuffed, "cmd=my_kvsname kvsname=", 23);
  strcpy(stuffed + 300, "\n");
  for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
    bad b = bads[i];
    pmi_trick trick = {b.command, b.answer, b.bytes};
    pmi_run(&(pmi_script){.ranks = 1, .trick = &trick}, is_refused, &b, NULL);
  }
}

static int rank_1_is_refused(int rank, void *argument) {
  return rank == 0 ? one_is_told(rank, argument) : is_refused(rank, argument);
}

static void values_that_make_no_sense_are_refused(void **state) {
  static const char *const values[] = {
      "cmd=get_result rc=-1 msg=key_not_found value=unknown\n",
      "cmd=get_result rc=0\n",
      "cmd=get_result rc=0 value=\n",
      "cmd=get_result rc=0 value=x\n",
      "cmd=get_result rc=0 value=.a/b\n",
      "cmd=get_result rc=0 value=._0\n",
      "cmd=get_result rc=0 value=._zz\n",
      "cmd=get_result rc=0 value=._00\n",
      chain,   /* a chain without end */
      stuffed, /* exceeds the buffer */
      "cmd=get_result rc=0 value=.0123456789abcdef\n",
  };
  (void)state;
  strcpy(chain, "cmd=get_result rc=0 value=-\n");
  memset(stuffed, 'x', sizeof stuffed);
  memcpy(stuffed, "cmd=get_result rc=0 value=.", 27);
  strcpy(stuffed + 4150, "\n");
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    pmi_trick trick = {"cmd=get ", values[i], 0};
    bad b = {.status = GLOO_ERR_PROTOCOL, .words = {"'get'"}};
    pmi_run(&(pmi_script){.ranks = 2, .trick = &trick}, rank_1_is_refused, &b,
            NULL);
  }
}

/* ---- absent ranks -------------------------------------------------------- */

static int others_wait(int rank, void *argument) {
  bad b = {.status = GLOO_ERR_TIMEOUT,
           .words = {"not all 3 ranks of the job 'job-1'", "gloo_init"}};
  gli_pmi_job job;
  (void)argument;
  if (rank == 1)
    return gli_pmi_join(GLI_PMI_SIMPLE, LONG, &job, NULL) == GLOO_OK ? 0 : 1;
  return is_refused(rank, &b);
}

static void ranks_that_do_not_come_are_waited_for_until_then(void **state) {
  pmi_seen seen;
  (void)state;
  pmi_run(&(pmi_script){.ranks = 3}, others_wait, NULL, &seen);
  assert_int_equal(seen.barriers, 2);
  assert_int_equal(seen.finalizes, 3);
}

static void *waits_behind(void *argument) {
  gloo_error error = {.message = ""};
  gli_pmi_job job;
  (void)argument;
  uv_sleep(200);
  int failed = expect(
      gli_pmi_join(GLI_PMI_SIMPLE, SHORT, &job, &error) == GLOO_ERR_TIMEOUT &&
          strstr(error.message, "another thread") != NULL,
      "the second thread waits in vain", &error);
  return failed ? argument : NULL;
}

static int a_thread_waits_behind_another(int rank, void *argument) {
  gloo_error error = {.message = ""};
  pthread_t thread;
  void *failed;
  char out[16];
  if (rank == 1) return 0;
  EXPECT(pthread_create(&thread, NULL, waits_behind, argument) == 0);
  EXPECT(gli_pmi_tell(GLI_PMI_SIMPLE, "x", out, sizeof out, 5 * SHORT,
                      &error) == GLOO_ERR_TIMEOUT);
  EXPECT(pthread_join(thread, &failed) == 0 && failed == NULL);
  return 0;
}

static void a_thread_waits_no_longer_than_its_own_deadline(void **state) {
  int any;
  (void)state;
  pmi_run(&(pmi_script){.ranks = 2}, a_thread_waits_behind_another, &any, NULL);
}

/* ---- the environment ----------------------------------------------------- */

typedef struct surrounding {
  const char *name, *value;
  const char *words[2];
} surrounding;

static int is_told_what_is_wrong(int rank, void *argument) {
  const surrounding *s = argument;
  gloo_error error = {.message = ""};
  gli_pmi_job job = {.size = 77};
  (void)rank;
  if (s->value != NULL) {
    setenv(s->name, s->value, 1);
  } else {
    unsetenv(s->name);
  }
  EXPECT(gli_pmi_join(GLI_PMI_SIMPLE, LONG, &job, &error) == GLOO_ERR_INVALID);
  EXPECT(job.size == 77);
  for (int i = 0; i < 2 && s->words[i] != NULL; i++)
    EXPECT(strstr(error.message, s->words[i]) != NULL);
  return 0;
}

static void an_environment_that_makes_no_sense_is_refused(void **state) {
  int pipes[2];
  char pipe_end[16], tcp_end[16];
  (void)state;
  assert_int_equal(pipe(pipes), 0);
  int tcp = socket(AF_INET, SOCK_STREAM, 0);
  snprintf(pipe_end, sizeof pipe_end, "%d", pipes[0]);
  snprintf(tcp_end, sizeof tcp_end, "%d", tcp);
  surrounding all[] = {
      {"PMI_FD", NULL, {"PMI_FD", "not set"}},
      {"PMI_FD", "", {"PMI_FD", "not set"}},
      {"PMI_FD", "six", {"PMI_FD", "'six'"}},
      {"PMI_FD", "-1", {"PMI_FD", "'-1'"}},
      {"PMI_FD", "99999999999", {"PMI_FD", "'99999999999'"}},
      {"PMI_FD", "987", {"987", "not open"}},
      {"PMI_FD", "0", {"descriptor 0", "GLOO_STORE"}},
      {"PMI_FD", pipe_end, {"something else", "GLOO_STORE"}},
      {"PMI_FD", tcp_end, {"something else"}},
      {"PMI_SIZE", "0", {"PMI_SIZE", "1 to 65536"}},
      {"PMI_SIZE", "65537", {"PMI_SIZE", "'65537'"}},
      {"PMI_SIZE", NULL, {"PMI_SIZE", "not set"}},
      {"PMI_RANK", "2", {"PMI_RANK", "below PMI_SIZE"}},
      {"PMI_RANK", "1x", {"PMI_RANK", "'1x'"}},
      {"PMI_RANK", NULL, {"PMI_RANK", "not set"}},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    pmi_run(&(pmi_script){.ranks = 2}, is_told_what_is_wrong, &all[i], NULL);
  close(pipes[0]);
  close(pipes[1]);
  close(tcp);
}

/* ---- lines --------------------------------------------------------------- */

static void words_of_lines(void **state) {
  char out[8];
  uint64_t number;
  (void)state;
  assert_true(gli_pmi_line_word("cmd=a rc=0 value=x=y", "value", out, 8));
  assert_string_equal(out, "x=y");
  assert_true(gli_pmi_line_word("  cmd=a", "cmd", out, 8));
  assert_false(gli_pmi_line_word("cmd=a", "cm", out, 8));
  assert_false(gli_pmi_line_word("xcmd=a", "cmd", out, 8));
  assert_false(gli_pmi_line_word("cmd", "cmd", out, 8));
  assert_false(gli_pmi_line_word("cmd= rc=0", "cmd", out, 8));
  assert_false(gli_pmi_line_word("", "cmd", out, 8));
  assert_true(gli_pmi_line_word("cmd=1234567", "cmd", out, 8));
  assert_false(gli_pmi_line_word("cmd=12345678", "cmd", out, 8));
  assert_true(gli_pmi_line_number("a=1 b=20", "b", 20, &number));
  assert_true(number == 20);
  assert_false(gli_pmi_line_number("b=21", "b", 20, &number));
  assert_false(gli_pmi_line_number("b=+1", "b", 20, &number));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_of_any_bytes_are_told_round_by_round),
      cmocka_unit_test(callback_joins),
      cmocka_unit_test(threads_are_told_one_after_the_other),
      cmocka_unit_test(forked_children_are_refused_and_say_no_farewell),
      cmocka_unit_test(its_number_may_become_that_of_something_else),
      cmocka_unit_test(answers_that_make_no_sense_are_refused),
      cmocka_unit_test(values_that_make_no_sense_are_refused),
      cmocka_unit_test(ranks_that_do_not_come_are_waited_for_until_then),
      cmocka_unit_test(a_thread_waits_no_longer_than_its_own_deadline),
      cmocka_unit_test(an_environment_that_makes_no_sense_is_refused),
      cmocka_unit_test(words_of_lines),
  };
  return cmocka_run_group_tests_name("pmi", tests, NULL, NULL);
}
