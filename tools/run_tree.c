#include "tools/run_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/run_branch.h"

enum { FLAT_HOSTS = 32 };

struct gli_run_tree {
  const gli_run_hosts *hosts;
  const gli_run_rsh *rsh;
  const gli_run_fleet_events *events;
  void *user;
  gli_run_fleet *fleet;
  gli_run_hosts heads; /* hosts that are started from here */
  int block;           /* hosts per head, itself included */
  int parallel;
  int64_t lost_ms;
  bool *ended; /* by host: released or gone */
  int *left;   /* by head: its hosts that have not ended */
};

static int first_of(const gli_run_tree *t, int head) {
  return head * t->block;
}

static int end_of(const gli_run_tree *t, int head) {
  int end = (head + 1) * t->block;
  return end < t->hosts->n ? end : t->hosts->n;
}

/* ---- ends ---------------------------------------------------------------- */

/* Notes that nothing more is expected from a host. */
static void end_host(gli_run_tree *t, int host) {
  int head = host / t->block;
  t->ended[host] = true;
  if (--t->left[head] == 0) gli_run_fleet_release(t->fleet, head);
}

void gli_run_tree_release(gli_run_tree *t, int host) {
  if (t->ended[host]) return;
  int head = host / t->block;
  if (host != first_of(t, head))
    gli_run_fleet_send(t->fleet, head, GLI_RUN_RELEASE, (uint32_t)host, NULL,
                       0);
  end_host(t, host);
}

void gli_run_tree_drop(gli_run_tree *t, int host, const char *why) {
  int head = host / t->block;
  if (host == first_of(t, head)) {
    gli_run_fleet_drop(t->fleet, head, why);
  } else if (!t->ended[host]) {
    gli_run_tree_release(t, host);
    t->events->gone(t->user, host, why);
  }
}

static void tree_gone(void *user, int head, const char *why) {
  gli_run_tree *t = user;
  char text[1400];
  int first = first_of(t, head);
  for (int host = first; host < end_of(t, head); host++) {
    if (t->ended[host]) continue;
    t->ended[host] = true;
    t->left[head]--;
    snprintf(text, sizeof text, "the connection through host %s ended: %s",
             t->hosts->list[first].name, why);
    t->events->gone(t->user, host, host == first ? why : text);
  }
}

/* ---- frames -------------------------------------------------------------- */

static void tree_greeted(void *user, int head) {
  gli_run_tree *t = user;
  int first = first_of(t, head), n = end_of(t, head) - first - 1;
  if (n > 0) {
    size_t bytes;
    uint8_t *data = gli_run_branch_write(t->rsh, t->hosts->list + first + 1, n,
                                         t->parallel, t->lost_ms, &bytes);
    if (data == NULL) {
      gli_run_fleet_drop(t->fleet, head, "out of memory");
      return;
    }
    gli_run_fleet_send(t->fleet, head, GLI_RUN_BRANCH, (uint32_t)first + 1,
                       data, bytes);
    free(data);
  }
  t->events->greeted(t->user, first);
}

/* Returns the host that a frame is about; -1: none of the job. */
static int host_of_frame(const gli_run_tree *t, int head,
                         const gli_run_frame *frame) {
  switch (frame->type) {
    case GLI_RUN_OUTPUT:
    case GLI_RUN_EXITED: {
      const gli_run_host *last = &t->hosts->list[t->hosts->n - 1];
      if (frame->index >= (uint32_t)(last->first + last->ranks)) return -1;
      return gli_run_hosts_of(t->hosts, (int)frame->index);
    }
    case GLI_RUN_TAKEN:
      return first_of(t, head);
    default:
      return (int)frame->index;
  }
}

static void take_gone(gli_run_tree *t, int head, int host,
                      const gli_run_frame *frame) {
  char text[GLI_RUN_TEXT_MAX + 1], why[1400];
  gli_run_text_read(frame->data, frame->bytes, text);
  snprintf(why, sizeof why, "%.1000s (started by host %s; see --fanout)", text,
           t->hosts->list[first_of(t, head)].name);
  end_host(t, host);
  t->events->gone(t->user, host, why);
}

