/* Growth of a job with ranks as processes: newcomers join a running job, ranks
 * are killed, and the rest continues with the newcomers and without the
 * dead. */
#define _XOPEN_SOURCE 700 /* nftw */
#include <dirent.h>
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
#include <unistd.h>

#include <cmocka.h>
#include <uv.h>

#include "api/grow.h"
#include "gloo_c/gloo_c.h"
#include "remove_tree.h"
#include "rendezvous/join/outcome.h"

enum { FIRST = 3, MOST = 8, LIMIT_S = 120 };

static const char *transport;
static char directory[40];
static pid_t pids[MOST];

/* ---- what ranks do ------------------------------------------------------- */

typedef struct place {
  gloo_store *store;
  gloo_device *device;
  gloo_context *context;
  int self; /* number among the processes */
} place;

static void need(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  fprintf(stderr, "# process %ld: %s\n", (long)getpid(), error->message);
  _exit(1);
}

/* Returns the processes in the context, as a set. */
static unsigned members(const place *p, gloo_context *context) {
  gloo_error error;
  int32_t set = 1 << p->self;
  need(gloo_allreduce(context, GLOO_IN_PLACE, &set, 1, GLOO_INT32, GLOO_SUM,
                      NULL, &error),
       &error);
  return (unsigned)set;
}

static void open_place(place *p, int self) {
  gloo_error error;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  f.directory = directory;
  d.transport = transport;
  p->self = self;
  need(gloo_store_file_create(&f, &p->store, &error), &error);
  need(gloo_device_create(&d, &p->device, &error), &error);
}

static void begin_first(place *p, int self) {
  gloo_error error;
  open_place(p, self);
  need(gloo_context_create(self, FIRST, p->store, p->device, NULL, &p->context,
                           &error),
       &error);
}

static void join(place *p, int self) {
  gloo_error error;
  open_place(p, self);
  need(gloo_context_join(p->store, p->device, NULL, INT64_C(60000000000),
                         &p->context, &error),
       &error);
}

/* Takes in this many newcomers. Returns the members afterwards. */
static unsigned grow(place *p, int newcomers) {
  gloo_error error;
  gloo_context *more;
  gloo_grow_options o = GLOO_GROW_OPTIONS_INIT;
  o.newcomers = newcomers;
  o.timeout_ns = INT64_C(60000000000);
  need(gloo_context_grow(p->context, p->store, &o, &more, &error), &error);
  if (more == NULL) return 0;
  if (gloo_context_rank(more) != gloo_context_rank(p->context)) _exit(2);
  gloo_context_destroy(p->context);
  p->context = more;
  return members(p, more);
}

static void leave(place *p) {
  gloo_context_destroy(p->context);
  gloo_device_destroy(p->device);
  gloo_store_destroy(p->store);
  _exit(0);
}

static void fork_each(int from, int to, void (*play)(int self)) {
  for (int i = from; i < to; i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i] > 0) continue;
    alarm(LIMIT_S);
    play(i);
    _exit(0);
  }
}

static void all_end_well(int n) {
  for (int i = 0; i < n; i++) {
    int status = 0;
    waitpid(pids[i], &status, 0);
    if (status != 0) print_message("# process %d: %#x\n", i, (unsigned)status);
    assert_int_equal(status, 0);
  }
}

static int make_directory(void **state) {
  (void)state;
  strcpy(directory, "/tmp/gloo_c_grow_XXXXXX");
  return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state) {
  (void)state;
  return remove_tree(directory);
}

/* ---- tests --------------------------------------------------------------- */

static void takes_in(int self) {
  place p;
  begin_first(&p, self);
  gloo_context *nobody = NULL;
  gloo_error error;
  /* The newcomers wait until this call has returned. */
  need(gloo_context_grow(p.context, p.store, NULL, &nobody, &error), &error);
  if (nobody != NULL) _exit(3);
  if (self == 0) need(gloo_store_set(p.store, "go", "1", 1, &error), &error);
  if (grow(&p, 2) != 0x1f) _exit(4);
  if (grow(&p, 1) != 0x3f) _exit(5);
  leave(&p);
}

static void comes(int self) {
  place p;
  gloo_error error;
  gloo_value value;
  open_place(&p, self);
  need(gloo_store_get(p.store, self < 5 ? "go" : "more", INT64_C(60000000000),
                      &value, &error),
       &error);
  free(value.data);
  need(gloo_context_join(p.store, p.device, NULL, INT64_C(60000000000),
                         &p.context, &error),
       &error);
  unsigned all = members(&p, p.context);
  if (self < 5) {
    if (all != 0x1f) _exit(6);
    if (self == 3)
      need(gloo_store_set(p.store, "more", "1", 1, &error), &error);
    all = grow(&p, 1);
  }
  if (all != 0x3f) _exit(7);
  leave(&p);
}

