/* A rank's process forks while callbacks of its requests are pending or
 * running, and while its device has a descriptor. All of these belong to the
 * parent; the child neither waits for them nor touches them. */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fork_job.h"

/* The last rank sends to the ranks that fork; of threads, only one forks. */
enum { SENDER = RANKS - 1, ONE = 1, TAG = 7, PATIENCE_MS = 200000 };

static const char *transport;

static bool forks(const rank *r, int which) {
  return which != SENDER && (!r->threads || which == ONE);
}

/* ---- a request that ends on demand --------------------------------------- */

static int32_t value;
static gloo_request *late;

static void late_start(rank *r) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = TAG;
  OK(gloo_recv_start(r->context, &value, 1, GLOO_INT32, SENDER, &o, &late,
                     NULL));
}

static void late_ask(rank *r) {
  OK(gloo_send(r->context, &(int32_t){1}, 1, GLOO_INT32, SENDER, NULL, NULL));
}

static void late_end(void) {
  OK(gloo_request_wait(late, GLOO_TIMEOUT_DEFAULT, NULL));
  CHECK(value == 42);
  gloo_request_destroy(late);
}

/* Answers each rank that forks. */
static void late_answer(rank *r) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = TAG;
  for (int i = 0; i < RANKS; i++) {
    int32_t token;
    if (!forks(r, i)) continue;
    OK(gloo_recv(r->context, &token, 1, GLOO_INT32, i, NULL, NULL));
    OK(gloo_send(r->context, &(int32_t){42}, 1, GLOO_INT32, i, &o, NULL));
  }
}

/* ---- children ------------------------------------------------------------ */

static void destroy(rank *r) {
  gloo_request_destroy(late);
  gloo_context_destroy(r->context);
  gloo_device_destroy(r->device);
  gloo_store_destroy(r->store);
}

static void destroy_context_first(rank *r) {
  gloo_context_destroy(r->context);
  gloo_request_destroy(late);
  gloo_device_destroy(r->device);
  gloo_store_destroy(r->store);
}

static void use_and_destroy(rank *r) {
  int fd;
  CHECK(gloo_context_error(r->context, &(gloo_error){0}) == GLOO_ERR_FORKED);
  CHECK(gloo_device_get_fd(r->device, &fd, NULL) == GLOO_ERR_FORKED);
  CHECK(gloo_request_wait(late, GLOO_TIMEOUT_DEFAULT, NULL) == GLOO_ERR_FORKED);
  gloo_device_clear_fd(r->device);
  destroy(r);
}

static const scene children[] = {destroy, destroy_context_first,
                                 use_and_destroy};
enum { CHILDREN = sizeof children / sizeof children[0] };

static void fork_each(rank *r) {
  for (int i = 0; i < CHILDREN; i++) job_join(job_fork(r, children[i]));
}

/* ---- running callbacks --------------------------------------------------- */

static sem_t inside, leave; /* a callback is running, and may return */

static void wait_for(sem_t *event) {
  while (sem_wait(event) != 0) CHECK(errno == EINTR);
}

static void stay(void *user, gloo_request *request, gloo_status status) {
  (void)user, (void)request;
  CHECK(status == GLOO_OK);
  sem_post(&inside);
  wait_for(&leave);
}

static void fork_beside(rank *r) {
  late_start(r);
  OK(gloo_request_on_done(late, stay, NULL, NULL));
  late_ask(r);
  wait_for(&inside);
  fork_each(r);
  sem_post(&leave);
  late_end();
}

static void beside_functions(rank *r) {
  if (forks(r, r->rank)) fork_beside(r);
  if (r->rank == SENDER) late_answer(r);
  job_work(r, r->context);
}

/* ---- callbacks that fork ------------------------------------------------- */

static void stay_to_fork(void *user, gloo_request *request,
                         gloo_status status) {
  rank *r = user;
  (void)request;
  CHECK(status == GLOO_OK);
  fork_each(r);
  sem_post(&inside);
}

static void within_functions(rank *r) {
  if (forks(r, r->rank)) {
    late_start(r);
    OK(gloo_request_on_done(late, stay_to_fork, r, NULL));
    late_ask(r);
    wait_for(&inside);
    late_end();
  }
  if (r->rank == SENDER) late_answer(r);
  job_work(r, r->context);
}

/* ---- the descriptor ------------------------------------------------------ */

static bool is_readable(int fd, int timeout_ms) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  int n;
  do n = poll(&one, 1, timeout_ms);
  while (n < 0 && errno == EINTR);
  CHECK(n >= 0);
  return n > 0;
}

static void fork_with_descriptor(rank *r) {
  int fd;
  OK(gloo_device_get_fd(r->device, &fd, NULL));
  late_start(r);
  gloo_device_clear_fd(r->device);
  CHECK(!is_readable(fd, 0));
  for (int i = 0; i < CHILDREN; i++) {
    job_join(job_fork(r, children[i]));
    CHECK(!is_readable(fd, 0)); /* no request has ended */
  }
  late_ask(r);
  OK(gloo_request_wait(late, GLOO_TIMEOUT_DEFAULT, NULL));
  CHECK(is_readable(fd, PATIENCE_MS));
  for (int i = 0; i < CHILDREN; i++) {
    job_join(job_fork(r, children[i]));
    CHECK(is_readable(fd, 0)); /* the child has not cleared it */
  }
  gloo_device_clear_fd(r->device);
  CHECK(!is_readable(fd, 0));
  late_end();
}

static void beside_a_descriptor(rank *r) {
  if (forks(r, r->rank)) fork_with_descriptor(r);
  if (r->rank == SENDER) late_answer(r);
  job_work(r, r->context);
}

/* -------------------------------------------------------------------------- */

static void play(scene body) {
  assert_int_equal(job_run(transport, body), 0);
}

static void children_do_not_wait_for_functions_of_the_parent(void **state) {
  (void)state;
  play(beside_functions);
}

static void functions_may_fork(void **state) {
  (void)state;
  play(within_functions);
}

static void the_descriptor_stays_the_parents(void **state) {
  (void)state;
  play(beside_a_descriptor);
}

int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "auto";
  CHECK(sem_init(&inside, 0, 0) == 0 && sem_init(&leave, 0, 0) == 0);
  const struct CMUnitTest all[] = {
      cmocka_unit_test(children_do_not_wait_for_functions_of_the_parent),
      cmocka_unit_test(functions_may_fork),
      cmocka_unit_test(the_descriptor_stays_the_parents),
  };
  return cmocka_run_group_tests(all, NULL, NULL);
}
