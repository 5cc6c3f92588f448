/* Trace events, as defined by chrome://tracing and read by Perfetto: a process
 * for each rank, with one thread per concurrent operation. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "tools/trace.h"

enum { LANES_MAX = 64 }; /* more at once share the last one */

static int by_start(const void *left, const void *right) {
  const gli_traced *const *a = left, *const *b = right;
  return ((*a)->started_ns > (*b)->started_ns) -
         ((*a)->started_ns < (*b)->started_ns);
}

static int64_t first_start(const gli_traces *traces) {
  int64_t first = INT64_MAX;
  for (size_t f = 0; f < traces->n; f++) {
    for (size_t i = 0; i < traces->files[f].n_operations; i++) {
      int64_t at = traces->files[f].operations[i].started_ns;
      if (at < first) first = at;
    }
  }
  return first;
}

/* Writes microseconds, with all digits. */
static void put_time(gli_json *json, const char *key, int64_t ns) {
  char text[40];
  snprintf(text, sizeof text, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
  gli_json_digits(json, key, text);
}

static void put_numbers(gli_json *json, const gli_traced *o) {
  const struct {
    const char *key;
    int64_t value;
  } numbers[] = {{"tag", o->tag},     {"sequence", o->sequence},
                 {"count", o->count}, {"bytes", o->bytes},
                 {"root", o->root},   {"peer", o->peer},
                 {"last", o->last}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (numbers[i].value >= 0)
      gli_json_integer(json, numbers[i].key, (uint64_t)numbers[i].value);
  }
}

static void put_texts(gli_json *json, const gli_traced *o) {
  static const char *const states[] = {"scheduled", "under way", "completed",
                                       "failed"};
  const struct {
    const char *key, *value;
  } texts[] = {{"group", o->group},
               {"dtype", o->dtype},
               {"op", o->op},
               {"algorithm", o->algorithm},
               {"state", states[o->state]},
               {"status", o->status}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (texts[i].value[0] != '\0')
      gli_json_text(json, texts[i].key, texts[i].value);
  }
}

static void put_event(gli_json *json, int64_t rank, size_t lane,
                      int64_t first_ns, const gli_traced *o) {
  char words[GLI_TRACE_WORDS_BYTES];
  gli_json_line(json);
  gli_json_begin(json, NULL, '{');
  gli_json_text(json, "ph", "X");
  gli_json_text(json, "name", gli_traced_words(o, words));
  gli_json_text(json, "cat", o->message ? "message" : "collective");
  gli_json_integer(json, "pid", (uint64_t)rank);
  gli_json_integer(json, "tid", lane);
  put_time(json, "ts", o->started_ns - first_ns);
  put_time(json, "dur", o->ended_ns - o->started_ns);
  gli_json_begin(json, "args", '{');
  put_numbers(json, o);
  put_texts(json, o);
  gli_json_end(json, '}');
  gli_json_end(json, '}');
}

static void put_name(gli_json *json, const gli_trace_file *f) {
  char name[320];
  snprintf(name, sizeof name, "rank %" PRId64 " (%.255s)", f->rank, f->host);
  gli_json_line(json);
  gli_json_begin(json, NULL, '{');
  gli_json_text(json, "ph", "M");
  gli_json_text(json, "name", "process_name");
  gli_json_integer(json, "pid", (uint64_t)f->rank);
  gli_json_begin(json, "args", '{');
  gli_json_text(json, "name", name);
  gli_json_end(json, '}');
  gli_json_end(json, '}');
}

static bool put_file(gli_json *json, const gli_trace_file *f,
                     int64_t first_ns) {
  int64_t free_ns[LANES_MAX]; /* time from which a lane is free */
  for (size_t i = 0; i < LANES_MAX; i++) free_ns[i] = INT64_MIN;
  const gli_traced **sorted = malloc((f->n_operations + 1) * sizeof *sorted);
  if (sorted == NULL) return false;
  for (size_t i = 0; i < f->n_operations; i++) sorted[i] = &f->operations[i];
  qsort(sorted, f->n_operations, sizeof *sorted, by_start);
  put_name(json, f);
  for (size_t i = 0; i < f->n_operations; i++) {
    size_t lane = 0;
    while (lane + 1 < LANES_MAX && free_ns[lane] > sorted[i]->started_ns)
      lane++;
    free_ns[lane] = sorted[i]->ended_ns;
    put_event(json, f->rank, lane, first_ns, sorted[i]);
  }
  free(sorted);
  return true;
}

bool gli_trace_print_timeline(const gli_traces *traces, FILE *to) {
  gli_json json;
  int64_t first_ns = first_start(traces);
  bool all = true;
  gli_json_open(&json, to);
  gli_json_text(&json, "displayTimeUnit", "ns");
  gli_json_begin(&json, "traceEvents", '[');
  for (size_t f = 0; f < traces->n && all; f++)
    all = put_file(&json, &traces->files[f], first_ns);
  gli_json_end(&json, ']');
  gli_json_close(&json);
  return all;
}