static void those_that_come_are_taken_in(void **state) {
  (void)state;
  fork_each(0, FIRST, takes_in);
  fork_each(FIRST, 6, comes);
  all_end_well(6);
}

static void loses_one_and_takes_in(int self) {
  place p;
  gloo_error error;
  begin_first(&p, self);
  if (self == 0) kill(getpid(), SIGKILL); /* another process leads the growth */
  gloo_status status;
  do status = gloo_barrier(p.context, NULL, &error);
  while (status == GLOO_OK);
  gloo_context *left;
  need(gloo_context_shrink(p.context, NULL, &left, &error), &error);
  gloo_context_destroy(p.context);
  p.context = left;
  if (members(&p, left) != 6) _exit(8);
  if (grow(&p, 1) != 0xe) _exit(9);
  leave(&p);
}

static void replaces(int self) {
  place p;
  join(&p, self);
  if (members(&p, p.context) != 0xe) _exit(10);
  leave(&p);
}

static void a_new_rank_comes_for_one_that_died(void **state) {
  (void)state;
  fork_each(0, FIRST, loses_one_and_takes_in);
  fork_each(FIRST, FIRST + 1, replaces);
  int status = 0;
  waitpid(pids[0], &status, 0);
  assert_true(WIFSIGNALED(status));
  for (int i = 1; i < 4; i++) {
    waitpid(pids[i], &status, 0);
    assert_int_equal(status, 0);
  }
}

/* ---- a newcomer that is killed ------------------------------------------- */

static bool anybody_waits(void) {
  char wills[64];
  snprintf(wills, sizeof wills, "%s/wills", directory);
  DIR *folder = opendir(wills);
  if (folder == NULL) return false;
  const struct dirent *entry;
  bool any = false;
  while ((entry = readdir(folder)) != NULL)
    any = any || entry->d_name[0] != '.';
  closedir(folder);
  return any;
}

static void joins_in_vain(int self) {
  place p;
  join(&p, self);
  _exit(16);
}

static void takes_in_the_other(int self) {
  place p;
  begin_first(&p, self);
  if (grow(&p, 2) != 0x17) _exit(17);
  leave(&p);
}

static void joins_after_it(int self) {
  place p;
  join(&p, self);
  if (members(&p, p.context) != 0x17) _exit(18);
  leave(&p);
}

/* Two newcomers have arrived, one of which has been killed. */
static void newcomer_that_was_killed_is_passed_over(void **state) {
  (void)state;
  int status = 0;
  fork_each(FIRST, FIRST + 1, joins_in_vain);
  while (!anybody_waits()) uv_sleep(1);
  kill(pids[FIRST], SIGKILL);
  waitpid(pids[FIRST], &status, 0);
  assert_true(WIFSIGNALED(status));
  fork_each(0, FIRST, takes_in_the_other);
  fork_each(FIRST + 1, FIRST + 2, joins_after_it);
  pids[FIRST] = pids[FIRST + 1];
  all_end_well(FIRST + 1);
}

/* A newcomer that is killed after it took a number and before it registers a
 * will. */
static void takes_a_number_and_dies(int self) {
  place p;
  gloo_error error;
  int64_t number;
  open_place(&p, self);
  need(gloo_store_add(p.store, GLI_GROW_CAME, 1, &number, &error), &error);
  kill(getpid(), SIGKILL);
}

static void newcomer_that_was_killed_before_its_will_is_passed_over(
    void **state) {
  (void)state;
  int status = 0;
  fork_each(FIRST, FIRST + 1, takes_a_number_and_dies);
  waitpid(pids[FIRST], &status, 0);
  assert_true(WIFSIGNALED(status));
  fork_each(0, FIRST, takes_in_the_other);
  fork_each(FIRST + 1, FIRST + 2, joins_after_it);
  pids[FIRST] = pids[FIRST + 1];
  all_end_well(FIRST + 1);
}

