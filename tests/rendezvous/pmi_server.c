#include "pmi_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "children.h"

#define LINE 8192
#define PAIRS 600

typedef struct client {
  int fd;
  size_t used;
  char line[LINE];
} client;

typedef struct server {
  const pmi_script *script;
  client clients[PMI_RANKS_MAX];
  int waiting; /* in the barrier */
  char (*keys)[128], (*values)[LINE];
  int n_pairs;
  pmi_seen seen;
} server;

static void answer(client *c, const char *text, size_t bytes) {
  if (send(c->fd, text, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
    close(c->fd);
    c->fd = -1;
  }
}

static void say(client *c, const char *text) {
  answer(c, text, strlen(text));
}

static void put(server *s, client *c, const char *line) {
  assert_true(s->n_pairs < PAIRS);
  if (sscanf(line, "cmd=put kvsname=job-1 key=%127s value=%8191s",
             s->keys[s->n_pairs], s->values[s->n_pairs]) == 2) {
    s->n_pairs++;
    s->seen.puts++;
    say(c, "cmd=put_result rc=0 msg=success\n");
  } else {
    say(c, "cmd=put_result rc=-1 msg=bad\n");
  }
}

static void get(server *s, client *c, const char *line) {
  char key[128] = "", text[LINE + 64] = "cmd=get_result rc=-1 msg=none\n";
  (void)sscanf(line, "cmd=get kvsname=job-1 key=%127s", key);
  for (int i = 0; i < s->n_pairs; i++)
    if (strcmp(key, s->keys[i]) == 0)
      snprintf(text, sizeof text, "cmd=get_result rc=0 msg=ok value=%s\n",
               s->values[i]);
  say(c, text);
}

static void barrier(server *s) {
  s->seen.barriers++;
  if (++s->waiting < s->script->ranks) return;
  s->waiting = 0;
  for (int r = 0; r < s->script->ranks; r++)
    say(&s->clients[r], "cmd=barrier_out rc=0\n");
}

static bool begins(const char *line, const char *word) {
  return strncmp(line, word, strlen(word)) == 0;
}

static void serve_line(server *s, client *c) {
  char text[128];
  const pmi_trick *trick = s->script->trick;
  if (begins(c->line, "cmd=finalize")) s->seen.finalizes++;
  if (begins(c->line, "cmd=init")) s->seen.inits++;
  if (trick != NULL && begins(c->line, trick->command)) {
    if (trick->answer != NULL) {
      answer(c, trick->answer,
             trick->bytes > 0 ? trick->bytes : strlen(trick->answer));
    } else {
      close(c->fd);
      c->fd = -1;
    }
  } else if (begins(c->line, "cmd=init pmi_version=1")) {
    say(c, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  } else if (begins(c->line, "cmd=get_maxes")) {
    unsigned max = s->script->value_max;
    snprintf(text, sizeof text,
             "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%u\n",
             max > 0 ? max : 1024);
    say(c, text);
  } else if (begins(c->line, "cmd=get_my_kvsname")) {
    say(c, "cmd=my_kvsname kvsname=job-1\n");
  } else if (begins(c->line, "cmd=put ")) {
    put(s, c, c->line);
  } else if (begins(c->line, "cmd=get ")) {
    get(s, c, c->line);
  } else if (begins(c->line, "cmd=barrier_in")) {
    barrier(s);
  } else if (begins(c->line, "cmd=finalize")) {
    say(c, "cmd=finalize_ack\n");
    close(c->fd);
    c->fd = -1;
  } else {
    fail_msg("a rank says: %s", c->line);
  }
}

static void serve_client(server *s, client *c) {
  ssize_t n = recv(c->fd, c->line + c->used, LINE - 1 - c->used, 0);
  if (n <= 0) {
    close(c->fd);
    c->fd = -1;
    return;
  }
  c->used += (size_t)n;
  c->line[c->used] = '\0';
  char *end = strchr(c->line, '\n');
  if (end == NULL) return;
  assert_ptr_equal(end, c->line + c->used - 1); /* no pipelining */
  *end = '\0';
  c->used = 0;
  serve_line(s, c);
}

static void serve_all(server *s) {
  for (;;) {
    struct pollfd ready[PMI_RANKS_MAX];
    nfds_t n = 0;
    for (int r = 0; r < s->script->ranks; r++)
      if (s->clients[r].fd >= 0)
        ready[n++] = (struct pollfd){.fd = s->clients[r].fd, .events = POLLIN};
    if (n == 0) return;
    assert_true(poll(ready, n, 60000) > 0);
    for (nfds_t i = 0; i < n; i++)
      for (int r = 0; r < s->script->ranks && ready[i].revents != 0; r++)
        if (s->clients[r].fd == ready[i].fd) {
          serve_client(s, &s->clients[r]);
          break;
        }
  }
}

typedef struct start {
  server *server;
  int (*pairs)[2];
  int (*body)(int rank, void *argument);
  void *argument;
} start;

static int child_main(int rank, void *argument) {
  const start *of = argument;
  char text[16];
  for (int r = 0; r < of->server->script->ranks; r++) {
    close(of->pairs[r][0]);
    if (r != rank) close(of->pairs[r][1]);
  }
  snprintf(text, sizeof text, "%d", of->pairs[rank][1]);
  setenv("PMI_FD", text, 1);
  snprintf(text, sizeof text, "%d", rank);
  setenv("PMI_RANK", text, 1);
  snprintf(text, sizeof text, "%d", of->server->script->ranks);
  setenv("PMI_SIZE", text, 1);
  alarm(60);
  exit(of->body(rank, of->argument)); /* runs the atexit() handlers */
}

void pmi_run(const pmi_script *script, int (*body)(int rank, void *argument),
             void *argument, pmi_seen *seen) {
  static server s;
  int pairs[PMI_RANKS_MAX][2];
  pid_t pids[PMI_RANKS_MAX];
  s = (server){.script = script,
               .keys = calloc(PAIRS, sizeof *s.keys),
               .values = calloc(PAIRS, sizeof *s.values)};
  assert_non_null(s.keys);
  assert_non_null(s.values);
  for (int r = 0; r < script->ranks; r++)
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[r]), 0);
  start of = {&s, pairs, body, argument};
  for (int r = 0; r < script->ranks; r++)
    pids[r] = child_start(child_main, r, &of);
  for (int r = 0; r < script->ranks; r++) {
    close(pairs[r][1]);
    s.clients[r].fd = pairs[r][0];
  }
  serve_all(&s);
  for (int r = 0; r < script->ranks; r++)
    assert_int_equal(child_wait(pids[r]), 0);
  if (seen != NULL) *seen = s.seen;
  free(s.keys);
  free(s.values);
}
