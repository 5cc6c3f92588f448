/* A rank of the jobs for tests of gloo trace: some calls, and then one rank
 * does what its argument selects.
 * usage: trace_rank late|other|message|well|busy|forks RANK */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gloo_c/gloo_c.h"

static gloo_context *context;

static void sum(void) {
  int x = 1;
  gloo_error error;
  if (gloo_allreduce(context, GLOO_IN_PLACE, &x, 1, GLOO_INT32, GLOO_SUM, NULL,
                     &error) != GLOO_OK)
    fprintf(stderr, "%s\n", error.message);
}

/* Makes no call until the others have failed. */
static void stay_away(void) {
  const struct timespec moment = {0, 20000000};
  gloo_error error;
  while (gloo_context_error(context, &error) == GLOO_OK)
    nanosleep(&moment, NULL);
}

static void receive(void) {
  int x;
  gloo_options tagged = GLOO_OPTIONS_INIT;
  tagged.tag = 9;
  (void)gloo_recv(context, &x, 1, GLOO_INT32,
                  gloo_context_rank(context) == 0 ? 1 : 0, &tagged, NULL);
}

/* Works until it is killed. */
static void work(int late) {
  const struct timespec moment = {0, 10000000};
  if (late) nanosleep(&moment, NULL);
  sum();
}

/* Forks two children: one exits normally, and one stays and prints its number.
 * Both leave the parent's state alone. */
static void fork_children(void) {
  pid_t ends = fork();
  if (ends == 0) {
    gloo_context_destroy(context);
    exit(0);
  }
  (void)waitpid(ends, NULL, 0);
  pid_t stays = fork();
  if (stays != 0) return;
  (void)setsid(); /* gloo run must not end it with the ranks */
  printf("child %ld\n", (long)getpid());
  fflush(stdout);
  (void)alarm(600);
  for (;;) pause();
}

int main(int argc, char **argv) {
  gloo_error error;
  if (argc != 3) return 2;
  if (gloo_init(NULL, &context, &error) != GLOO_OK)
    return puts(error.message), 1;
  for (int i = 0; i < 5; i++) sum();
  (void)gloo_barrier(context, NULL, NULL);
  int odd_one = gloo_context_rank(context) == atoi(argv[2]);
  bool forks = strcmp(argv[1], "forks") == 0;
  if (forks) fork_children();
  while (forks || strcmp(argv[1], "busy") == 0) work(odd_one);
  (void)gloo_context_set_timeout(context, 1500000000, NULL);
  if (strcmp(argv[1], "late") == 0 && odd_one)
    stay_away();
  else if (strcmp(argv[1], "other") == 0 && odd_one)
    (void)gloo_barrier(context, NULL, NULL);
  else if (strcmp(argv[1], "message") == 0 && odd_one)
    receive();
  else if (strcmp(argv[1], "message") == 0)
    stay_away();
  else
    sum();
  if (strcmp(argv[1], "well") == 0)
    (void)gloo_context_abort(context, "done", NULL);
  gloo_context_destroy(context);
  return 0;
}
