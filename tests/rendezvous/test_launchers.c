/* The environment set by each launcher, and the launch that results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rendezvous/launch/launch.h"

enum { VARIABLES = 8 };

static const char *const all[] = {"GLOO_RANK",
                                  "GLOO_SIZE",
                                  "GLOO_STORE",
                                  "GLOO_SERVICE",
                                  "GLOO_JOB_ID",
                                  "GLOO_EPOCH",
                                  "RANK",
                                  "WORLD_SIZE",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TORCHELASTIC_USE_AGENT_STORE",
                                  "TORCHELASTIC_RESTART_COUNT",
                                  "TORCHELASTIC_RUN_ID",
                                  "SLURM_STEP_NUM_TASKS",
                                  "SLURM_PROCID",
                                  "SLURM_STEP_NODELIST",
                                  "SLURM_JOB_ID",
                                  "SLURM_STEP_ID",
                                  "JOB_COMPLETION_INDEX",
                                  "HOSTNAME"};

/* Sets these variables only, each "NAME=value". */
static void set_only(const char *const variables[VARIABLES]) {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    assert_int_equal(unsetenv(all[i]), 0);
  for (size_t i = 0; i < VARIABLES && variables[i] != NULL; i++) {
    char name[64];
    const char *equals = strchr(variables[i], '=');
    size_t bytes = (size_t)(equals - variables[i]);
    memcpy(name, variables[i], bytes);
    name[bytes] = '\0';
    assert_int_equal(setenv(name, equals + 1, 1), 0);
  }
}

typedef struct good {
  const char *variables[VARIABLES];
  const char *launcher, *store, *job;
  uint32_t rank, size;
  bool serves;
} good;

#define TORCHRUN "RANK=2", "WORLD_SIZE=4", "MASTER_PORT=29400"
#define SLURM "SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=8", "SLURM_JOB_ID=70"

static const good goods[] = {
    {{"GLOO_RANK=1", "GLOO_SIZE=2", "GLOO_STORE=tcp://[::1]:5"},
     "GLOO_RANK",
     "tcp://[::1]:5",
     "",
     1,
     2,
     false},
    {{"GLOO_RANK=0", "GLOO_SIZE=1"}, "GLOO_RANK", "", "", 0, 1, false},
    {{"GLOO_RANK=1", "GLOO_SIZE=2", "GLOO_STORE=file:///a", TORCHRUN},
     "GLOO_RANK",
     "file:///a",
     "",
     1,
     2,
     false},
    {{TORCHRUN, "MASTER_ADDR=host"},
     "RANK",
     "tcp://host:29400",
     "",
     2,
     4,
     true},
    {{TORCHRUN, "MASTER_ADDR=::1"},
     "RANK",
     "tcp://[::1]:29400",
     "",
     2,
     4,
     true},
    {{TORCHRUN, "MASTER_ADDR=[::1]"},
     "RANK",
     "tcp://[::1]:29400",
     "",
     2,
     4,
     true},
    {{TORCHRUN, "MASTER_ADDR=fe80::1%eth0"},
     "RANK",
     "tcp://[fe80::1%25eth0]:29400",
     "",
     2,
     4,
     true},
    {{TORCHRUN, "MASTER_ADDR=h", "TORCHELASTIC_USE_AGENT_STORE=False"},
     "RANK",
     "tcp://h:29400",
     "",
     2,
     4,
     true},
    {{TORCHRUN, "MASTER_ADDR=h", "TORCHELASTIC_USE_AGENT_STORE=True",
      "TORCHELASTIC_RESTART_COUNT=3", "TORCHELASTIC_RUN_ID=r"},
     "torchrun",
     "c10d://h:29400/gloo_c/0/4",
     "r",
     2,
     4,
     false},
    {{TORCHRUN, "GLOO_STORE=file:///tmp/a", "GLOO_JOB_ID=j"},
     "RANK",
     "file:///tmp/a",
     "j",
     2,
     4,
     false},
    {{SLURM, "SLURM_STEP_ID=1", "SLURM_STEP_NODELIST=n1"},
     "Slurm",
     "tcp://n1:24271",
     "slurm-70.1",
     3,
     8,
     true},
    {{SLURM, "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n[3-4,7]"},
     "Slurm",
     "tcp://n3:24270",
     "slurm-70.0",
     3,
     8,
     true},
    {{SLURM, "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=r[1-2]n[007,9]x,b"},
     "Slurm",
     "tcp://r1n007x:24270",
     "slurm-70.0",
     3,
     8,
     true},
    {{SLURM, "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=a-1,b[1-2]",
      "GLOO_JOB_ID=j"},
     "Slurm",
     "tcp://a-1:24270",
     "j",
     3,
     8,
     true},
    {{SLURM, "GLOO_STORE=tcp://h:1"}, "Slurm", "tcp://h:1", "", 3, 8, false},
    {{SLURM, TORCHRUN, "MASTER_ADDR=h"},
     "RANK",
     "tcp://h:29400",
     "",
     2,
     4,
     true},
    {{"JOB_COMPLETION_INDEX=2", "GLOO_SIZE=3", "HOSTNAME=my-job-2",
      "GLOO_SERVICE=peers"},
     "Kubernetes",
     "tcp://my-job-0.peers:29500",
     "",
     2,
     3,
     true},
    {{"JOB_COMPLETION_INDEX=2", "GLOO_SIZE=3", "GLOO_STORE=tcp://h:1"},
     "Kubernetes",
     "tcp://h:1",
     "",
     2,
     3,
     false},
    {{"SLURM_JOB_ID=70", "SLURM_PROCID=0", "HOSTNAME=h"},
     "none",
     "",
     "",
     0,
     1,
     false}, /* a batch script, not a step */
};

