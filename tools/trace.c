#include "tools/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tools.h"

static const char *timeline = NULL;

static const gli_option options[] = {
    {"timeline", 0, GLI_OPTION_TEXT, &timeline, "FILE",
     "a new file of trace events, for ui.perfetto.dev", 0, 0},
};

static const gli_command command = {
    .name = "trace",
    .usage = "gloo trace [options] FILE...",
    .about =
        "What the ranks of a job did last: which of them is behind, or called\n"
        "something else, and who waits for whom. Each FILE is one rank's, "
        "from\n"
        "the directory that GLOO_TRACE_DIR names, or what gloo_context_trace\n"
        "wrote. The status is 0 when nothing was found, and 1 when something\n"
        "was.\n",
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

/* By rank, and the newest of each first. */
static int by_rank(const void *left, const void *right) {
  const gli_trace_file *a = left, *b = right;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (a->now_ns < b->now_ns) - (a->now_ns > b->now_ns);
}

/* Of several files of a rank the newest counts. */
static void drop_older(gli_traces *traces) {
  size_t n = 0;
  for (size_t i = 0; i < traces->n; i++) {
    gli_trace_file *f = &traces->files[i];
    if (n > 0 && traces->files[n - 1].rank == f->rank) {
      printf("rank %" PRId64 ": %s is newer than %s, which is left out\n",
             f->rank, traces->files[n - 1].path, f->path);
      gli_trace_unload(f);
      continue;
    }
    gli_trace_file kept = *f;
    traces->files[n++] = kept;
  }
  traces->n = n;
}

/* False, and it was said why: one cannot be read, or is of another job. */
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

static void say_who_is_there(const gli_traces *traces) {
  gli_rank_list missing = {.n = 0};
  for (int64_t rank = 0; rank < traces->size; rank++) {
    if (gli_traces_of(traces, rank) == NULL) gli_rank_list_add(&missing, rank);
  }
  printf("%zu of %" PRId64 " ranks\n", traces->n, traces->size);
  if (missing.n > 0) printf("no file of %s\n", gli_rank_list_words(&missing));
  for (size_t i = 1; i < traces->n; i++) {
    if (strcmp(traces->files[i].host, traces->files[0].host) == 0) continue;
    printf("ranks are on several hosts: times are compared by their clocks\n");
    return;
  }
}

/* Those that heard of an error say so; the others have found it. */
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

static int write_timeline(const gli_traces *traces) {
  FILE *to = fopen(timeline, "wx");
  if (to == NULL) {
    fprintf(stderr, "gloo trace: %s: %s\n", timeline, strerror(errno));
    return GLI_EXIT_USAGE;
  }
  bool all = gli_trace_print_timeline(traces, to);
  bool written = !ferror(to);
  written = fclose(to) == 0 && written;
  if (all && written) return GLI_EXIT_OK;
  fprintf(stderr, "gloo trace: %s: %s\n", timeline,
          all ? "it could not be written" : "out of memory");
  return GLI_EXIT_USAGE;
}

static int trace_report(const gli_traces *traces) {
  int status = timeline != NULL ? write_timeline(traces) : GLI_EXIT_OK;
  if (status != GLI_EXIT_OK) return status;
  say_who_is_there(traces);
  size_t found = say_errors(traces);
  size_t calls = gli_trace_compare(traces, stdout);
  if (calls == SIZE_MAX) {
    fprintf(stderr, "gloo trace: out of memory\n");
    return GLI_EXIT_USAGE;
  }
  found += calls + gli_trace_compare_messages(traces, stdout);
  if (found == 0) printf("no rank is behind\n");
  return found == 0 ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

int gli_tool_trace(int argc, char **argv) {
  int n = 0;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (n == 0) return gli_usage_error(&command, "which files?");
  gli_traces traces = {.files = calloc((size_t)n, sizeof *traces.files)};
  if (traces.files == NULL) return gli_usage_error(&command, "out of memory");
  bool loaded = load_all(&traces, n, argv);
  int status = loaded ? trace_report(&traces) : GLI_EXIT_USAGE;
  for (size_t i = 0; i < traces.n; i++) gli_trace_unload(&traces.files[i]);
  free(traces.files);
  return status;
}
