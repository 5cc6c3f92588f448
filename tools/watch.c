#include "tools/watch.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/user.h"
#include "tools/watch_process.h"

enum {
  WATCHED_MOST = 65536,
  AT_ONCE = 200, /* connections */
  SLICE_MS = 20  /* interval between checks for stopped processes */
};
#define ANSWER_BYTES_MOST ((size_t)256 << 20)

/* ---- finding ------------------------------------------------------------- */

static int watch_order(const void *left, const void *right) {
  const gli_observe_name *a = &((const gli_watched *)left)->name;
  const gli_observe_name *b = &((const gli_watched *)right)->name;
  if (a->job != b->job) return a->job < b->job ? -1 : 1;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (a->process > b->process) - (a->process < b->process);
}

static bool watch_parse_metrics(const char *file, gli_observe_name *name) {
  int used = 0, again;
  *name = (gli_observe_name){.job = 0};
  if (sscanf(file, "gloo-metrics-rank%9" SCNd64 "-pid%18" SCNd64 "%n",
             &name->rank, &name->process, &used) != 2)
    return false;
  const char *end = file + used;
  if (sscanf(end, "-%3d%n", &again, &used) == 1) end += used;
  return strcmp(end, ".sock") == 0;
}

static bool watch_add(gli_watch *watch, const char *directory, const char *file,
                      const gli_observe_name *name) {
  gli_watched one = {.name = *name, .fd = -1};
  int n = snprintf(one.path, sizeof one.path, "%s/%s", directory, file);
  if (n < 0 || n >= (int)sizeof one.path || watch->n == WATCHED_MOST)
    return true;
  if ((watch->n & (watch->n - 1)) == 0) {
    size_t room = watch->n > 0 ? 2 * watch->n : 1;
    gli_watched *more = realloc(watch->all, room * sizeof *more);
    if (more == NULL) return false;
    watch->all = more;
  }
  watch->all[watch->n++] = one;
  return true;
}

typedef bool (*watch_parse_fn)(const char *file, gli_observe_name *name);

/* Returns false with errno. */
static bool watch_list(gli_watch *watch, const char *directory,
                       watch_parse_fn parse) {
  DIR *from = opendir(directory);
  if (from == NULL) return false;
  bool all = true;
  for (const struct dirent *e; all && (e = readdir(from)) != NULL;) {
    gli_observe_name name;
    if (parse(e->d_name, &name))
      all = watch_add(watch, directory, e->d_name, &name);
  }
  closedir(from);
  if (!all) errno = ENOMEM;
  if (watch->n > 0)
    qsort(watch->all, watch->n, sizeof *watch->all, watch_order);
  return all;
}

bool gli_watch_find(gli_watch *watch) {
  char directories[GLI_OBSERVE_DIRECTORIES][GLI_OBSERVE_PATH_BYTES];
  *watch = (gli_watch){.all = NULL};
  for (int i = 0; i < GLI_OBSERVE_DIRECTORIES; i++) {
    bool known = !gli_observe_directory(i, false, directories[i]);
    for (int k = 0; k < i && !known; k++)
      known = strcmp(directories[i], directories[k]) == 0;
    if (known) continue;
    if (!watch_list(watch, directories[i], gli_observe_name_parse) &&
        errno == ENOMEM)
      return false;
  }
  return true;
}

bool gli_watch_find_in(gli_watch *watch, const char *directory) {
  *watch = (gli_watch){.all = NULL};
  return watch_list(watch, directory, watch_parse_metrics);
}

/* ---- choosing ------------------------------------------------------------ */

bool gli_watch_is_process(const gli_watched *watched, int64_t process) {
  return gli_process_is_below(watched->name.process, process);
}

bool gli_watch_is_job(uint64_t job, const gli_watch_choice *choice) {
  char name[17];
  snprintf(name, sizeof name, "%012" PRIx64, job);
  return choice->job == NULL ||
         strncmp(name, choice->job, strlen(choice->job)) == 0;
}

static bool watch_is_chosen(const gli_watched *watched,
                            const gli_watch_choice *choice) {
  if (choice->job != NULL) return gli_watch_is_job(watched->name.job, choice);
  return gli_watch_is_process(watched, choice->process);
}

static bool watch_shares_job(const gli_watch *watch, const gli_watched *with,
                             const gli_watch_choice *choice) {
  if (watch_is_chosen(with, choice)) return true;
  for (size_t i = 0; with->name.job != 0 && i < watch->n; i++)
    if (watch->all[i].name.job == with->name.job &&
        watch_is_chosen(&watch->all[i], choice))
      return true;
  return false;
}

void gli_watch_choose(gli_watch *watch, const gli_watch_choice *choice) {
  if (choice->job == NULL && choice->process == 0) return;
  bool *keep = calloc(watch->n + 1, sizeof *keep);
  size_t kept = 0, n = 0;
  for (size_t i = 0; keep != NULL && i < watch->n; i++) {
    keep[i] = watch_shares_job(watch, &watch->all[i], choice);
    kept += keep[i];
  }
  bool all = keep == NULL || (kept == 0 && choice->job != NULL);
  for (size_t i = 0; !all && i < watch->n; i++)
    if (keep[i]) watch->all[n++] = watch->all[i];
  if (!all) watch->n = n;
  free(keep);
}

/* ---- asking -------------------------------------------------------------- */

static void watch_end(gli_watched *w, gli_watch_state state) {
  gli_fd_close(w->fd);
  w->fd = -1;
  w->state = state;
  if (state == GLI_WATCH_ANSWERED) return;
  free(w->text);
  w->text = NULL;
}

