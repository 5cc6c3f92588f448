#define _GNU_SOURCE /* prctl */
#include "redis_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>
#if GLI_LINUX
#include <sys/prctl.h>
#endif

#include "kinds.h"
#include "raw.h"

enum { SETTINGS_MAX = 64 };

/* Names of the server's program. redis-check-rdb is the same executable, which
 * acts by its name, and its package starts no service. */
static const char *const programs[] = {"redis-server", "redis-check-rdb",
                                       "valkey-server"};

bool redis_server_installed(void) {
  for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
    char command[64];
    snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1",
             programs[i]);
    if (system(command) == 0) return true;
  }
  return false;
}

static void server_become(uint16_t port, const char *const *settings) {
  char number[8];
  const char *words[SETTINGS_MAX] = {
      "redis-server", "--port", number,  "--bind", "127.0.0.1", "--save", "",
      "--appendonly", "no",     "--dir", "/tmp"};
  int n = 11;
  snprintf(number, sizeof(number), "%u", (unsigned)port);
  for (; *settings != NULL && n < SETTINGS_MAX - 1; settings++)
    words[n++] = *settings;
  words[n] = NULL;
#if GLI_LINUX
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  int null = open("/dev/null", O_RDWR);
  dup2(null, 0);
  dup2(null, 1);
  dup2(null, 2);
  for (int fd = 3; fd < 1024; fd++) close(fd);
  for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
    execvp(programs[i], (char **)words);
  _exit(127);
}

static bool server_answers(const redis_server *server) {
  for (int i = 0; i < 3000; i++) {
    if (waitpid(server->pid, NULL, WNOHANG) == server->pid) return false;
    int fd = raw_try_connect(server->port);
    if (fd >= 0) {
      close(fd);
      return true;
    }
    uv_sleep(10);
  }
  return false;
}

/* Servers to kill at exit, for systems where a child does not end with its
 * parent. */
static struct {
  pid_t owner, pids[64];
  int n;
} started;

static void server_end_all(void) {
  if (started.owner != getpid()) return;
  for (int i = 0; i < started.n; i++)
    if (started.pids[i] > 0) kill(started.pids[i], SIGKILL);
}

static void server_note(pid_t pid) {
  if (started.n == 0) assert_int_equal(atexit(server_end_all), 0);
  assert_true(started.n < 64);
  started.owner = getpid();
  started.pids[started.n++] = pid;
}

static void server_forget(pid_t pid) {
  for (int i = 0; i < started.n; i++)
    if (started.pids[i] == pid) started.pids[i] = 0;
}

bool redis_server_start_at(redis_server *server, const char *const *settings) {
  static const char *const none[] = {NULL};
  server->pid = fork();
  assert_true(server->pid >= 0);
  if (server->pid == 0)
    server_become(server->port, settings != NULL ? settings : none);
  if (!server_answers(server)) return false;
  server_note(server->pid);
  return true;
}

/* Another process may take the port before the server does; then another port
 * is tried. */
redis_server redis_server_start(const char *const *settings) {
  redis_server server;
  for (int i = 0; i < 5; i++) {
    close(raw_listen(&server.port));
    if (redis_server_start_at(&server, settings)) return server;
  }
  fail_msg("no Redis server could be started");
  return server;
}

void redis_server_signal(redis_server *server, int number) {
  if (server->pid <= 0) return;
  assert_int_equal(kill(server->pid, number), 0);
  if (number != SIGKILL) return;
  while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR) {
  }
  server_forget(server->pid);
  server->pid = 0;
}

gli_store_url redis_url(uint16_t port, const char *user, const char *password,
                        const char *path) {
  gli_store_url url = {.scheme = "redis", .port = port};
  url.host = "127.0.0.1";
  url.user = user;
  url.password = password;
  url.path = path;
  return url;
}

gloo_store *redis_open(uint16_t port, const char *path) {
  gloo_store *store;
  gloo_error error;
  gli_store_url url = redis_url(port, "", "", path);
  if (gli_store_redis_open(&url, false, LONG_TIME, &store, &error) != GLOO_OK)
    fail_msg("%s", error.message);
  return store;
}
