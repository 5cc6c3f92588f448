#include "tools/trace_read.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)
enum { RANKS_MAX = 65536 };
/* A bound that keeps sums of times from overflowing. */
#define TIME_MAX (INT64_MAX / 3)

/* ---- fields -------------------------------------------------------------- */

/* Negative numbers count as missing. */
static int64_t read_integer(const json_t *object, const char *key) {
  const json_t *v = json_object_get(object, key);
  int64_t number = json_is_integer(v) ? json_integer_value(v) : -1;
  return number < 0 ? -1 : number;
}

static const char *read_text(const json_t *object, const char *key) {
  const json_t *v = json_object_get(object, key);
  return json_is_string(v) ? json_string_value(v) : "";
}

static const json_t *read_list(const json_t *object, const char *key) {
  const json_t *v = json_object_get(object, key);
  return json_is_array(v) ? v : NULL;
}

static bool read_state(const json_t *object, gli_traced_state *state) {
  static const char *const names[] = {"scheduled", "started", "completed",
                                      "failed"};
  const char *text = read_text(object, "state");
  for (int i = 0; i < 4; i++) {
    if (strcmp(text, names[i]) != 0) continue;
    *state = (gli_traced_state)i;
    return true;
  }
  return false;
}

/* ---- operations ---------------------------------------------------------- */

static bool are_ranks(const json_t *list, int64_t size) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *v = json_array_get(list, i);
    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        json_integer_value(v) >= size)
      return false;
  }
  return true;
}

/* Returns an error, or NULL. `shift_ns` is the difference between its times and
 * times since 1970. */
static const char *read_operation(const json_t *v, int64_t size, int64_t now_ns,
                                  int64_t shift_ns, gli_traced *o) {
  *o = (gli_traced){
      .call = read_text(v, "call"),
      .group = read_text(v, "group"),
      .tag = read_integer(v, "tag"),
      .request = read_integer(v, "request"),
      .sequence = read_integer(v, "sequence"),
      .count = read_integer(v, "count"),
      .bytes = read_integer(v, "bytes"),
      .root = read_integer(v, "root"),
      .peer = read_integer(v, "peer"),
      .last = read_integer(v, "last"),
      .dtype = read_text(v, "dtype"),
      .op = read_text(v, "op"),
      .algorithm = read_text(v, "algorithm"),
      .status = read_text(v, "status"),
      .started_ns = read_integer(v, "started_ns"),
      .ended_ns = read_integer(v, "ended_ns"),
      .waits = read_list(v, "waits_for"),
  };
  o->receives = strcmp(o->call, "receive") == 0;
  o->message = o->receives || strcmp(o->call, "send") == 0;
  if (o->call[0] == '\0') return "an operation without a \"call\"";
  if (!read_state(v, &o->state)) return "an operation without a \"state\"";
  bool over = o->state >= GLI_TRACED_COMPLETED;
  if (o->started_ns < 0 || o->started_ns > TIME_MAX || o->ended_ns > TIME_MAX ||
      (over && o->ended_ns < 0))
    return "an operation without a time";
  if (o->peer >= size || o->last >= size || !are_ranks(o->waits, size))
    return "an operation with a rank that does not exist";
  o->started_ns += shift_ns;
  o->ended_ns = over ? o->ended_ns + shift_ns : now_ns;
  if (o->ended_ns < o->started_ns) o->ended_ns = o->started_ns;
  return NULL;
}

static const char *read_operations(gli_trace_file *f, const json_t *list,
                                   int64_t shift_ns) {
  size_t n = json_array_size(list);
  f->operations = calloc(n + 1, sizeof *f->operations);
  if (f->operations == NULL) return "out of memory";
  for (size_t i = 0; i < n; i++) {
    const char *wrong =
        read_operation(json_array_get(list, i), f->size, f->now_ns, shift_ns,
                       &f->operations[f->n_operations]);
    if (wrong != NULL) return wrong;
    f->n_operations++;
  }
  return NULL;
}

/* ---- the file ------------------------------------------------------------ */

static const char *read_groups(const gli_trace_file *f) {
  for (size_t i = 0; i < json_array_size(f->groups); i++) {
    const json_t *v = json_array_get(f->groups, i);
    if (!are_ranks(read_list(v, "ranks"), f->size))
      return "a group with a rank that does not exist";
  }
  return NULL;
}

