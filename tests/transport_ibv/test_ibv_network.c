/* Jobs over ports and networks as they occur: ports of several kinds, networks
 * that lose packets, devices that refuse something. Each case says what becomes
 * of the job. Run with the stand-in in LD_LIBRARY_PATH. */
#include <limits.h>
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

enum { RANKS = 2 };
static const int64_t long_ns = INT64_C(80000000000);

typedef enum case_end { BY_RDMA, BY_TCP, FAILS } case_end;

typedef struct network_case {
  const char *name;
  case_end end;
  const char *text; /* part of the reason for TCP, or of the error */
  const char *settings[IBV_SETTINGS_MAX];
  const char *counted; /* counter of the stand-in; NULL: none */
  unsigned long least, most;
} network_case;

static const network_case cases[] = {
    {"the_default", BY_RDMA, NULL, {NULL}, NULL, 0, 0},
    {"ports_of_different_mtus",
     BY_RDMA,
     NULL,
     {"STANDIN_ONE_EACH=1", "STANDIN_PORTS=a:mtu=4096;b:mtu=1024"},
     NULL,
     0,
     0},
    {"infiniband_and_ethernet",
     BY_TCP,
     "one rank's port is InfiniBand, the other's Ethernet",
     {"STANDIN_ONE_EACH=1", "STANDIN_PORTS=a:link=infiniband,lid=3;b"},
     NULL,
     0,
     0},
    {"infiniband",
     BY_RDMA,
     NULL,
     {"STANDIN_PORTS=a:link=infiniband,lid=3,mtu=4096"},
     NULL,
     0,
     0},
    {"a_peer_that_cannot_be_found_after_a_while",
     BY_TCP,
     "lacks a path to the other rank's port",
     {"STANDIN_RTR=300:110"},
     NULL,
     0,
     0},
    {"a_peer_that_is_found_after_a_while",
     BY_RDMA,
     NULL,
     {"STANDIN_RTR=300"},
     NULL,
     0,
     0},
    /* The times of the stand-in are a sixteenth of a device's. */
    {"a_network_that_is_away_for_a_while",
     BY_RDMA,
     NULL,
     {"STANDIN_AWAY=30:250"},
     NULL,
     0,
     0},
    {"the_same_with_short_timers",
     FAILS,
     "no longer answers through standin0:1: transport retry counter exceeded",
     {"STANDIN_AWAY=30:30000", "GLOO_IBV_TIMEOUT=8", "GLOO_IBV_RETRY=0"},
     NULL,
     0,
     0},
    {"a_silent_host_that_only_heartbeats_show",
     FAILS,
     "no heartbeat from rank ",
     {"STANDIN_AWAY=30:600000", "GLOO_IBV_TIMEOUT=31", "GLOO_HEARTBEAT=1"},
     NULL,
     0,
     0},
    {"no_way_from_the_beginning",
     BY_TCP,
     "was not acknowledged for 2 s",
     {"STANDIN_AWAY=1:600000", "GLOO_IBV_TIMEOUT=31"},
     NULL,
     0,
     0},
    {"a_timeout_without_end",
     FAILS,
     "GLOO_IBV_TIMEOUT is '0'; it must be a number from 1 to 31",
     {"GLOO_IBV_TIMEOUT=0"},
     NULL,
     0,
     0},
    {"too_many_retries",
     FAILS,
     "GLOO_IBV_RETRY is '8'; it must be a number from 0 to 7",
     {"GLOO_IBV_RETRY=8"},
     NULL,
     0,
     0},
    {"a_network_with_a_smaller_mtu",
     BY_TCP,
     "was not acknowledged for 2 s; check MTU",
     {"STANDIN_MTU=900", "GLOO_IBV_TIMEOUT=31"},
     NULL,
     0,
     0},
    {"a_device_without_reliable_connections",
     FAILS,
     "efa0:1 is neither InfiniBand nor Ethernet",
     {"STANDIN_PORTS=efa0:link=unspecified"},
     NULL,
     0,
     0},
    {"another_device_beside_it",
     BY_RDMA,
     NULL,
     {"STANDIN_PORTS=efa0:link=unspecified;mlx0"},
     NULL,
     0,
     0},
    {"a_device_that_never_reports_completions",
     FAILS,
     "standin0:1: cannot allocate completion events: ",
     {"STANDIN_FAIL=req_notify_cq:1+:95"},
     NULL,
     0,
     0},
    /* One call per device, and one failed call per device. Threads that spin make
     * thousands. */
    {"a_device_that_reports_completions_no_longer",
     FAILS,
     "the RDMA device standin0:1 no longer reports events",
     {"STANDIN_FAIL=req_notify_cq:100+", "GLOO_WAIT=sleep"},
     "req_notify_cq",
     100,
     100 + 2 * RANKS},
    {"a_channel_that_cannot_be_read",
     FAILS,
     "the RDMA device standin0:1 no longer reports events",
     {"STANDIN_FAIL=get_cq_event:100+", "GLOO_WAIT=sleep"},
     "get_cq_event",
     100,
     100 + 2 * RANKS},
    {"events_that_cannot_be_read",
     FAILS,
     "the RDMA device standin0:1 no longer reports events",
     {"STANDIN_FAIL=get_async_event:100+", "GLOO_WAIT=sleep"},
     "get_async_event",
     100,
     100 + 2 * RANKS},
    {"less_inline_data_than_usual",
     BY_RDMA,
     NULL,
     {"STANDIN_PORTS=irdma0:inline=101"},
     "inlined",
     1,
     ULONG_MAX},
    {"no_inline_data",
     BY_RDMA,
     NULL,
     {"STANDIN_PORTS=old0:inline=0"},
     "inlined",
     0,
     0},
    {"reads_as_both_devices_have_them",
     BY_RDMA,
     NULL,
     {"STANDIN_ONE_EACH=1", "STANDIN_PORTS=a:reads=16;b:reads=4"},
     "reads",
     4,
     4},
    {"reads_without_number",
     BY_RDMA,
     NULL,
     {"STANDIN_PORTS=a:reads=255"},
     "reads",
     16,
     16},
    {"a_device_without_reads",
     BY_RDMA,
     NULL,
     {"STANDIN_ONE_EACH=1", "STANDIN_PORTS=a:reads=0;b:reads=16"},
     "reads",
     0,
     0},
    {"interrupts_for_each_rank",
     BY_RDMA,
     NULL,
     {"STANDIN_PORTS=a:vectors=8"},
     "vectors",
     RANKS,
     RANKS},
    {"a_queue_pair_that_fails_without_a_cause",
     FAILS,
     "broke, and the device gives no cause",
     {"STANDIN_FAIL=qp_silent:30", "GLOO_IBV_TIMEOUT=31", "GLOO_HEARTBEAT=0"},
     NULL,
     0,
     0},
    {"one_that_only_loses_its_receive_queue",
     FAILS,
     "broke, and the device gives no cause",
     {"STANDIN_FAIL=qp_drained:30", "GLOO_IBV_TIMEOUT=31", "GLOO_HEARTBEAT=0"},
     NULL,
     0,
     0},
    {"no_shared_receive_queues",
     BY_RDMA,
     NULL,
     {"STANDIN_PORTS=old0:srq=0", "STANDIN_STRICT=1"},
     "post_recv",
     2,
     ULONG_MAX},
    {"a_shared_receive_queue_that_cannot_be_made",
     BY_RDMA,
     NULL,
     {"STANDIN_FAIL=create_srq:1+:95", "STANDIN_STRICT=1"},
     "post_recv",
     2,
     ULONG_MAX},
    {"shared_receive_queues",
     BY_RDMA,
     NULL,
     {"STANDIN_STRICT=1"},
     "post_recv",
     0,
     0},
    {"a_completion_queue_that_is_too_short",
     BY_TCP,
     "lacks room in the completion queue: No space left on device",
     {"STANDIN_PORTS=old0:cqe=32"},
     NULL,
     0,
     0},
    /* Its entries are halved before memory is short for the rest. */
    {"too_little_locked_memory",
     BY_TCP,
     "lacks locked memory (\"ulimit -l unlimited\" raises RLIMIT_MEMLOCK)",
     {"STANDIN_MEMLOCK=500000"},
     NULL,
     0,
     0},
    {"infiniband_that_requires_the_gid",
     BY_RDMA,
     NULL,
     {"STANDIN_PORTS=vf0:link=infiniband,lid=3,grh=1"},
     NULL,
     0,
     0},
    {"infiniband_that_requires_the_gid_at_one_end",
     BY_RDMA,
     NULL,
     {"STANDIN_ONE_EACH=1",
      "STANDIN_PORTS=vf0:link=infiniband,lid=3,grh=1;pf0:link=infiniband,lid="
      "4"},
     NULL,
     0,
     0},
    {"infiniband_between_subnets",
     BY_RDMA,
     NULL,
     {"STANDIN_ONE_EACH=1",
      "STANDIN_PORTS=a:link=infiniband,lid=3,subnet=1,router=40;"
      "b:link=infiniband,lid=3,subnet=2,router=50"},
     NULL,
     0,
     0},
    {"infiniband_between_subnets_without_a_router",
     BY_TCP,
     "lacks a router's LID in the other rank's GID: ",
     {"STANDIN_ONE_EACH=1",
      "STANDIN_PORTS=a:link=infiniband,lid=3,subnet=1;"
      "b:link=infiniband,lid=3,subnet=2"},
     NULL,
     0,
     0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static unsigned long read_count(const char *path, const char *wanted) {
  char name[40];
  unsigned long n, found = 0;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fscanf(file, "%39s %lu", name, &n) == 2)
    if (strcmp(name, wanted) == 0) found = n;
  fclose(file);
  return found;
}

static bool rank_is_as_said(const network_case *c, const ibv_report *report) {
  if (c->end == FAILS) return report->status != GLOO_OK;
  if (report->status != GLOO_OK) return false;
  if (c->end == BY_RDMA)
    return report->by_tcp == 0 && report->by_rdma == RANKS - 1;
  return report->by_rdma == 0 && strstr(report->why, c->text) != NULL;
}

/* At least one rank names the cause of an error. Others may only see that this
 * rank has left. */
static bool job_is_as_said(const network_case *c, const ibv_job *job) {
  bool known = c->end != FAILS;
  for (int r = 0; r < RANKS; r++) {
    const ibv_report *report = &job->shared->ranks[r];
    if (!rank_is_as_said(c, report)) return false;
    known = known || strstr(report->message, c->text) != NULL;
  }
  return known;
}

static void ends_as_said(void **state) {
  const network_case *c = *(const network_case **)*state;
  ibv_job job;
  char path[] = "/tmp/gloo_c_standin_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  ibv_plan plan = {.ranks = RANKS, .count_file = path, .timeout_ns = long_ns};
  memcpy(plan.settings, c->settings, sizeof c->settings);
  ibv_job_make(&job);
  ibv_job_begin(&job, &plan);
  while (!ibv_job_has_ended(&job))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  const char *fault = ibv_job_fault(&job);
  bool good = fault == NULL && job_is_as_said(c, &job);
  if (!good) ibv_job_tell(&job);
  if (fault != NULL) fail_msg("%s", fault);
  assert_true(good);
  if (c->counted != NULL)
    assert_in_range(read_count(path, c->counted), c->least, c->most);
  unlink(path);
  ibv_job_free(&job);
}

/* Argument: part of the names of the cases to run; optional. */
int main(int argc, char **argv) {
  static const network_case *states[CASES];
  struct CMUnitTest tests[CASES];
  size_t n = 0;
  for (int i = 0; i < CASES; i++) {
    if (argc > 1 && strstr(cases[i].name, argv[1]) == NULL) continue;
    states[i] = &cases[i];
    tests[n++] = (struct CMUnitTest){.name = cases[i].name,
                                     .test_func = ends_as_said,
                                     .initial_state = &states[i]};
  }
  return _cmocka_run_group_tests("ibv_network", tests, n, NULL, NULL);
}