static void launchers_are_recognised(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof goods / sizeof *goods; i++) {
    const good *g = &goods[i];
    gli_launch launch;
    gloo_error error;
    set_only(g->variables);
    if (gli_launch_read(&launch, &error) != GLOO_OK)
      fail_msg("row %zu: %s", i, error.message);
    assert_string_equal(launch.launcher, g->launcher);
    assert_string_equal(launch.store, g->store);
    assert_string_equal(launch.job, g->job);
    assert_int_equal(launch.rank, g->rank);
    assert_int_equal(launch.size, g->size);
    assert_int_equal(launch.serves, g->serves);
  }
}

typedef struct bad {
  const char *variables[VARIABLES];
  const char *words[3];
} bad;

static const bad bads[] = {
    {{"GLOO_RANK=1"}, {"has GLOO_RANK", "not GLOO_SIZE"}},
    {{"GLOO_SIZE=1"}, {"has GLOO_SIZE", "not GLOO_RANK"}},
    {{"GLOO_STORE=tcp://h:1"}, {"has GLOO_STORE", "not GLOO_RANK, GLOO_SIZE"}},
    {{"GLOO_RANK=1", "GLOO_SIZE=2"}, {"not GLOO_STORE", "2 ranks"}},
    {{"GLOO_RANK=2", "GLOO_SIZE=2"}, {"GLOO_RANK is '2'", "0 to 1"}},
    {{"GLOO_RANK=0", "GLOO_SIZE=2", "GLOO_STORE=htp://h:1"},
     {"'htp://h:1'", "unknown scheme"}},
    {{"GLOO_RANK=0", "GLOO_SIZE=1", "GLOO_STORE=tcp://h"}, {"has no port"}},
    {{"GLOO_RANK=0", "GLOO_SIZE=2", "GLOO_STORE=env:"}, {"'env:'"}},
    {{TORCHRUN, "GLOO_STORE=tcp:h:1"}, {"tcp:h:1", "'//' must follow"}},
    {{TORCHRUN, "MASTER_ADDR=h", "TORCHELASTIC_USE_AGENT_STORE=True",
      "TORCHELASTIC_RESTART_COUNT=x"},
     {"TORCHELASTIC_RESTART_COUNT is 'x'"}},
    {{"SLURM_STEP_NUM_TASKS=2"}, {"not SLURM_PROCID", "srun", "GLOO_RANK=0"}},
    {{SLURM, "SLURM_STEP_ID=0"}, {"not SLURM_STEP_NODELIST"}},
    {{SLURM, "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n[1-4"},
     {"SLURM_STEP_NODELIST is 'n[1-4'"}},
    {{SLURM, "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=,a"},
     {"SLURM_STEP_NODELIST is ',a'"}},
    {{"SLURM_PROCID=8", "SLURM_STEP_NUM_TASKS=8", "GLOO_STORE=tcp://h:1"},
     {"SLURM_PROCID is '8'", "0 to 7"}},
    {{"JOB_COMPLETION_INDEX=0"}, {"not GLOO_SIZE, GLOO_SERVICE", "pods"}},
    {{"JOB_COMPLETION_INDEX=0", "GLOO_SIZE=2", "HOSTNAME=j-0"},
     {"not GLOO_SERVICE"}},
    {{"JOB_COMPLETION_INDEX=1", "GLOO_SIZE=2", "HOSTNAME=j-0",
      "GLOO_SERVICE=s"},
     {"HOSTNAME is 'j-0'", "'-1'"}},
    {{"JOB_COMPLETION_INDEX=1", "GLOO_SIZE=2", "HOSTNAME=1", "GLOO_SERVICE=s"},
     {"HOSTNAME is '1'"}},
};

static void what_is_missing_is_named(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
    gli_launch launch = {.rank = 77};
    gloo_error error;
    set_only(bads[i].variables);
    if (gli_launch_read(&launch, &error) != GLOO_ERR_INVALID)
      fail_msg("row %zu is taken", i);
    assert_int_equal(launch.rank, 77);
    for (size_t k = 0; k < 3 && bads[i].words[k] != NULL; k++)
      if (strstr(error.message, bads[i].words[k]) == NULL)
        fail_msg("'%s' is not in: %s", bads[i].words[k], error.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(launchers_are_recognised),
      cmocka_unit_test(what_is_missing_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