/* A newcomer that is called, answers, and is killed before it connects. */
static void promises_and_dies(int self) {
  place p;
  gloo_error error;
  gloo_value value;
  int64_t number;
  char key[GLI_GROW_KEY_BYTES];
  open_place(&p, self);
  need(gloo_store_add(p.store, GLI_GROW_CAME, 1, &number, &error), &error);
  gli_grow_key(key, GLI_GROW_CALL, number);
  need(gloo_store_get(p.store, key, INT64_C(60000000000), &value, &error),
       &error);
  free(value.data);
  need(gli_grow_promise(p.store, 1, GLI_BOOTSTRAP_NO_RANK, &error), &error);
  gli_grow_key(key, GLI_GROW_COMES, number);
  need(gloo_store_set(p.store, key, "1", 1, &error), &error);
  gli_grow_key(key, GLI_GROW_PLACE, number);
  need(gloo_store_get(p.store, key, INT64_C(60000000000), &value, &error),
       &error);
  kill(getpid(), SIGKILL);
}

/* The first meeting fails with the peer's death, not with a timeout; the
 * remaining newcomer waits for the next meeting. */
static void meets_the_other_later(int self) {
  place p;
  gloo_error error;
  gloo_context *more = NULL;
  gloo_grow_options o = GLOO_GROW_OPTIONS_INIT;
  begin_first(&p, self);
  o.newcomers = 2;
  o.timeout_ns = INT64_C(60000000000);
  if (gloo_context_grow(p.context, p.store, &o, &more, &error) !=
      GLOO_ERR_PEER) {
    fprintf(stderr, "# %s\n", error.message);
    _exit(19);
  }
  if (grow(&p, 1) != 0x17) _exit(20);
  leave(&p);
}

static void newcomer_that_was_killed_with_its_place_ends_the_meeting(
    void **state) {
  (void)state;
  int status = 0;
  fork_each(FIRST, FIRST + 1, promises_and_dies);
  fork_each(FIRST + 1, FIRST + 2, joins_after_it);
  fork_each(0, FIRST, meets_the_other_later);
  waitpid(pids[FIRST], &status, 0);
  assert_true(WIFSIGNALED(status));
  pids[FIRST] = pids[FIRST + 1];
  all_end_well(FIRST + 1);
}

/* ---- a secret in the options --------------------------------------------- */

static const gloo_context_options with_secret = {
    .struct_size = sizeof with_secret,
    .secret = "sixteen or more bytes",
    .secret_bytes = 21};

static void await_key(const place *p, const char *key) {
  gloo_error error;
  gloo_value value;
  need(gloo_store_get(p->store, key, INT64_C(60000000000), &value, &error),
       &error);
  free(value.data);
}

static void join_with_secret(place *p, int self, const char *when) {
  gloo_error error;
  open_place(p, self);
  if (when != NULL) await_key(p, when);
  need(gloo_context_join(p->store, p->device, &with_secret,
                         INT64_C(60000000000), &p->context, &error),
       &error);
}

static void go_on_without(place *p, unsigned left) {
  gloo_error error;
  gloo_context *less;
  while (gloo_barrier(p->context, NULL, &error) == GLOO_OK) continue;
  need(gloo_context_shrink(p->context, NULL, &less, &error), &error);
  gloo_context_destroy(p->context);
  p->context = less;
  if (members(p, less) != left) _exit(11);
}

/* The secret is inherited: the options of gloo_context_grow do not carry it.
 * One rank takes in another, the two take in a third, which dies, and then a
 * last one. */
static void keeps_its_secret(int self) {
  place p;
  gloo_error error;
  if (self == 0) {
    open_place(&p, self);
    need(gloo_context_create(0, 1, p.store, p.device, &with_secret, &p.context,
                             &error),
         &error);
    if (grow(&p, 1) != 0x3) _exit(12);
    need(gloo_store_set(p.store, "third", "1", 1, &error), &error);
  } else {
    join_with_secret(&p, self, self == 2 ? "third" : self == 3 ? "last" : NULL);
    unsigned all = self == 1 ? 0x3 : self == 2 ? 0x7 : 0xb;
    if (members(&p, p.context) != all) _exit(13);
  }
  if (self == 2) kill(getpid(), SIGKILL);
  if (self < 2) {
    if (grow(&p, 1) != 0x7) _exit(14);
    go_on_without(&p, 0x3);
    if (self == 0)
      need(gloo_store_set(p.store, "last", "1", 1, &error), &error);
    if (grow(&p, 1) != 0xb) _exit(15);
  }
  leave(&p);
}

static void the_secret_of_the_options_is_kept(void **state) {
  (void)state;
  fork_each(0, 4, keeps_its_secret);
  for (int i = 0; i < 4; i++) {
    int status = 0;
    waitpid(pids[i], &status, 0);
    if (status != 0 && i != 2)
      print_message("# process %d: %#x\n", i, (unsigned)status);
    assert_true(i == 2 ? WIFSIGNALED(status) : status == 0);
  }
}

