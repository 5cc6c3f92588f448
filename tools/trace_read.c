#include "tools/trace_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1 << 30)
enum { RANKS_MAX = 65536 };
/* A bound that keeps sums of times from overflowing. */
#define TIME_MAX (INT64_MAX / 3)

/* ---- fields -------------------------------------------------------------- */

static int64_t read_integer(const gli_json_value *object, const char *key) {
  const gli_json_value *v = gli_json_get(object, key, GLI_JSON_INTEGER);
  return v != NULL ? (int64_t)v->integer : -1;
}

static const char *read_text(const gli_json_value *object, const char *key) {
  const gli_json_value *v = gli_json_get(object, key, GLI_JSON_TEXT);
  return v != NULL ? v->text : "";
}

static bool read_state(const gli_json_value *object, gli_traced_state *state) {
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

static bool are_ranks(const gli_json_value *list, int64_t size) {
  const gli_json_value *v = list != NULL ? list->first : NULL;
  while (v != NULL && v->kind == GLI_JSON_INTEGER && (int64_t)v->integer < size)
    v = v->next;
  return v == NULL;
}

/* Returns an error, or NULL. `shift_ns` is the difference between its times and
 * times since 1970. */
static const char *read_operation(const gli_json_value *v, int64_t size,
                                  int64_t now_ns, int64_t shift_ns,
                                  gli_traced *o) {
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
      .waits = gli_json_get(v, "waits_for", GLI_JSON_LIST),
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

static const char *read_operations(gli_trace_file *f,
                                   const gli_json_value *list,
                                   int64_t shift_ns) {
  size_t n = 0;
  for (const gli_json_value *v = list->first; v != NULL; v = v->next) n++;
  f->operations = calloc(n + 1, sizeof *f->operations);
  if (f->operations == NULL) return "out of memory";
  for (const gli_json_value *v = list->first; v != NULL; v = v->next) {
    const char *wrong = read_operation(v, f->size, f->now_ns, shift_ns,
                                       &f->operations[f->n_operations]);
    if (wrong != NULL) return wrong;
    f->n_operations++;
  }
  return NULL;
}

/* ---- the file ------------------------------------------------------------ */

static const char *read_groups(const gli_trace_file *f) {
  const gli_json_value *v = f->groups != NULL ? f->groups->first : NULL;
  for (; v != NULL; v = v->next) {
    if (!are_ranks(gli_json_get(v, "ranks", GLI_JSON_LIST), f->size))
      return "a group with a rank that does not exist";
  }
  return NULL;
}

static const char *read_head(gli_trace_file *f, const gli_json_value *root,
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
  const gli_json_value *error = gli_json_get(root, "error", GLI_JSON_OBJECT);
  f->error = error != NULL ? read_text(error, "message") : NULL;
  f->error_rank = read_integer(error, "rank");
  f->groups = gli_json_get(root, "groups", GLI_JSON_LIST);
  return read_groups(f);
}

static const char *read_file(gli_trace_file *f) {
  const gli_json_value *root = gli_json_root(f->tree);
  int64_t shift_ns = 0;
  const char *wrong = read_head(f, root, &shift_ns);
  if (wrong != NULL) return wrong;
  const gli_json_value *list = gli_json_get(root, "operations", GLI_JSON_LIST);
  if (list == NULL) return "\"operations\" is missing";
  return read_operations(f, list, shift_ns);
}

bool gli_trace_parse(gli_trace_file *file, const char *path, char *text,
                     size_t bytes, char why[GLI_TRACE_WHY_BYTES]) {
  char at[GLI_JSON_WHY_BYTES];
  *file = (gli_trace_file){.path = path, .text = text};
  file->tree = gli_json_parse(text, bytes, at);
  const char *wrong = file->tree != NULL ? read_file(file) : at;
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
  gli_json_tree_free(file->tree);
  free(file->text);
  *file = (gli_trace_file){.path = NULL};
}

/* ---- asking -------------------------------------------------------------- */

static bool has_rank(const gli_json_value *list, int64_t rank) {
  const gli_json_value *v = list != NULL ? list->first : NULL;
  while (v != NULL && (int64_t)v->integer != rank) v = v->next;
  return v != NULL;
}

bool gli_trace_in_group(const gli_trace_file *file, const char *group,
                        int64_t rank) {
  if (strcmp(group, "world") == 0) return rank < file->size;
  const gli_json_value *v = file->groups != NULL ? file->groups->first : NULL;
  for (; v != NULL; v = v->next) {
    if (strcmp(read_text(v, "group"), group) == 0)
      return has_rank(gli_json_get(v, "ranks", GLI_JSON_LIST), rank);
  }
  return false;
}

bool gli_traced_waits_for(const gli_traced *operation, int64_t rank) {
  return has_rank(operation->waits, rank);
}