static const char *read_head(gli_trace_file *f, const json_t *root,
                             int64_t *shift_ns) {
  int64_t format = read_integer(root, "gloo_trace");
  if (format < 0) return "not a trace: \"gloo_trace\" is missing";
  if (format != 1) return "its version is newer than this command";
  f->rank = read_integer(root, "rank");
  f->size = read_integer(root, "size");
  f->process = read_integer(root, "process");
  f->job = read_text(root, "job");
  f->ended = read_integer(root, "ended");
  f->host = read_text(root, "host");
  f->reason = read_text(root, "reason");
  f->now_ns = read_integer(root, "wall_ns");
  int64_t monotonic_ns = read_integer(root, "monotonic_ns");
  if (f->size < 1 || f->size > RANKS_MAX || f->rank < 0 || f->rank >= f->size)
    return "\"rank\" or \"size\" is missing or invalid";
  if (f->now_ns < 0 || f->now_ns > TIME_MAX || monotonic_ns < 0 ||
      monotonic_ns > TIME_MAX)
    return "\"wall_ns\" or \"monotonic_ns\" is missing or invalid";
  *shift_ns = f->now_ns - monotonic_ns;
  const json_t *error = json_object_get(root, "error");
  f->error = json_is_object(error) ? read_text(error, "message") : NULL;
  f->error_rank = read_integer(error, "rank");
  f->groups = read_list(root, "groups");
  return read_groups(f);
}

static const char *read_file(gli_trace_file *f) {
  const json_t *root = f->tree;
  int64_t shift_ns = 0;
  const char *wrong = read_head(f, root, &shift_ns);
  if (wrong != NULL) return wrong;
  const json_t *list = read_list(root, "operations");
  if (list == NULL) return "\"operations\" is missing";
  return read_operations(f, list, shift_ns);
}

/* Replaces what a terminal might obey in all texts. Returns false if out of
 * memory. */
static bool make_printable(json_t *v) {
  const char *key;
  json_t *inner;
  bool good = true;
  if (json_is_string(v)) {
    char *copy = strdup(json_string_value(v));
    if (copy == NULL) return false;
    gli_make_printable(copy);
    if (strcmp(copy, json_string_value(v)) != 0)
      good = json_string_set(v, copy) == 0;
    free(copy);
  }
  for (size_t i = 0; i < json_array_size(v) && good; i++)
    good = make_printable(json_array_get(v, i));
  if (json_is_object(v))
    json_object_foreach(v, key, inner) good = good && make_printable(inner);
  return good;
}

bool gli_trace_readable(const char *name) {
  (void)name;
  return true;
}

bool gli_trace_parse(gli_trace_file *file, const char *path, char *text,
                     size_t bytes, char why[GLI_TRACE_WHY_BYTES]) {
  json_error_t error;
  *file = (gli_trace_file){.path = path};
  file->tree = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  free(text);
  if (file->tree == NULL) {
    snprintf(why, GLI_TRACE_WHY_BYTES, "%s: line %d, column %d: %s", path,
             error.line, error.column, error.text);
    gli_make_printable(why);
    return false;
  }
  const char *wrong =
      make_printable(file->tree) ? read_file(file) : "out of memory";
  if (wrong == NULL) return true;
  snprintf(why, GLI_TRACE_WHY_BYTES, "%s: %s", path, wrong);
  gli_trace_unload(file);
  return false;
}

static char *load_text(FILE *from, size_t *bytes, const char **wrong) {
  size_t room = 1 << 16;
  char *text = malloc(room);
  *bytes = 0;
  while (text != NULL) {
    *bytes += fread(text + *bytes, 1, room - *bytes, from);
    if (*bytes < room) break;
    room *= 2;
    *wrong = room > FILE_BYTES_MAX ? "it exceeds the size of a trace" : NULL;
    char *more = *wrong == NULL ? realloc(text, room) : NULL;
    if (more == NULL) free(text);
    text = more;
  }
  if (text == NULL && *wrong == NULL) *wrong = "out of memory";
  if (text != NULL && ferror(from)) *wrong = strerror(errno);
  return text;
}

bool gli_trace_load(gli_trace_file *file, const char *path,
                    char why[GLI_TRACE_WHY_BYTES]) {
  FILE *from = fopen(path, "rb");
  const char *wrong = NULL;
  size_t bytes = 0;
  char *text = NULL;
  if (from == NULL) wrong = strerror(errno);
  if (from != NULL) {
    text = load_text(from, &bytes, &wrong);
    fclose(from);
  }
  if (wrong == NULL) return gli_trace_parse(file, path, text, bytes, why);
  free(text);
  snprintf(why, GLI_TRACE_WHY_BYTES, "%s: %s", path, wrong);
  return false;
}

void gli_trace_unload(gli_trace_file *file) {
  free(file->operations);
  json_decref(file->tree);
  *file = (gli_trace_file){.path = NULL};
}

/* ---- asking -------------------------------------------------------------- */

static bool has_rank(const json_t *list, int64_t rank) {
  size_t i = 0, n = json_array_size(list);
  while (i < n && json_integer_value(json_array_get(list, i)) != rank) i++;
  return i < n;
}

bool gli_trace_in_group(const gli_trace_file *file, const char *group,
                        int64_t rank) {
  if (strcmp(group, "world") == 0) return rank < file->size;
  for (size_t i = 0; i < json_array_size(file->groups); i++) {
    const json_t *v = json_array_get(file->groups, i);
    if (strcmp(read_text(v, "group"), group) == 0)
      return has_rank(read_list(v, "ranks"), rank);
  }
  return false;
}

bool gli_traced_waits_for(const gli_traced *operation, int64_t rank) {
  return has_rank(operation->waits, rank);
}
