#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "tools/tools.h"
#include "tools/top_read.h"

static bool once = false;
static double interval_s = 1;

static const gli_option options[] = {
    {"once", 0, GLI_OPTION_FLAG, &once, NULL, "show one interval, and end", 0,
     0},
    {"interval", 'i', GLI_OPTION_SECONDS, &interval_s, "S",
     "how long to watch for each line (1)", 0, 3600},
};

static const gli_command command = {
    .name = "top",
    .usage = "gloo top [options] DIRECTORY",
    .about =
        "What the ranks of a running job on this host do: those that have "
        "a socket in\nDIRECTORY, for they were started with "
        "GLOO_METRICS=DIRECTORY.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

enum { RANKS_MAX = 4096, PATH_BYTES = 108 };

/* The ranks that answered, in their order. */
typedef struct reading {
  gli_top_rank *ranks;
  size_t n;
} reading;

/* ---- reading ------------------------------------------------------------- */

static int top_by_rank(const void *left, const void *right) {
  const gli_top_rank *a = left, *b = right;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (a->process > b->process) - (a->process < b->process);
}

static bool is_socket_name(const char *name) {
  static const char start[] = "gloo-metrics-rank", end[] = ".sock";
  size_t length = strlen(name);
  return length > sizeof start + sizeof end &&
         strncmp(name, start, sizeof start - 1) == 0 &&
         strcmp(name + length - (sizeof end - 1), end) == 0;
}

static bool add_rank(reading *r, const char *directory, const char *name) {
  char path[PATH_BYTES];
  int n = snprintf(path, sizeof path, "%s/%s", directory, name);
  if (n < 0 || n >= PATH_BYTES || r->n == RANKS_MAX) return true;
  gli_top_rank *more = realloc(r->ranks, (r->n + 1) * sizeof *more);
  if (more == NULL) return false;
  r->ranks = more;
  r->n += gli_top_read(path, &more[r->n]);
  return true;
}

/* False: no such directory, or no memory, as errno says. */
static bool read_all(reading *r, const char *directory) {
  *r = (reading){NULL, 0};
  DIR *from = opendir(directory);
  if (from == NULL) return false;
  bool all = true;
  for (const struct dirent *e; all && (e = readdir(from)) != NULL;) {
    if (is_socket_name(e->d_name)) all = add_rank(r, directory, e->d_name);
  }
  closedir(from);
  if (!all) errno = ENOMEM;
  if (r->n > 0) qsort(r->ranks, r->n, sizeof *r->ranks, top_by_rank);
  return all;
}

/* ---- what changed -------------------------------------------------------- */

static const gli_top_rank *same_rank(const reading *r, const gli_top_rank *of) {
  for (size_t i = 0; i < r->n; i++) {
    if (top_by_rank(&r->ranks[i], of) == 0) return &r->ranks[i];
  }
  return NULL;
}

static double late_for(const gli_top_rank *r, int64_t peer) {
  for (size_t i = 0; i < r->n_late; i++) {
    if (r->late_rank[i] == peer) return r->late_seconds[i];
  }
  return 0;
}

/* The rank that it waited for longest since then, and how long. */
static double find_late(const gli_top_rank *now, const gli_top_rank *before,
                        int64_t *peer) {
  double most = 0;
  for (size_t i = 0; i < now->n_late; i++) {
    double more = now->late_seconds[i] - late_for(before, now->late_rank[i]);
    if (more <= most) continue;
    most = more;
    *peer = now->late_rank[i];
  }
  return most;
}

static void show_rank(const gli_top_rank *now, const gli_top_rank *before) {
  double s = now->read_s - before->read_s;
  int64_t peer = -1;
  double late = find_late(now, before, &peer);
  char waited[48] = "";
  if (peer >= 0)
    snprintf(waited, sizeof waited, "rank %" PRId64 ", %.0f %%", peer,
             100 * late / s);
  printf("%6" PRId64 " %8" PRId64 " %10.0f %10.1f %10.1f %8.0f %8.0f  %s\n",
         now->rank, now->process, (now->calls - before->calls) / s,
         (now->bytes_sent - before->bytes_sent) / s / 1e6,
         (now->bytes_received - before->bytes_received) / s / 1e6,
         100 * (now->call_seconds - before->call_seconds) / s, now->running,
         now->failed ? "its context has failed" : waited);
}

static void show_all(const reading *now, const reading *before) {
  printf("%6s %8s %10s %10s %10s %8s %8s  %s\n", "rank", "process", "calls/s",
         "MB/s out", "MB/s in", "in calls", "running", "waited most for");
  for (size_t i = 0; i < now->n; i++) {
    const gli_top_rank *then = same_rank(before, &now->ranks[i]);
    if (then != NULL && now->ranks[i].read_s > then->read_s)
      show_rank(&now->ranks[i], then);
  }
  fflush(stdout);
}

/* ---- the command --------------------------------------------------------- */

static int top_watch(const char *directory) {
  reading before, now;
  bool good = read_all(&before, directory);
  if (good && before.n == 0) {
    fprintf(stderr,
            "gloo top: no rank answers in %s; were they started with "
            "GLOO_METRICS=%s?\n",
            directory, directory);
    free(before.ranks);
    return GLI_EXIT_FAILED;
  }
  while (good && before.n > 0) {
    uv_sleep((unsigned)(interval_s * 1000) + 1);
    good = read_all(&now, directory);
    if (good && !once && isatty(STDOUT_FILENO)) printf("\033[H\033[2J");
    if (good) show_all(&now, &before);
    free(before.ranks);
    before = now;
    if (once) break;
  }
  free(before.ranks);
  if (good) return GLI_EXIT_OK;
  fprintf(stderr, "gloo top: %s: %s\n", directory, strerror(errno));
  return GLI_EXIT_USAGE;
}

int gli_tool_top(int argc, char **argv) {
  int n = 0;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (n != 1) return gli_usage_error(&command, "which directory?");
  return top_watch(argv[0]);
}