/* Connects and sends the request, which fits into any socket's buffer. */
static void watch_begin(gli_watched *w, const char *path) {
  char request[64];
  int64_t process;
  uint32_t user;
  free(w->text);
  w->text = NULL;
  w->bytes = w->room = 0;
  w->state = GLI_WATCH_SILENT;
  w->fd = gli_socket_open(AF_UNIX, SOCK_STREAM); /* nonblocking */
  if (w->fd < 0) return;
  if (!gli_socket_connect_to(w->fd, w->path)) {
    bool gone = errno == ECONNREFUSED || errno == ENOENT;
    watch_end(w, gone ? GLI_WATCH_GONE : GLI_WATCH_SILENT);
    return;
  }
  const gli_user here = gli_user_here();
  int code = gli_socket_peer(w->fd, &process, &user);
  if (code == 0 && !gli_user_is_own(&here, user)) {
    watch_end(w, GLI_WATCH_SILENT);
    return;
  }
  if (code == 0 && process > 0) w->name.process = process;
  int n = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
  (void)gli_socket_send(w->fd, request, (size_t)n);
}

/* Removes the head of the answer. Returns false if it has none. */
static bool watch_take_body(gli_watched *w) {
  static const char good[] = "HTTP/1.0 200 ";
  if (w->text == NULL || strncmp(w->text, good, sizeof good - 1) != 0)
    return false;
  const char *body = strstr(w->text, "\r\n\r\n");
  if (body == NULL) return false;
  w->bytes -= (size_t)(body + 4 - w->text);
  memmove(w->text, body + 4, w->bytes + 1);
  return true;
}

static void watch_receive(gli_watched *w, size_t most) {
  if (w->room - w->bytes < 2) {
    size_t room = w->room > 0 ? 2 * w->room : 1 << 14;
    char *more = room <= most ? realloc(w->text, room) : NULL;
    if (more == NULL) {
      watch_end(w, GLI_WATCH_SILENT);
      return;
    }
    w->text = more;
    w->room = room;
  }
  ssize_t got =
      gli_socket_receive(w->fd, w->text + w->bytes, w->room - w->bytes - 1);
  if (got < 0 && gli_would_block(errno)) return;
  if (got > 0) w->bytes += (size_t)got;
  w->text[w->bytes] = '\0';
  if (got > 0) return;
  w->read_s = (double)uv_hrtime() / 1e9;
  watch_end(w, got == 0 && watch_take_body(w) ? GLI_WATCH_ANSWERED
                                              : GLI_WATCH_SILENT);
}

/* Returns true if all processes without an answer are stopped, and so will not
 * answer. */
static bool watch_only_stopped(const gli_watched *all, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (all[i].fd >= 0 && !gli_process_is_stopped(all[i].name.process))
      return false;
  return true;
}

static bool watch_ends(const gli_watch *watch) {
  return watch->ends != NULL && atomic_load(watch->ends);
}

static void watch_wait(const gli_watch *watch, gli_watched *all, size_t n,
                       uint64_t until_ns) {
  struct pollfd fds[AT_ONCE];
  size_t most =
      watch->answer_most != 0 ? watch->answer_most : ANSWER_BYTES_MOST;
  for (size_t open = 1;
       open > 0 && uv_hrtime() < until_ns && !watch_ends(watch);) {
    open = 0;
    for (size_t i = 0; i < n; i++) {
      fds[i] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
      open += all[i].fd >= 0;
    }
    if (open == 0) break;
    int ready = poll(fds, (nfds_t)n, SLICE_MS);
    if (ready == 0 && watch_only_stopped(all, n)) break;
    for (size_t i = 0; ready > 0 && i < n; i++)
      if (all[i].fd >= 0 && fds[i].revents != 0) watch_receive(&all[i], most);
  }
}

void gli_watch_ask(gli_watch *watch, const char *path, double patience_s) {
  for (size_t from = 0; from < watch->n; from += AT_ONCE) {
    gli_watched *all = watch->all + from;
    size_t n = watch->n - from < AT_ONCE ? watch->n - from : AT_ONCE;
    for (size_t i = 0; i < n; i++) watch_begin(&all[i], path);
    watch_wait(watch, all, n, uv_hrtime() + (uint64_t)(patience_s * 1e9));
    for (size_t i = 0; i < n; i++) {
      gli_observe_name ignored;
      const char *file = strrchr(all[i].path, '/') + 1;
      if (all[i].fd >= 0) watch_end(&all[i], GLI_WATCH_SILENT);
      if (all[i].state == GLI_WATCH_SILENT &&
          gli_process_is_stopped(all[i].name.process))
        all[i].state = GLI_WATCH_STOPPED;
      if (all[i].state == GLI_WATCH_GONE &&
          gli_observe_name_parse(file, &ignored))
        (void)unlink(all[i].path);
    }
  }
}

void gli_watch_free(gli_watch *watch) {
  for (size_t i = 0; i < watch->n; i++) free(watch->all[i].text);
  free(watch->all);
  *watch = (gli_watch){.all = NULL};
}

const char *gli_watch_state_words(gli_watch_state state) {
  switch (state) {
    case GLI_WATCH_ANSWERED:
      return "answers";
    case GLI_WATCH_STOPPED:
      return "is stopped";
    case GLI_WATCH_SILENT:
      return "does not answer";
    case GLI_WATCH_GONE:
      break;
  }
  return "has ended";
}
