#include "tools/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tools.h"
#include "tools/trace_live.h"

static const char *timeline = NULL;
static gli_watch_choice choice;
static double patience_s = 0.5;

static const gli_option options[] = {
    {"pid", 'p', GLI_OPTION_INTEGER, &choice.process, "PID",
     "query the running job of this process, a rank or its launcher", 1,
     INT32_MAX},
    {"job", 'j', GLI_OPTION_TEXT, &choice.job, "JOB",
     "query the running job with this name or prefix in gloo top", 0, 0},
    {"wait", 'w', GLI_OPTION_SECONDS, &patience_s, "S",
     "how long to wait for answers from ranks (0.5)", 0, 60},
    {"timeline", 0, GLI_OPTION_TEXT, &timeline, "FILE",
     "write a new file of trace events, for ui.perfetto.dev", 0, 0},
};

static const gli_command command = {
    .name = "trace",
    .usage =
        "gloo trace [options] FILE...\n"
        "       gloo trace [options] --pid PID | --job JOB",
    .about =
        "Compares the last operations of the ranks of a job: finds ranks that\n"
        "are behind or made a different call, and shows which rank waits for\n"
        "which. Each FILE is the trace of one rank, from the directory of\n"
        "GLOO_TRACE_DIR or from gloo_context_trace. With --pid or --job,\n"
        "queries this user's ranks on this host and names stopped ones. The\n"
        "exit status is 0 if no problem was found, 1 if one was, and 2 if\n"
        "traces could not be read.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

const gli_trace_file *gli_traces_of(const gli_traces *traces, int64_t rank) {
  size_t from = 0, to = traces->n;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (traces->files[middle].rank == rank) return &traces->files[middle];
    if (traces->files[middle].rank < rank)
      from = middle + 1;
    else
      to = middle;
  }
  return NULL;
}

/* ---- files --------------------------------------------------------------- */

/* Compares by rank, and puts the newest of each first. */
static int by_rank(const void *left, const void *right) {
  const gli_trace_file *a = left, *b = right;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (a->now_ns < b->now_ns) - (a->now_ns > b->now_ns);
}

/* Keeps only the newest file of each rank. */
static void drop_older(gli_traces *traces) {
  size_t n = 0;
  for (size_t i = 0; i < traces->n; i++) {
    gli_trace_file *f = &traces->files[i];
    if (n > 0 && traces->files[n - 1].rank == f->rank) {
      printf("rank %" PRId64 ": ignoring %s, which is older than %s\n", f->rank,
             f->path, traces->files[n - 1].path);
      gli_trace_unload(f);
      continue;
    }
    gli_trace_file kept = *f;
    traces->files[n++] = kept;
  }
  traces->n = n;
}

/* Loads all files. Returns false, after printing the cause, if one cannot be
 * read, or belongs to another job. */
static bool load_all(gli_traces *traces, int n, char **paths) {
  char why[GLI_TRACE_WHY_BYTES];
  for (int i = 0; i < n; i++) {
    gli_trace_file *f = &traces->files[traces->n];
    if (!gli_trace_load(f, paths[i], why)) {
      fprintf(stderr, "gloo trace: %s\n", why);
      return false;
    }
    traces->n++;
    if (i == 0) traces->size = f->size;
    if (f->size == traces->size) continue;
    fprintf(stderr,
            "gloo trace: %s is of a job of %" PRId64
            " ranks, and %s of one of "
            "%" PRId64 "\n",
            f->path, f->size, traces->files[0].path, traces->size);
    return false;
  }
  qsort(traces->files, traces->n, sizeof traces->files[0], by_rank);
  drop_older(traces);
  return true;
}

/* ---- what is said first -------------------------------------------------- */

