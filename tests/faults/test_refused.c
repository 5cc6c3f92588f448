/* A filter refuses some system calls, as in containers. The library works
 * without them, or its error names the refused call. Linux only. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"

static const char *transport;

/* Makes the call fail with EPERM from here on. */
static void refuse(long call) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(90);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(91);
}

static void lack_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(92);
  limit.rlim_cur = 0;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(93);
}

typedef struct outcome {
  gloo_status status;
  gloo_error error;
} outcome;

/* Runs `body` in a child, whose restrictions are permanent, and returns its
 * outcome. */
static outcome run(void (*body)(outcome *out)) {
  outcome out = {.status = GLOO_OK};
  int ends[2], status;
  assert_int_equal(pipe(ends), 0);
  pid_t pid = fork();
  if (pid == 0) {
    body(&out);
    _exit(write(ends[1], &out, sizeof out) == (ssize_t)sizeof out ? 0 : 94);
  }
  close(ends[1]);
  ssize_t got = read(ends[0], &out, sizeof out);
  close(ends[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(got, sizeof out);
  print_message("# %s\n", out.error.message);
  return out;
}

static gloo_device *make_device(outcome *out) {
  gloo_device *device = NULL;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = transport;
  out->status = gloo_device_create(&d, &device, &out->error);
  return device;
}

static void make_context(gloo_device *device, outcome *out) {
  gloo_context *context;
  if (out->status != GLOO_OK) return;
  out->status =
      gloo_context_create(0, 1, NULL, device, NULL, &context, &out->error);
  if (out->status == GLOO_OK) gloo_context_destroy(context);
}

static void without_getrandom(outcome *out) {
  refuse(SYS_getrandom);
  gloo_device *device = make_device(out);
  make_context(device, out);
  if (device != NULL) gloo_device_destroy(device);
}

static void getrandom_may_be_refused(void **state) {
  (void)state;
  outcome out = run(without_getrandom);
  assert_int_equal(out.status, GLOO_OK);
}

static void without_anything_random(outcome *out) {
  gloo_device *device = make_device(out);
  refuse(SYS_getrandom);
  lack_descriptors();
  make_context(device, out);
}

static void lack_of_random_numbers_has_its_cause(void **state) {
  (void)state;
  outcome out = run(without_anything_random);
  assert_int_equal(out.status, GLOO_ERR_IO);
  assert_non_null(
      strstr(out.error.message, GLI_LINUX ? "getrandom" : "/dev/urandom"));
  assert_non_null(strstr(out.error.message, "out of file descriptors"));
}

static void without_fallocate(outcome *out) {
  refuse(SYS_fallocate);
  gloo_device *device = make_device(out);
  if (device != NULL) gloo_device_destroy(device);
}

/* Only shared memory needs fallocate(). */
static void fallocate_that_is_refused_is_named(void **state) {
  (void)state;
  outcome out = run(without_fallocate);
  if (strcmp(transport, "shm") != 0) {
    assert_int_equal(out.status, GLOO_OK);
    return;
  }
  assert_int_equal(out.status, GLOO_ERR_UNSUPPORTED);
  assert_non_null(strstr(out.error.message, "fallocate"));
  assert_non_null(strstr(out.error.message, strerror(EPERM)));
  assert_null(strstr(out.error.message, "memfd_create"));
}

int main(int argc, char **argv) {
  if (argc != 2) return 99;
  transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(getrandom_may_be_refused),
      cmocka_unit_test(lack_of_random_numbers_has_its_cause),
      cmocka_unit_test(fallocate_that_is_refused_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