static void a_place_that_makes_no_sense_is_an_error(void **state) {
  static const char *const places[] = {
      "",
      "1 0 1", /* as written by an older release */
      "1 0 1 ",
      "1 0 1 00112233445566778899aabbccddee",
      "1 0 1 00112233445566778899aabbccddeeff0",
      "1 0 1 00112233445566778899aabbccddeefg",
      "1 1 1 00112233445566778899aabbccddeeff",
      "1 -1 1 00112233445566778899aabbccddeeff",
      "2 0 1 00112233445566778899aabbccddeeff", /* another meeting */
      "x",
  };
  (void)state;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    gloo_store *store;
    gloo_context *context;
    gloo_error error;
    assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
    assert_int_equal(gloo_store_set(store, "gloo/grow/call/1", "1", 1, NULL),
                     GLOO_OK);
    assert_int_equal(gloo_store_set(store, "gloo/grow/place/1", places[i],
                                    strlen(places[i]), NULL),
                     GLOO_OK);
    assert_int_equal(gloo_context_join(store, NULL, NULL, -1, &context, &error),
                     GLOO_ERR_PROTOCOL);
    assert_non_null(strstr(error.message, "same release"));
    gloo_store_destroy(store);
  }
}

static void nobody_takes_it_in(void **state) {
  (void)state;
  gloo_store *store;
  gloo_device *device;
  gloo_context *context = NULL;
  gloo_error error;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = "inproc";
  assert_int_equal(gloo_store_memory_create(&store, &error), GLOO_OK);
  assert_int_equal(gloo_device_create(&d, &device, &error), GLOO_OK);
  assert_int_equal(
      gloo_context_join(store, device, NULL, 10000000, &context, &error),
      GLOO_ERR_TIMEOUT);
  assert_null(context);
  /* Later calls of gloo_context_grow do not wait for the newcomer that gave
   * up. */
  assert_int_equal(
      gloo_context_create(0, 1, NULL, device, NULL, &context, &error), GLOO_OK);
  gloo_context *more = context;
  assert_int_equal(gloo_context_grow(context, store, NULL, &more, &error),
                   GLOO_OK);
  assert_null(more);
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
}

/* ---- ranks that are threads ---------------------------------------------- */

typedef struct thread_rank {
  gloo_store *store;
  int rank, left; /* number of ranks after the shrink */
  gloo_error error;
} thread_rank;

/* Rank 2 leaves; rank 1 detects that later than rank 0. */
static void thread_main(void *argument) {
  thread_rank *r = argument;
  gloo_device *device;
  gloo_context *context, *left = NULL;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = "inproc";
  gloo_status status = gloo_device_create(&d, &device, &r->error);
  if (status == GLOO_OK)
    status = gloo_context_create(r->rank, 3, r->store, device, NULL, &context,
                                 &r->error);
  if (status != GLOO_OK) return;
  while (r->rank != 2 && status == GLOO_OK)
    status = gloo_barrier(context, NULL, &r->error);
  if (r->rank == 1) uv_sleep(300);
  if (r->rank != 2 &&
      gloo_context_shrink(context, NULL, &left, &r->error) == GLOO_OK) {
    if (gloo_barrier(left, NULL, &r->error) == GLOO_OK)
      r->left = gloo_context_size(left);
    gloo_context_destroy(left);
  }
  gloo_context_destroy(context);
  gloo_device_destroy(device);
}

static void threads_go_on_without_one_that_left(void **state) {
  (void)state;
  uv_thread_t threads[3];
  thread_rank ranks[3];
  gloo_store *store;
  assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
  for (int i = 0; i < 3; i++) {
    ranks[i] = (thread_rank){.store = store, .rank = i};
    assert_int_equal(uv_thread_create(&threads[i], thread_main, &ranks[i]), 0);
  }
  for (int i = 0; i < 3; i++) uv_thread_join(&threads[i]);
  for (int i = 0; i < 2; i++) {
    if (ranks[i].left != 2) print_message("# %s\n", ranks[i].error.message);
    assert_int_equal(ranks[i].left, 2);
  }
  gloo_store_destroy(store);
}

/* ---- rank 0 of another version, or faulty -------------------------------- */

/* Copy of the struct in src/api/grow.c. */
typedef struct told_plan {
  int64_t round;
  uint8_t drawn[16];
  int32_t newcomers, status;
  char text[GLOO_ERROR_MESSAGE_BYTES];
} told_plan;

typedef struct told_rank {
  gloo_store *store;
  told_plan plan;
  int rank;
  gloo_status status;
  gloo_error error;
} told_rank;

