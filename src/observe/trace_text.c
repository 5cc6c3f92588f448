/* The text of a trace. docs/formats.md describes its fields; `gloo trace` reads
 * them. */
#include <inttypes.h>
#include <unistd.h>

#include "algorithms/registry.h"
#include "core/collective.h"
#include "core/json.h"
#include "core/text.h"
#include "gloo_c/version.h"
#include "observe/trace.h"

static const char *status_name(gloo_status status) {
  switch (status) {
#define STATUS_NAME(name, value, text) \
  case name:                           \
    return #name;
    GLOO_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
  }
  return "unknown";
}

static const char *state_name(gli_snap_state state) {
  switch (state) {
    case GLI_SNAP_SCHEDULED:
      return "scheduled";
    case GLI_SNAP_STARTED:
      return "started";
    case GLI_SNAP_COMPLETED:
      return "completed";
    case GLI_SNAP_FAILED:
      break;
  }
  return "failed";
}

/* Prints the name of a group, "0.2": its first rank, and that rank's number of
 * it; or "world". */
static void trace_print_group(gli_json *json, gli_snap_name context) {
  char name[32] = "world";
  if (context.number != 0)
    snprintf(name, sizeof name, "%u.%u", (unsigned)context.first,
             (unsigned)context.number);
  gli_json_text(json, "group", name);
}

static void trace_print_ranks(gli_json *json, const char *key,
                              const uint32_t *ranks, size_t n) {
  gli_json_begin(json, key, '[');
  for (size_t i = 0; i < n; i++) gli_json_integer(json, NULL, ranks[i]);
  gli_json_end(json, ']');
}

static const char *call_name(const gli_snap_entry *e) {
  if (e->collective >= GLI_COLLECTIVES) return "group";
  if (e->collective != GLI_SENDRECV) return gli_collective_name(e->collective);
  return e->receives ? "receive" : "send";
}

static void trace_print_call(gli_json *json, const gli_snap_entry *e) {
  bool message = e->collective == GLI_SENDRECV;
  gli_json_text(json, "call", call_name(e));
  if (e->collective >= GLI_COLLECTIVES) return;
  trace_print_group(json, e->context);
  gli_json_integer(json, "tag", e->tag);
  if (e->request >= 0) gli_json_integer(json, "request", (uint64_t)e->request);
  gli_json_integer(json, "sequence", e->sequence);
  if (!message)
    gli_json_text(json, "algorithm", gli_algorithm_name(e->algorithm));
  if (e->peer >= 0)
    gli_json_integer(json, message ? "peer" : "last", (uint64_t)e->peer);
  if (e->collective == GLI_BARRIER) return;
  gli_json_integer(json, "count", e->count);
  gli_json_integer(json, "bytes", e->bytes);
  gli_json_text(json, "dtype", gloo_dtype_name(e->dtype));
  if (gli_collective_reduces(e->collective)) {
    gli_json_text(json, "op", gloo_op_name(e->op));
    gli_json_bool(json, "ordered", e->ordered);
  }
  if (gli_collective_rooted(e->collective))
    gli_json_integer(json, "root", e->root);
}

static void trace_print_entry(gli_json *json, const gli_snapshot *s,
                              const gli_snap_entry *e) {
  bool over = e->state >= GLI_SNAP_COMPLETED;
  gli_json_line(json);
  gli_json_begin(json, NULL, '{');
  trace_print_call(json, e);
  gli_json_text(json, "state", state_name(e->state));
  if (e->state == GLI_SNAP_FAILED)
    gli_json_text(json, "status", status_name(e->status));
  gli_json_integer(json, "started_ns", e->started_ns);
  if (over) gli_json_integer(json, "ended_ns", e->ended_ns);
  if (!over)
    trace_print_ranks(json, "waits_for", s->ranks + e->waits_at, e->n_waits);
  gli_json_end(json, '}');
}

static void trace_print_error(gli_json *json, const gloo_error *cause) {
  if (cause->status == GLOO_OK) return;
  char message[GLOO_ERROR_MESSAGE_BYTES];
  snprintf(message, sizeof message, "%s", cause->message);
  gli_make_printable(message);
  gli_json_line(json);
  gli_json_begin(json, "error", '{');
  gli_json_text(json, "status", status_name(cause->status));
  if (cause->root_rank >= 0)
    gli_json_integer(json, "rank", (uint64_t)cause->root_rank);
  gli_json_text(json, "message", message);
  gli_json_end(json, '}');
}

static void trace_print_head(gli_json *json, const gli_snapshot *s,
                             const char *reason) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  gli_make_printable(host);
  gli_json_integer(json, "gloo_trace", 1);
  gli_json_text(json, "library", gloo_version());
  gli_json_text(json, "reason", reason);
  if (s->mark != 0) {
    char job[17];
    snprintf(job, sizeof job, "%012" PRIx64, s->mark);
    gli_json_text(json, "job", job);
  }
  gli_json_integer(json, "rank", s->rank);
  gli_json_integer(json, "size", s->size);
  gli_json_text(json, "host", host);
  gli_json_integer(json, "process", (uint64_t)getpid());
  gli_json_text(json, "transport", s->transport);
  gli_json_integer(json, "wall_ns", s->now.wall_ns);
  gli_json_integer(json, "monotonic_ns", s->now.monotonic_ns);
  gli_json_integer(json, "ended", s->ended);
  trace_print_error(json, &s->cause);
}

void gli_trace_print(FILE *to, const gli_snapshot *s, const char *reason) {
  gli_json json;
  gli_json_open(&json, to);
  trace_print_head(&json, s, reason);
  gli_json_line(&json);
  gli_json_begin(&json, "groups", '[');
  for (size_t i = 0; i < s->n_groups; i++) {
    const gli_snap_group *g = &s->groups[i];
    gli_json_begin(&json, NULL, '{');
    trace_print_group(&json, g->name);
    trace_print_ranks(&json, "ranks", s->ranks + g->ranks_at, g->n_ranks);
    gli_json_end(&json, '}');
  }
  gli_json_end(&json, ']');
  gli_json_line(&json);
  gli_json_begin(&json, "routes", '[');
  for (size_t i = 0; i < s->n_routes; i++) {
    gli_json_begin(&json, NULL, '{');
    gli_json_integer(&json, "rank", s->routes[i].rank);
    gli_json_text(&json, "through", s->routes[i].way);
    gli_json_end(&json, '}');
  }
  gli_json_end(&json, ']');
  gli_json_line(&json);
  gli_json_begin(&json, "operations", '[');
  for (size_t i = 0; i < s->n_entries; i++)
    trace_print_entry(&json, s, &s->entries[i]);
  gli_json_end(&json, ']');
  gli_json_close(&json);
}
