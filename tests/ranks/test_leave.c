/* Ranks as processes, some of which leave in order while others continue: the
 * remaining ranks do not miss those, but still detect failures of each
 * other. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"
#include "sanitized.h"

enum { MOST = 9, LIMIT_S = 120 };
/* GLOO_HEARTBEAT, in seconds. A rank without calls checks twice in three such
 * periods which ranks have left. */
#define HEARTBEAT_S (SANITIZED ? 6 : 2)

static const char *transport;
static char directory[40];
static pid_t pids[MOST];
static int ranks;

/* ---- ranks --------------------------------------------------------------- */

typedef struct place {
  gloo_store *store;
  gloo_device *device;
  gloo_context *context;
  int rank;
} place;

static void nap_ms(unsigned ms) {
  struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
  nanosleep(&t, NULL);
}

static void need(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  fprintf(stderr, "# process %ld: %s\n", (long)getpid(), error->message);
  _exit(1);
}

static void enter(place *p, int rank) {
  gloo_error error;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  f.directory = directory;
  d.transport = transport;
  c.timeout_ns = -1;
  p->rank = rank;
  need(gloo_store_file_create(&f, &p->store, &error), &error);
  need(gloo_device_create(&d, &p->device, &error), &error);
  need(gloo_context_create(rank, ranks, p->store, p->device, &c, &p->context,
                           &error),
       &error);
}

static void leave(place *p) {
  gloo_context_destroy(p->context);
  gloo_device_destroy(p->device);
  gloo_store_destroy(p->store);
  _exit(0);
}

static void start(int n, void (*play)(place *p)) {
  ranks = n;
  strcpy(directory, "/tmp/gloo_c_leave_XXXXXX");
  assert_non_null(mkdtemp(directory));
  for (int rank = 0; rank < n; rank++) {
    pids[rank] = fork();
    assert_true(pids[rank] >= 0);
    if (pids[rank] > 0) continue;
    alarm(LIMIT_S);
    place p;
    enter(&p, rank);
    play(&p);
    leave(&p);
  }
}

static void ended_well(int rank) {
  int status = -1;
  waitpid(pids[rank], &status, 0);
  if (status != 0) print_message("# rank %d: status %#x\n", rank, status);
  assert_int_equal(status, 0);
}

static void clean_up(void) {
  pid_t remover = fork();
  if (remover == 0) {
    execlp("rm", "rm", "-rf", directory, (char *)NULL);
    _exit(1);
  }
  waitpid(remover, NULL, 0);
}

/* ---- a rank whose neighbours have left ----------------------------------- */

/* Neighbours of ALONE: 6 in the tree, 6 and 8 in the ring, so not LISTENER. */
enum { ALONE = 7, LISTENER = 1 };

static bool goes(int rank) {
  return rank == ALONE - 1 || rank == ALONE + 1;
}

static void miss_the_one_that_is_alone(place *p) {
  gloo_error error;
  int32_t x;
  if (goes(p->rank)) {
    nap_ms(200);
    return;
  }
  if (p->rank == ALONE) nap_ms(LIMIT_S * 1000);
  gloo_status status = GLOO_OK;
  if (p->rank == LISTENER)
    status = gloo_recv_any(p->context, &x, 1, GLOO_INT32, NULL, 0, NULL, NULL,
                           &error);
  while (status == GLOO_OK) {
    nap_ms(10);
    status = gloo_context_error(p->context, &error);
  }
  if (status == GLOO_ERR_PEER && error.rank == ALONE) return;
  fprintf(stderr, "# rank %d: %s\n", p->rank, error.message);
  _exit(1);
}

static void lose_the_one_that_is_alone(int fault) {
  start(MOST, miss_the_one_that_is_alone);
  ended_well(ALONE - 1);
  ended_well(ALONE + 1);
  nap_ms(2500 * HEARTBEAT_S);
  kill(pids[ALONE], fault);
  for (int rank = 0; rank < ALONE - 1; rank++) ended_well(rank);
  kill(pids[ALONE], SIGKILL);
  waitpid(pids[ALONE], NULL, 0);
  clean_up();
}

static void killed_rank_is_missed_by_those_left(void **state) {
  (void)state;
  lose_the_one_that_is_alone(SIGKILL);
}

static void stopped_rank_is_missed_by_those_left(void **state) {
  (void)state;
  lose_the_one_that_is_alone(SIGSTOP);
}

/* ---- a rank that leaves at once ------------------------------------------ */

static int leaver;

/* One rank leaves before its neighbours in the ring have connected. */
static void do_without_one(place *p) {
  gloo_error error;
  int32_t x = p->rank;
  if (p->rank == leaver) return;
  nap_ms(4000); /* longer than the two seconds of attempts over TCP */
  need(gloo_context_error(p->context, &error), &error);
  if (p->rank == 0)
    need(gloo_send(p->context, &x, 1, GLOO_INT32, 3, NULL, &error), &error);
  if (p->rank == 3)
    need(gloo_recv(p->context, &x, 1, GLOO_INT32, 0, NULL, &error), &error);
}

static void rank_that_leaves_at_once_is_no_loss(void **state) {
  (void)state;
  for (leaver = 1; leaver < 3; leaver++) {
    start(4, do_without_one);
    for (int rank = 0; rank < 4; rank++) ended_well(rank);
    clean_up();
  }
}

/* Argument: the transport. */
int main(int argc, char **argv) {
  char heartbeat[16];
  transport = argc > 1 ? argv[1] : "tcp";
  snprintf(heartbeat, sizeof heartbeat, "%d", HEARTBEAT_S);
  setenv("GLOO_HEARTBEAT", heartbeat, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_rank_is_missed_by_those_left),
      cmocka_unit_test(stopped_rank_is_missed_by_those_left),
      cmocka_unit_test(rank_that_leaves_at_once_is_no_loss),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
