#include "tools/run_branch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"

enum { BRANCH_FIXED = 8 };

struct gli_run_branch {
  gli_run_link *up;
  uint32_t first;      /* its first host */
  gli_run_hosts hosts; /* with the ranks of their setups */
  gli_run_rsh rsh;
  gli_run_fleet *fleet;
  void (*congested)(void *user);
  void (*done)(void *user);
  void *user;
};

/* ---- the payload --------------------------------------------------------- */

/* Writes a host as gli_run_hosts_parse reads it. */
static void put_host(FILE *out, const gli_run_host *host) {
  bool brackets = strchr(host->name, ':') != NULL;
  fprintf(out, "%s%s%s%s%s", host->user, host->user[0] != '\0' ? "@" : "",
          brackets ? "[" : "", host->name, brackets ? "]" : "");
  if (host->port != 0) fprintf(out, ":%d:1", host->port);
}

uint8_t *gli_run_branch_write(const gli_run_rsh *rsh, const gli_run_host *hosts,
                              int n, int parallel, int64_t lost_ms,
                              size_t *bytes) {
  uint8_t fixed[BRANCH_FIXED];
  char *text = NULL;
  FILE *out = open_memstream(&text, bytes);
  if (out == NULL) return NULL;
  gli_put_u32(fixed, (uint32_t)parallel);
  gli_put_u32(fixed + 4, (uint32_t)lost_ms);
  fwrite(fixed, 1, sizeof fixed, out);
  for (int i = 0; rsh->words[i] != NULL; i++)
    fprintf(out, "%s%s", i > 0 ? " " : "", rsh->words[i]);
  fputc('\n', out);
  for (int i = 0; i < n; i++) {
    if (i > 0) fputc(',', out);
    put_host(out, &hosts[i]);
  }
  if (fclose(out) == 0) return (uint8_t *)text;
  free(text);
  return NULL;
}

/* Reads the command and the hosts. */
static bool read_branch(gli_run_branch *b, const gli_run_frame *frame,
                        gloo_error *error) {
  int status;
  size_t bytes = frame->bytes - BRANCH_FIXED;
  char *text = malloc(bytes + 1), *line;
  if (text == NULL) return false;
  memcpy(text, frame->data + BRANCH_FIXED, bytes);
  text[bytes] = '\0';
  line = strchr(text, '\n');
  bool good = line != NULL && strlen(text) == bytes;
  gli_fail(error, GLOO_ERR_INVALID, -1, "gloo run sent a malformed branch");
  if (good) {
    *line = '\0';
    good = gli_run_rsh_parse(text, &b->rsh, &status, error) &&
           gli_run_hosts_parse(line + 1, &b->hosts, error);
  }
  free(text);
  return good && (uint32_t)b->hosts.n <= GLI_RUN_HOSTS_MAX - b->first;
}

/* ---- frames of the hosts ------------------------------------------------- */

static void send_up(gli_run_branch *b, gli_run_type type, uint32_t index,
                    const void *data, size_t bytes) {
  gli_run_link_send(b->up, type, index, data, bytes);
  if (b->up->long_queue) b->congested(b->user);
}

static void branch_greeted(void *user, int host) {
  gli_run_branch *b = user;
  send_up(b, GLI_RUN_GREETED, b->first + (uint32_t)host, NULL, 0);
}

/* Returns true if the frame is about this host or its ranks. */
static bool is_about(const gli_run_branch *b, int host,
                     const gli_run_frame *frame) {
  const gli_run_host *h = &b->hosts.list[host];
  switch (frame->type) {
    case GLI_RUN_OUTPUT:
    case GLI_RUN_EXITED:
      return frame->index >= (uint32_t)h->first &&
             frame->index < (uint32_t)(h->first + h->ranks);
    case GLI_RUN_READY:
    case GLI_RUN_FAILED:
    case GLI_RUN_DONE:
      return frame->index == b->first + (uint32_t)host;
    default:
      return false;
  }
}

static void branch_frame(void *user, int host, const gli_run_frame *frame) {
  gli_run_branch *b = user;
  if (is_about(b, host, frame))
    send_up(b, frame->type, frame->index, frame->data, frame->bytes);
  else
    gli_run_fleet_drop(b->fleet, host,
                       "the agent sent frames of other hosts or ranks");
}

static void branch_gone(void *user, int host, const char *why) {
  gli_run_branch *b = user;
  send_up(b, GLI_RUN_GONE, b->first + (uint32_t)host, why, strlen(why));
}

static void branch_done(void *user) {
  gli_run_branch *b = user;
  b->done(b->user);
}

/* ---- the interface ------------------------------------------------------- */

void gli_run_branch_free(gli_run_branch *b) {
  if (b->fleet != NULL && gli_run_fleet_free(b->fleet)) return;
  gli_run_hosts_free(&b->hosts);
  gli_run_rsh_free(&b->rsh);
  free(b);
}

gli_run_branch *gli_run_branch_open(uv_loop_t *loop, gli_run_link *up,
                                    const gli_run_frame *frame,
                                    void (*congested)(void *user),
                                    void (*done)(void *user), void *user,
                                    gloo_error *error) {
  static const gli_run_fleet_events events = {branch_greeted, branch_frame,
                                              branch_gone, branch_done};
  uint32_t parallel = gli_get_u32(frame->data),
           lost_ms = gli_get_u32(frame->data + 4);
  gli_run_branch *b = calloc(1, sizeof *b);
  gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
  if (b == NULL) return NULL;
  b->up = up;
  b->first = frame->index;
  b->congested = congested;
  b->done = done;
  b->user = user;
  if (read_branch(b, frame, error) && parallel >= 1 &&
      parallel <= GLI_RUN_HOSTS_MAX && lost_ms <= 3600000)
    b->fleet = gli_run_fleet_open(loop, &b->hosts, &b->rsh, (int)parallel,
                                  lost_ms, &events, b);
  if (b->fleet == NULL) {
    gli_run_branch_free(b);
    return NULL;
  }
  gli_run_fleet_start(b->fleet);
  return b;
}

bool gli_run_branch_has(const gli_run_branch *b, uint32_t host) {
  return host >= b->first && host - b->first < (uint32_t)b->hosts.n;
}

void gli_run_branch_pass(gli_run_branch *b, const gli_run_frame *frame) {
  int host = -1;
  if (frame->type == GLI_RUN_SETUP || frame->type == GLI_RUN_RELEASE)
    host = (int)(frame->index - b->first);
  if (frame->type == GLI_RUN_RELEASE) {
    gli_run_fleet_release(b->fleet, host);
    return;
  }
  if (frame->type == GLI_RUN_SETUP) {
    uint32_t first, here;
    if (!gli_run_setup_ranks(frame, &first, &here)) return;
    b->hosts.list[host].first = (int)first;
    b->hosts.list[host].ranks = (int)here;
  }
  gli_run_fleet_send(b->fleet, host, frame->type, frame->index, frame->data,
                     frame->bytes);
}

void gli_run_branch_pause(gli_run_branch *b, bool pause) {
  gli_run_fleet_pause(b->fleet, pause);
}

void gli_run_branch_end(gli_run_branch *b) {
  gli_run_fleet_end(b->fleet);
}
