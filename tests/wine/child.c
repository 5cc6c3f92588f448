/* A program that `gloo run` starts on Windows: prints what it gets, ends in
 * several ways, and starts, ends or looks for other processes. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/environment.h"

#undef BOOL

static const char *variable(const char *name) {
  const char *value = gli_environment_read(name);
  return value != NULL ? value : "";
}

/* Prints each argument in brackets. */
static int print_arguments(int argc, char **argv) {
  for (int i = 2; i < argc; i++) printf("[%s]", argv[i]);
  puts("");
  return 0;
}

/* Prints variables and their values. */
static int print_variables(int argc, char **argv) {
  for (int i = 2; i < argc; i++) printf("%s=%s ", argv[i], variable(argv[i]));
  puts("");
  return 0;
}

/* Rank N ends with the status, the others with 0: status N STATUS. */
static int status(int argc, char **argv) {
  if (argc < 4 || strcmp(variable("RANK"), argv[2]) != 0) return 0;
  return (int)strtoul(argv[3], NULL, 0);
}

/* Prints its id, and stays until something ends it. */
static int stay(int argc, char **argv) {
  (void)argc;
  (void)argv;
  printf("pid %d\n", (int)uv_os_getpid());
  fflush(stdout);
  for (;;) uv_sleep(1000);
  return 0;
}

static int64_t ended;

static void on_exit(uv_process_t *process, int64_t status, int signum) {
  (void)signum;
  ended = status;
  uv_close((uv_handle_t *)process, NULL);
}

/* Starts a program, with this process's streams. */
static bool start(uv_process_t *process, char **arguments, unsigned flags) {
  uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE}};
  for (int i = 1; i < 3; i++)
    stdio[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = i};
  uv_process_options_t with = {.file = arguments[0],
                               .args = arguments,
                               .exit_cb = on_exit,
                               .flags = flags,
                               .stdio = stdio,
                               .stdio_count = 3};
  int code = uv_spawn(uv_default_loop(), process, &with);
  if (code != 0)
    fprintf(stderr, "cannot start %s: %s\n", arguments[0], uv_strerror(code));
  return code == 0;
}

/* Starts a process that stays, and stays. Detached, it is in no job object of
 * libuv's, which would end it with this process. */
static int stay_with_child(int argc, char **argv) {
  static uv_process_t process;
  char word[] = "stay", self[4096];
  char *arguments[] = {self, word, NULL};
  size_t size = sizeof self;
  if (uv_exepath(self, &size) != 0 ||
      !start(&process, arguments, UV_PROCESS_DETACHED))
    return 1;
  return stay(argc, argv);
}

/* Starts a program, prints its id, and returns its status. */
static int spawn(int argc, char **argv) {
  static uv_process_t process;
  if (argc < 3 || !start(&process, argv + 2, 0)) return 1;
  printf("started %d\n", process.pid);
  fflush(stdout);
  (void)uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  return (int)ended;
}

/* Presses Ctrl-C two seconds after the start of a program. */
static BOOL WINAPI on_control(DWORD event) {
  return event == CTRL_C_EVENT;
}

static void on_time(uv_timer_t *timer) {
  if (!GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0))
    fprintf(stderr, "no console: %lu\n", (unsigned long)GetLastError());
  uv_close((uv_handle_t *)timer, NULL);
}

static int interrupt(int argc, char **argv) {
  static uv_timer_t timer;
  (void)AllocConsole(); /* fails if there is one */
  (void)SetConsoleCtrlHandler(on_control, TRUE);
  (void)uv_timer_init(uv_default_loop(), &timer);
  (void)uv_timer_start(&timer, on_time, 2000, 0);
  return spawn(argc, argv);
}

/* Rank N fails, the others stay: fail N. */
static int fail(int argc, char **argv) {
  if (argc > 2 && strcmp(variable("RANK"), argv[2]) == 0) return 5;
  return stay(argc, argv);
}

static int crash(int argc, char **argv) {
  (void)argc;
  (void)argv;
  raise(SIGSEGV);
  *(volatile int *)(uintptr_t)strtoul("8", NULL, 0) = 1;
  return 0;
}

static int copy_input(int argc, char **argv) {
  (void)argc;
  (void)argv;
  for (int c; (c = getchar()) != EOF;) putchar(c);
  fprintf(stderr, "on standard error\n");
  return 0;
}

/* Ends processes, as TerminateProcess does: kill PID... */
static int kill_all(int argc, char **argv) {
  int failed = 0;
  for (int i = 2; i < argc; i++) failed += uv_kill(atoi(argv[i]), SIGKILL) != 0;
  return failed;
}

/* Returns the number of processes that run: running PID... */
static int running(int argc, char **argv) {
  int n = 0;
  for (int i = 2; i < argc; i++) n += uv_kill(atoi(argv[i]), 0) == 0;
  printf("%d\n", n);
  return 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
  } ways[] = {{"arguments", print_arguments},
              {"variables", print_variables},
              {"status", status},
              {"stay", stay},
              {"stay-with-child", stay_with_child},
              {"spawn", spawn},
              {"interrupt", interrupt},
              {"fail", fail},
              {"crash", crash},
              {"copy", copy_input},
              {"kill", kill_all},
              {"running", running}};
  for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++)
    if (strcmp(argv[1], ways[i].name) == 0) return ways[i].run(argc, argv);
  fprintf(stderr, "unknown way\n");
  return 99;
}
