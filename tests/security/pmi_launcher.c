/* A launcher that speaks PMI-1, for scripts: mpiexec on one host.
 * usage: pmi_launcher RANKS PROGRAM...
 * The status is 0 if that of all ranks is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <unistd.h>

#include "../rendezvous/pmi_server.h"

static pmi_script script;

static int become(int rank, void *argument) {
  char **program = argument;
  (void)rank;
  execvp(program[0], program);
  perror(program[0]);
  return 127;
}

static void ranks_run(void **state) {
  pmi_run(&script, become, *state, NULL);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  script.ranks = atoi(argv[1]);
  if (script.ranks < 1 || script.ranks > PMI_RANKS_MAX) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(ranks_run, argv + 2)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
