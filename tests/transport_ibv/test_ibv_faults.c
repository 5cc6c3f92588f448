/* Each entry point of libibverbs fails once, at several of its calls, and so do
 * work requests and the device. Every rank then has correct results (over TCP
 * if RDMA is unavailable, with the reason) or an error with a text. Nothing
 * crashes, hangs or leaks. Run with the stand-in in LD_LIBRARY_PATH. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ibv_job.h"
#include "ranks/sanitized.h"

enum { JOBS = 6, DENSE = 3, SPREAD = 4, ROUNDS_MAX = 64, NAME_BYTES = 40 };

static int n_ranks;
static bool verbose;

/* A kind of fault. */
typedef struct fault_kind {
  const char *name;   /* as in the file of STANDIN_COUNT */
  const char *format; /* of STANDIN_FAIL */
  const char *why;    /* part of the reason if the pair uses TCP; NULL: any */
} fault_kind;

static const fault_kind kinds[] = {
    {"fork_init", "fork_init:%lu", NULL},
    {"get_device_list", "get_device_list:%lu", NULL},
    {"open_device", "open_device:%lu", NULL},
    {"close_device", "close_device:%lu", NULL},
    {"query_device", "query_device:%lu", NULL},
    {"query_port", "query_port:%lu", NULL},
    {"query_gid_ex", "query_gid_ex:%lu", NULL},
    {"query_pkey", "query_pkey:%lu", NULL},
    {"get_async_event", "get_async_event:%lu", NULL},
    {"alloc_pd", "alloc_pd:%lu", NULL},
    {"dealloc_pd", "dealloc_pd:%lu", NULL},
    {"reg_mr", "reg_mr:%lu", "unlimited\" raises RLIMIT_MEMLOCK)"},
    {"reg_mr", "reg_mr:%lu:1", "registered memory"}, /* EPERM */
    {"dereg_mr", "dereg_mr:%lu", NULL},
    {"create_comp_channel", "create_comp_channel:%lu", NULL},
    {"destroy_comp_channel", "destroy_comp_channel:%lu", NULL},
    {"create_cq", "create_cq:%lu", NULL},
    {"destroy_cq", "destroy_cq:%lu", NULL},
    {"get_cq_event", "get_cq_event:%lu", NULL},
    {"create_srq", "create_srq:%lu", NULL},
    {"modify_srq", "modify_srq:%lu", NULL},
    {"destroy_srq", "destroy_srq:%lu", NULL},
    {"create_qp", "create_qp:%lu", "unlimited\" raises RLIMIT_MEMLOCK)"},
    {"create_qp", "create_qp:%lu:22", NULL}, /* EINVAL: too much inline */
    {"modify_qp", "modify_qp:%lu", NULL},
    {"destroy_qp", "destroy_qp:%lu", NULL},
    {"post_send", "post_send:%lu", NULL},
    {"post_srq_recv", "post_srq_recv:%lu", NULL},
    {"poll_cq", "poll_cq:%lu", NULL},
    {"req_notify_cq", "req_notify_cq:%lu", NULL},
    {"completion", "completion:%lu", NULL},
    {"device_fatal", "event:device_fatal@%lu", NULL},
    {"qp_fatal", "event:qp_fatal@%lu", NULL},
    {"qp_silent", "qp_silent:%lu", NULL},
    {"qp_drained", "qp_drained:%lu", NULL},
    /* Fails this call and all later ones. */
    {"query_gid_ex", "query_gid_ex:%lu+", NULL},
    {"query_pkey", "query_pkey:%lu+", NULL},
    {"reg_mr", "reg_mr:%lu+", NULL},
    {"dereg_mr", "dereg_mr:%lu+", NULL},
    {"create_qp", "create_qp:%lu+", NULL},
    {"create_cq", "create_cq:%lu+", NULL},
    {"modify_qp", "modify_qp:%lu+", NULL},
    {"destroy_qp", "destroy_qp:%lu+", NULL},
    {"get_async_event", "get_async_event:%lu+", NULL},
    {"get_cq_event", "get_cq_event:%lu+", NULL},
    {"req_notify_cq", "req_notify_cq:%lu+", NULL},
    {"post_send", "post_send:%lu+", NULL},
    {"create_srq", "create_srq:%lu+", NULL},
    {"modify_srq", "modify_srq:%lu+", NULL},
    {"destroy_srq", "destroy_srq:%lu+", NULL},
    {"post_srq_recv", "post_srq_recv:%lu+", NULL},
    {"poll_cq", "poll_cq:%lu+", NULL},
    {"completion", "completion:%lu+", NULL},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Number of calls of each kind in a run without faults. */
static unsigned long called[KINDS];

static void nap(void) {
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- without faults ------------------------------------------------------ */

static void read_counts(const char *path) {
  char name[NAME_BYTES];
  unsigned long n;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fscanf(file, "%39s %lu", name, &n) == 2)
    for (int k = 0; k < KINDS; k++)
      if (strcmp(kinds[k].name, name) == 0) called[k] = n;
  fclose(file);
}

static void nothing_fails(void **state) {
  (void)state;
  ibv_job job;
  char path[] = "/tmp/gloo_c_standin_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  ibv_plan plan = {.ranks = n_ranks, .count_file = path};
  ibv_job_make(&job);
  ibv_job_begin(&job, &plan);
  while (!ibv_job_has_ended(&job)) nap();
  if (!ibv_job_is_right(&job) || verbose) ibv_job_tell(&job);
  const char *fault = ibv_job_fault(&job);
  if (fault != NULL) fail_msg("%s", fault);
  for (int r = 0; r < n_ranks; r++) {
    assert_int_equal(job.shared->ranks[r].status, GLOO_OK);
    assert_int_equal(job.shared->ranks[r].by_tcp, 0);
    assert_int_equal(job.shared->ranks[r].by_rdma, n_ranks - 1);
  }
  read_counts(path);
  unlink(path);
  ibv_job_free(&job);
}

/* ---- with one ------------------------------------------------------------ */

/* Chooses the first few calls, and some of all others. */
static int choose_rounds(unsigned long most, unsigned long *rounds) {
  int n = 0;
  for (unsigned long i = 1; i <= DENSE && i <= most; i++) rounds[n++] = i;
  for (unsigned long i = 1; i <= SPREAD; i++) {
    unsigned long at = DENSE + (most - DENSE) * i / SPREAD;
    if (most > DENSE && at != rounds[n - 1]) rounds[n++] = at;
  }
  return n;
}

typedef struct fault_tally {
  int right, by_tcp, errors, faults;
} fault_tally;

static const char *check_why(const fault_kind *kind, const ibv_job *job) {
  for (int r = 0; kind->why != NULL && r < n_ranks; r++) {
    const ibv_report *report = &job->shared->ranks[r];
    if (report->by_tcp > 0 && strstr(report->why, kind->why) == NULL)
      return "it is TCP for another reason";
  }
  return NULL;
}

/* Returns a fault if ranks fail for the lack of a device, and none names it. */
static const char *check_device(const fault_kind *kind, const ibv_job *job) {
  bool lost = strcmp(kind->format, "poll_cq:%lu+") == 0 ||
              strcmp(kind->format, "event:device_fatal@%lu") == 0;
  bool names = !lost || ibv_job_is_right(job);
  for (int r = 0; r < n_ranks && !names; r++)
    names = strstr(job->shared->ranks[r].message, "RDMA device") != NULL;
  return names ? NULL : "no error names the device";
}

static void judge(const fault_kind *kind, fault_tally *tally,
                  const ibv_job *job) {
  const char *fault = ibv_job_fault(job);
  if (fault == NULL) fault = check_why(kind, job);
  if (fault == NULL) fault = check_device(kind, job);
  bool right = ibv_job_is_right(job), by_tcp = false;
  for (int r = 0; r < n_ranks; r++)
    by_tcp = by_tcp || job->shared->ranks[r].by_tcp > 0;
  tally->faults += fault != NULL;
  tally->errors += fault == NULL && !right;
  tally->right += right && !by_tcp;
  tally->by_tcp += right && by_tcp;
  if (fault == NULL && !verbose) return;
  printf("# %s: %s\n", job->plan.fail, fault != NULL ? fault : "is well");
  ibv_job_tell(job);
}

static void run_rounds(const fault_kind *kind, const unsigned long *rounds,
                       int n, fault_tally *tally) {
  static ibv_job jobs[JOBS];
  bool busy[JOBS] = {false};
  int next = 0, running = 0;
  for (int i = 0; i < JOBS; i++) ibv_job_make(&jobs[i]);
  while (next < n || running > 0) {
    for (int i = 0; i < JOBS; i++) {
      if (busy[i] && ibv_job_has_ended(&jobs[i])) {
        busy[i] = false;
        running--;
        judge(kind, tally, &jobs[i]);
      }
      if (busy[i] || next == n) continue;
      ibv_plan plan = {.ranks = n_ranks};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      snprintf(plan.fail, sizeof plan.fail, kind->format, rounds[next++]);
#pragma GCC diagnostic pop
      ibv_job_begin(&jobs[i], &plan);
      busy[i] = true;
      running++;
    }
    nap();
  }
  for (int i = 0; i < JOBS; i++) ibv_job_free(&jobs[i]);
}

static void one_fails(void **state) {
  const fault_kind *kind = *(const fault_kind **)*state;
  unsigned long rounds[ROUNDS_MAX], most = called[kind - kinds];
  fault_tally tally = {0};
  assert_true(most > 0);
  int n = choose_rounds(most, rounds);
  run_rounds(kind, rounds, n, &tally);
  printf("# %s, of %lu calls: %d right, %d by TCP, %d errors, %d faults\n",
         kind->format, most, tally.right, tally.by_tcp, tally.errors,
         tally.faults);
  assert_int_equal(tally.faults, 0);
}

/* Arguments: the number of ranks, and optionally the name of one kind, whose
 * runs are all reported. */
int main(int argc, char **argv) {
  static const fault_kind *states[KINDS];
  struct CMUnitTest tests[KINDS + 1] = {cmocka_unit_test(nothing_fails)};
  n_ranks = argc > 1 ? atoi(argv[1]) : 2;
  const char *only = argc > 2 ? argv[2] : NULL;
  verbose = only != NULL;
  size_t n = 1;
  for (int k = 0; k < KINDS; k++) {
    if (only != NULL && strcmp(only, kinds[k].name) != 0) continue;
    states[k] = &kinds[k];
    tests[n++] = (struct CMUnitTest){.name = kinds[k].format,
                                     .test_func = one_fails,
                                     .initial_state = &states[k]};
  }
  return _cmocka_run_group_tests("ibv_faults", tests, n, NULL, NULL);
}