/* Rank 0 broadcasts its plan, and rank 1 grows accordingly. */
static void told_main(void *argument) {
  told_rank *r = argument;
  gloo_device *device;
  gloo_context *context, *more = NULL;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = "inproc";
  r->status = gloo_device_create(&d, &device, &r->error);
  if (r->status != GLOO_OK) return;
  r->status = gloo_context_create(r->rank, 2, r->store, device, NULL, &context,
                                  &r->error);
  if (r->status == GLOO_OK && r->rank == 0)
    r->status = gloo_broadcast(context, GLOO_IN_PLACE, (uint8_t *)&r->plan,
                               sizeof r->plan, GLOO_UINT8, 0, NULL, &r->error);
  else if (r->status == GLOO_OK)
    r->status = gloo_context_grow(context, r->store, NULL, &more, &r->error);
  if (more != NULL) r->status = GLOO_ERR_IO; /* made without newcomers */
  gloo_context_destroy(context);
  gloo_device_destroy(device);
}

static void a_plan_that_makes_no_sense_is_refused(void **state) {
  static const struct {
    int32_t newcomers, status;
  } told[] = {{INT32_MAX, 0}, {-1, 0}, {65535, 0}, {0, 5}, {0, -10000}};
  (void)state;
  for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
    uv_thread_t threads[2];
    told_rank ranks[2];
    gloo_store *store;
    memset(ranks, 0, sizeof ranks);
    assert_int_equal(gloo_store_memory_create(&store, NULL), GLOO_OK);
    for (int k = 0; k < 2; k++) {
      ranks[k].store = store;
      ranks[k].rank = k;
      ranks[k].plan.newcomers = told[i].newcomers;
      ranks[k].plan.status = told[i].status;
      assert_int_equal(uv_thread_create(&threads[k], told_main, &ranks[k]), 0);
    }
    for (int k = 0; k < 2; k++) uv_thread_join(&threads[k]);
    assert_int_equal(ranks[0].status, GLOO_OK);
    if (ranks[1].status != GLOO_ERR_PROTOCOL)
      print_message("# %d newcomers, status %d: %s\n", (int)told[i].newcomers,
                    (int)told[i].status, ranks[1].error.message);
    assert_int_equal(ranks[1].status, GLOO_ERR_PROTOCOL);
    assert_int_equal(ranks[1].error.rank, 0);
    gloo_store_destroy(store);
  }
}

static void a_count_below_zero_makes_no_sense(void **state) {
  (void)state;
  gloo_store *store;
  gloo_device *device;
  gloo_context *context, *more = NULL;
  gloo_error error;
  int64_t sum;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_grow_options o = GLOO_GROW_OPTIONS_INIT;
  d.transport = "inproc";
  c.timeout_ns = 10000000;
  o.context = &c;
  assert_int_equal(gloo_store_memory_create(&store, &error), GLOO_OK);
  assert_int_equal(gloo_device_create(&d, &device, &error), GLOO_OK);
  assert_int_equal(gloo_store_add(store, "gloo/grow/placed", -1, &sum, &error),
                   GLOO_OK);
  assert_int_equal(
      gloo_context_create(0, 1, NULL, device, NULL, &context, &error), GLOO_OK);
  assert_int_equal(gloo_context_grow(context, store, &o, &more, &error),
                   GLOO_ERR_PROTOCOL);
  assert_null(more);
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
}

/* Argument: the transport. */
int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "auto";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(those_that_come_are_taken_in,
                                      make_directory, remove_directory),
      cmocka_unit_test_setup_teardown(a_new_rank_comes_for_one_that_died,
                                      make_directory, remove_directory),
      cmocka_unit_test_setup_teardown(newcomer_that_was_killed_is_passed_over,
                                      make_directory, remove_directory),
      cmocka_unit_test_setup_teardown(
          newcomer_that_was_killed_before_its_will_is_passed_over,
          make_directory, remove_directory),
      cmocka_unit_test_setup_teardown(
          newcomer_that_was_killed_with_its_place_ends_the_meeting,
          make_directory, remove_directory),
      cmocka_unit_test_setup_teardown(the_secret_of_the_options_is_kept,
                                      make_directory, remove_directory),
      cmocka_unit_test(a_place_that_makes_no_sense_is_an_error),
      cmocka_unit_test(nobody_takes_it_in),
      cmocka_unit_test(threads_go_on_without_one_that_left),
      cmocka_unit_test(a_plan_that_makes_no_sense_is_refused),
      cmocka_unit_test(a_count_below_zero_makes_no_sense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