static void tree_frame(void *user, int head, const gli_run_frame *frame) {
  gli_run_tree *t = user;
  int host = host_of_frame(t, head, frame), first = first_of(t, head);
  bool of_branch =
      frame->type == GLI_RUN_GREETED || frame->type == GLI_RUN_GONE;
  if (host < first || host >= end_of(t, head) || (of_branch && host == first)) {
    gli_run_fleet_drop(t->fleet, head,
                       "the agent sent frames of other hosts or ranks");
    return;
  }
  if (t->ended[host]) return;
  if (frame->type == GLI_RUN_GREETED)
    t->events->greeted(t->user, host);
  else if (frame->type == GLI_RUN_GONE)
    take_gone(t, head, host, frame);
  else
    t->events->frame(t->user, host, frame);
}

static void tree_done(void *user) {
  gli_run_tree *t = user;
  t->events->done(t->user);
}

/* ---- the interface ------------------------------------------------------- */

/* Returns the number of hosts per head. */
static int block_of(int hosts, int fanout) {
  if (fanout < 0 && hosts > FLAT_HOSTS)
    for (fanout = 1; fanout * fanout < hosts;) fanout++;
  if (fanout <= 0 || fanout >= hosts) return 1;
  return (hosts + fanout - 1) / fanout;
}

gli_run_tree *gli_run_tree_open(uv_loop_t *loop, const gli_run_hosts *hosts,
                                const gli_run_rsh *rsh, int parallel,
                                int fanout, int64_t lost_ms,
                                const gli_run_fleet_events *events,
                                void *user) {
  static const gli_run_fleet_events own = {tree_greeted, tree_frame, tree_gone,
                                           tree_done};
  gli_run_tree *t = calloc(1, sizeof *t);
  if (t == NULL) return NULL;
  t->hosts = hosts;
  t->rsh = rsh;
  t->events = events;
  t->user = user;
  t->parallel = parallel;
  t->lost_ms = lost_ms;
  t->block = block_of(hosts->n, fanout);
  t->heads.n = (hosts->n + t->block - 1) / t->block;
  t->heads.list = calloc((size_t)t->heads.n, sizeof *t->heads.list);
  t->ended = calloc((size_t)hosts->n, sizeof *t->ended);
  t->left = calloc((size_t)t->heads.n, sizeof *t->left);
  if (t->heads.list == NULL || t->ended == NULL || t->left == NULL)
    goto free_tree;
  for (int i = 0; i < t->heads.n; i++) {
    t->heads.list[i] = hosts->list[first_of(t, i)];
    t->left[i] = end_of(t, i) - first_of(t, i);
  }
  t->fleet =
      gli_run_fleet_open(loop, &t->heads, rsh, parallel, lost_ms, &own, t);
  if (t->fleet != NULL) return t;
free_tree:
  free(t->heads.list);
  free(t->ended);
  free(t->left);
  free(t);
  return NULL;
}

void gli_run_tree_start(gli_run_tree *t) {
  gli_run_fleet_start(t->fleet);
}

void gli_run_tree_send(gli_run_tree *t, int host, gli_run_type type,
                       uint32_t index, const void *data, size_t bytes) {
  gli_run_fleet_send(t->fleet, host < 0 ? -1 : host / t->block, type, index,
                     data, bytes);
}

void gli_run_tree_pause(gli_run_tree *t, bool pause) {
  gli_run_fleet_pause(t->fleet, pause);
}

void gli_run_tree_end(gli_run_tree *t) {
  gli_run_fleet_end(t->fleet);
}

bool gli_run_tree_free(gli_run_tree *t) {
  if (gli_run_fleet_free(t->fleet)) return true;
  free(t->heads.list);
  free(t->ended);
  free(t->left);
  free(t);
  return false;
}
