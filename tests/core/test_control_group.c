/* Limits of CPU time and kills for lack of memory, read from fake trees of control groups. */
#define _XOPEN_SOURCE 700 /* nftw */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
/* cmocka.h wants those above first */
#include <cmocka.h>
#include <ftw.h>
#include <unistd.h>

#include "core/cpu.h"
#include "core/memory_left.h"

static char root[64];

static int make_root(void **state) {
  (void)state;
  strcpy(root, "/tmp/gloo-quota-XXXXXX");
  return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *about, int kind,
                      struct FTW *place) {
  (void)about, (void)kind, (void)place;
  return remove(path);
}

static int remove_root(void **state) {
  (void)state;
  return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file of the tree, with the directories above it. */
static void put(const char *name, const char *text) {
  char path[512];
  int bytes = snprintf(path, sizeof path, "%s/%s", root, name);
  assert_true(bytes > 0 && (size_t)bytes < sizeof path);
  for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
    *at = 0;
    mkdir(path, 0700);
    *at = '/';
  }
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void no_groups_are_no_limit(void **state) {
  (void)state;
  assert_int_equal(gli_cpu_quota(root), 0);
  put("proc/self/cgroup", "");
  assert_int_equal(gli_cpu_quota(root), 0);
}

static void version_2_takes_the_tightest_on_the_way_up(void **state) {
  (void)state;
  put("proc/self/cgroup", "0::/jobs/ours\n");
  assert_int_equal(gli_cpu_quota(root), 0);
  put("sys/fs/cgroup/jobs/ours/cpu.max", "max 100000\n");
  assert_int_equal(gli_cpu_quota(root), 0);
  put("sys/fs/cgroup/jobs/cpu.max", "350000 100000\n");
  assert_int_equal(gli_cpu_quota(root), 4);
  put("sys/fs/cgroup/jobs/ours/cpu.max", "150000 100000\n");
  assert_int_equal(gli_cpu_quota(root), 2);
}

/* In a container the group's own name may not exist. */
static void the_mounted_root_counts(void **state) {
  (void)state;
  put("proc/self/cgroup", "0::/system.slice/somewhere/else\n");
  put("sys/fs/cgroup/cpu.max", "200000 100000\n");
  assert_int_equal(gli_cpu_quota(root), 2);
  put("proc/self/cgroup", "0::/\n");
  assert_int_equal(gli_cpu_quota(root), 2);
}

static void version_1_is_read(void **state) {
  (void)state;
  put("proc/self/cgroup",
      "7:cpuset:/elsewhere\n"
      "4:cpu,cpuacct:/docker/abc\n"
      "3:cpuacct:/no\n"
      "2:memory:/docker/abc\n");
  assert_int_equal(gli_cpu_quota(root), 0);
  put("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  assert_int_equal(gli_cpu_quota(root), 0);
  put("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "250000\n");
  assert_int_equal(gli_cpu_quota(root), 0);
  put("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
  assert_int_equal(gli_cpu_quota(root), 5);
  put("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "10000\n");
  assert_int_equal(gli_cpu_quota(root), 1);
}

static void version_1_under_one_name_and_beside_version_2(void **state) {
  (void)state;
  put("proc/self/cgroup", "5:cpuacct,cpu:/a\n0::/a\n");
  put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n");
  put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  assert_int_equal(gli_cpu_quota(root), 3);
  put("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  assert_int_equal(gli_cpu_quota(root), 2);
}

static void nonsense_is_no_limit(void **state) {
  (void)state;
  static const char *const lines[] = {
      "0", "0:", "0::", "0::a\n", "1:cpu:\n", ":::::\n", "0::/../../..\n"};
  static const char *const limits[] = {
      "", "a b", "1", "0 100000", "5 0", "-5 -7", "9223372036854775807 1"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    put("proc/self/cgroup", lines[i]);
    assert_int_equal(gli_cpu_quota(root), 0);
  }
  put("proc/self/cgroup", "0::/a\n");
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    put("sys/fs/cgroup/a/cpu.max", limits[i]);
    assert_int_equal(gli_cpu_quota(root), 0);
  }
}

static void kills_are_those_of_the_own_group(void **state) {
  (void)state;
  assert_false(gli_memory_kills_read(root).known);
  put("proc/self/cgroup", "0::/jobs/ours\n");
  put("sys/fs/cgroup/jobs/memory.events", "low 0\noom 9\noom_kill 8\n");
  put("sys/fs/cgroup/jobs/memory.max", "1048576\n");
  put("sys/fs/cgroup/jobs/ours/memory.events", "oom 3\noom_kill 2\n");
  put("sys/fs/cgroup/jobs/ours/memory.max", "max\n");
  gli_memory_kills found = gli_memory_kills_read(root);
  assert_true(found.known && found.kills == 2 && found.limit == 1048576);
  assert_string_equal(strrchr(found.group, '/'), "/jobs");
  put("sys/fs/cgroup/jobs/ours/memory.max", "4096\n");
  found = gli_memory_kills_read(root);
  assert_true(found.limit == 4096);
  assert_string_equal(strrchr(found.group, '/'), "/ours");
  put("proc/self/cgroup", "4:memory:/\n");
  put("sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\noom_kill 5\n");
  found = gli_memory_kills_read(root);
  assert_true(found.known && found.kills == 5 && found.limit == UINT64_MAX);
}

static void there_is_a_core_at_least(void **state) {
  (void)state;
  assert_true(gli_cpu_effective() >= 1);
}

#define ON_A_TREE(test) \
  cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_A_TREE(no_groups_are_no_limit),
      ON_A_TREE(version_2_takes_the_tightest_on_the_way_up),
      ON_A_TREE(the_mounted_root_counts),
      ON_A_TREE(version_1_is_read),
      ON_A_TREE(version_1_under_one_name_and_beside_version_2),
      ON_A_TREE(kills_are_those_of_the_own_group),
      ON_A_TREE(nonsense_is_no_limit),
      cmocka_unit_test(there_is_a_core_at_least),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