static void say_who_is_missing(const gli_traces *traces) {
  gli_rank_list missing = {.n = 0};
  char words[GLI_TRACE_ABSENCE_BYTES];
  for (size_t i = 0; i < traces->n_absent; i++)
    printf("rank %" PRId64 " %s\n", traces->absent[i].rank,
           gli_traces_absence(traces, traces->absent[i].rank, words));
  for (int64_t rank = 0; rank < traces->size; rank++) {
    if (gli_traces_of(traces, rank) != NULL) continue;
    if (gli_traces_absence(traces, rank, words) != words)
      gli_rank_list_add(&missing, rank);
  }
  if (missing.n > 0)
    printf("%s %s\n",
           traces->live ? "no answer on this host from" : "no file from",
           gli_rank_list_words(&missing));
}

static void say_who_is_there(const gli_traces *traces) {
  printf("%zu of %" PRId64 " ranks%s\n", traces->n, traces->size,
         traces->live ? " answer" : "");
  say_who_is_missing(traces);
  for (size_t i = 1; i < traces->n; i++) {
    if (strcmp(traces->files[i].host, traces->files[0].host) == 0) continue;
    printf("ranks are on several hosts: times are compared by their clocks\n");
    return;
  }
}

/* Prints errors of ranks that found one; other ranks' errors name the rank that
 * reported it. */
static size_t say_errors(const gli_traces *traces) {
  size_t found = 0;
  const char *heard = NULL;
  for (size_t i = 0; i < traces->n; i++) {
    const gli_trace_file *f = &traces->files[i];
    if (f->error == NULL) continue;
    if (strncmp(f->error, "reported by ", 12) == 0) {
      heard = f->error;
      continue;
    }
    printf("error on rank %" PRId64 ": %s\n", f->rank, f->error);
    found++;
  }
  if (found == 0 && heard != NULL) printf("error: %s\n", heard);
  return found > 0 || heard != NULL;
}

/* ---- all ----------------------------------------------------------------- */

static int write_timeline(const gli_traces *traces, const char *path) {
  FILE *to = fopen(path, "wx");
  if (to == NULL) {
    fprintf(stderr, "gloo trace: %s: %s\n", path, strerror(errno));
    return GLI_EXIT_USAGE;
  }
  bool all = gli_trace_print_timeline(traces, to);
  bool written = !ferror(to);
  written = fclose(to) == 0 && written;
  if (all && written) return GLI_EXIT_OK;
  fprintf(stderr, "gloo trace: %s: %s\n", path,
          all ? "write error" : "out of memory");
  return GLI_EXIT_USAGE;
}

int gli_trace_report(const gli_traces *traces, const char *path) {
  int status = path != NULL ? write_timeline(traces, path) : GLI_EXIT_OK;
  if (status != GLI_EXIT_OK) return status;
  say_who_is_there(traces);
  size_t found = say_errors(traces) + traces->n_absent;
  size_t calls = gli_trace_compare(traces, stdout);
  if (calls == SIZE_MAX) {
    fprintf(stderr, "gloo trace: out of memory\n");
    return GLI_EXIT_USAGE;
  }
  found += calls + gli_trace_compare_messages(traces, stdout);
  if (found == 0) printf("no rank is behind\n");
  return found == 0 ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

static int trace_files(int n, char **paths) {
  gli_traces traces = {.files = calloc((size_t)n, sizeof *traces.files)};
  if (traces.files == NULL) return gli_usage_error(&command, "out of memory");
  bool loaded = load_all(&traces, n, paths);
  int status = loaded ? gli_trace_report(&traces, timeline) : GLI_EXIT_USAGE;
  for (size_t i = 0; i < traces.n; i++) gli_trace_unload(&traces.files[i]);
  free(traces.files);
  return status;
}

int gli_tool_trace(int argc, char **argv) {
  int n = 0;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  bool asks = choice.process != 0 || choice.job != NULL;
  if (asks && (n > 0 || (choice.process != 0 && choice.job != NULL)))
    return gli_usage_error(&command, "use only one of files, --pid and --job");
  if (!gli_trace_readable(command.name)) return GLI_EXIT_FAILED;
  if (asks) return gli_trace_running(&choice, patience_s, timeline);
  if (n == 0)
    return gli_usage_error(&command,
                           "no files; for a running job use --pid or --job");
  return trace_files(n, argv);
}
