#include "observe/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algorithms/registry.h"
#include "core/collective.h"
#include "core/error.h"
#include "engine/engine.h"
#include "kernels/custom_op.h"
#include "observe/text_out.h"

/* Label values of gloo_kept_bytes, in the order of gli_kept. */
static const char *const kept_parts[] = {"plans", "operations", "scratch"};

static const char figures_copy[] = "a copy of a context's figures";

static gloo_status metrics_check(const char *function,
                                 const gloo_context *context, const void *place,
                                 gloo_error *error) {
  if (context == NULL || place == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `%s` must not be NULL",
                    function, context == NULL ? "context" : "totals");
  if (gli_custom_op_inside()) return gli_custom_op_refuse(function, error);
  gloo_status status = gli_context_usable(context, error);
  return status == GLOO_ERR_FORKED ? status : GLOO_OK;
}

static gloo_status metrics_no_memory(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for %s",
                  figures_copy);
}

/* ---- calls --------------------------------------------------------------- */

static gloo_call_totals metrics_call(const gli_figures *f, size_t kind) {
  const gli_call_total *t = &f->totals->calls[kind];
  gloo_call_totals c = {.calls = t->calls,
                        .bytes = t->bytes,
                        .nanoseconds = gli_figures_ns(f, t->ticks)};
  c.call = gli_collective_name((gli_collective)t->collective);
  c.algorithm = "";
  if (kind < GLI_TOTAL_MESSAGES)
    c.algorithm = gli_algorithm_name((uint8_t)kind);
  else
    c.call = kind == GLI_TOTAL_MESSAGES ? "send" : "receive";
  return c;
}

gloo_status gloo_context_call_totals(gloo_context *context,
                                     gloo_call_totals *totals, size_t room,
                                     size_t *n, gloo_error *error) {
  gloo_error unread;
  gli_figures figures;
  if (error == NULL) error = &unread;
  static const char name[] = "gloo_context_call_totals";
  if (n == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `n` must not be NULL",
                    name);
  const void *place = room > 0 ? (const void *)totals : n;
  gloo_status status = metrics_check(name, context, place, error);
  if (status != GLOO_OK) return status;
  if (!gli_context_figures(context, &figures)) return metrics_no_memory(error);
  size_t found = 0;
  for (size_t kind = 0; kind < GLI_TOTAL_KINDS; kind++) {
    if (figures.totals->calls[kind].calls == 0) continue;
    if (found < room) totals[found] = metrics_call(&figures, kind);
    found++;
  }
  *n = found;
  free(figures.totals);
  return GLOO_OK;
}

/* ---- ranks --------------------------------------------------------------- */

static gloo_peer_totals metrics_peer(const gli_figures *f, uint32_t rank) {
  const gli_peer_total *t = &f->totals->peers[rank];
  return (gloo_peer_totals){
      .messages_sent = t->messages_sent,
      .bytes_sent = t->bytes_sent,
      .messages_received = t->messages_received,
      .bytes_received = t->bytes_received,
      .late = t->late,
      .late_nanoseconds = gli_figures_ns(f, t->late_ticks)};
}

gloo_status gloo_context_peer_totals(gloo_context *context, int peer,
                                     gloo_peer_totals *totals,
                                     gloo_error *error) {
  static const char name[] = "gloo_context_peer_totals";
  gloo_error unread;
  gli_figures figures;
  if (error == NULL) error = &unread;
  gloo_status status = metrics_check(name, context, totals, error);
  if (status != GLOO_OK) return status;
  if (peer < 0 || peer >= gloo_context_size(context))
    return gli_fail(error, GLOO_ERR_RANK, -1,
                    "%s: %d is not a rank; ranks are 0 to %d", name, peer,
                    gloo_context_size(context) - 1);
  if (!gli_context_figures(context, &figures)) return metrics_no_memory(error);
  *totals =
      metrics_peer(&figures, gli_context_root_rank(context, (uint32_t)peer));
  free(figures.totals);
  return GLOO_OK;
}

/* ---- text ---------------------------------------------------------------- */

static void print_family(FILE *to, const char *name, const char *help) {
  fprintf(to, "# TYPE gloo_%s counter\n# HELP gloo_%s %s\n", name, name, help);
}

static void print_count(FILE *to, uint64_t value) {
  fprintf(to, " %" PRIu64 "\n", value);
}

static void print_seconds(FILE *to, uint64_t ns) {
  fprintf(to, " %" PRIu64 ".%09u\n", ns / 1000000000,
          (unsigned)(ns % 1000000000));
}

typedef enum metrics_field {
  FIELD_CALLS,
  FIELD_BYTES,
  FIELD_TIME
} metrics_field;

static void print_calls(FILE *to, const gli_figures *f, metrics_field field) {
  static const char *const names[] = {"calls", "call_bytes", "call_seconds"};
  static const char *const helps[] = {
      "Operations that completed.",
      "Bytes of their longest buffers on this rank.",
      "Time from their start to their end."};
  print_family(to, names[field], helps[field]);
  for (size_t kind = 0; kind < GLI_TOTAL_KINDS; kind++) {
    if (f->totals->calls[kind].calls == 0) continue;
    gloo_call_totals c = metrics_call(f, kind);
    fprintf(to, "gloo_%s_total{rank=\"%u\",call=\"%s\",algorithm=\"%s\"}",
            names[field], (unsigned)f->rank, c.call, c.algorithm);
    if (field == FIELD_TIME)
      print_seconds(to, c.nanoseconds);
    else
      print_count(to, field == FIELD_CALLS ? c.calls : c.bytes);
  }
}

/* Fills the values of a peer, in the order of the names below. */
enum { PEER_FIELDS = 6, PEER_TIME = 5 };
static void peer_values(const gloo_peer_totals *t, uint64_t of[PEER_FIELDS]) {
  const uint64_t values[PEER_FIELDS] = {
      t->messages_sent,  t->bytes_sent, t->messages_received,
      t->bytes_received, t->late,       t->late_nanoseconds};
  memcpy(of, values, sizeof values);
}

static void print_peers(FILE *to, const gli_figures *f, int field) {
  static const char *const names[PEER_FIELDS] = {
      "messages_sent",  "bytes_sent", "messages_received",
      "bytes_received", "late",       "late_seconds"};
  static const char *const helps[PEER_FIELDS] = {
      "Messages to that rank.",
      "Bytes to that rank.",
      "Messages from that rank.",
      "Bytes from that rank.",
      "Collectives that waited for that rank last.",
      "Duration of these waits."};
  print_family(to, names[field], helps[field]);
  for (uint32_t rank = 0; rank < f->size; rank++) {
    uint64_t values[PEER_FIELDS];
    gloo_peer_totals t = metrics_peer(f, rank);
    peer_values(&t, values);
    if (values[field] == 0) continue;
    fprintf(to, "gloo_%s_total{rank=\"%u\",peer=\"%u\"}", names[field],
            (unsigned)f->rank, (unsigned)rank);
    if (field == PEER_TIME)
      print_seconds(to, values[field]);
    else
      print_count(to, values[field]);
  }
}

static void print_state(FILE *to, const gli_figures *f) {
  fprintf(to,
          "# TYPE gloo_rank info\n# HELP gloo_rank Which rank this is.\n"
          "gloo_rank_info{rank=\"%u\",size=\"%u\",process=\"%ld\","
          "transport=\"%s\",job=\"%012" PRIx64 "\"} 1\n",
          (unsigned)f->rank, (unsigned)f->size, (long)getpid(), f->transport,
          f->mark);
  fprintf(to,
          "# TYPE gloo_running gauge\n"
          "# HELP gloo_running Operations in progress.\n"
          "gloo_running{rank=\"%u\"} %zu\n",
          (unsigned)f->rank, f->running);
  fprintf(to,
          "# TYPE gloo_context_failed gauge\n"
          "# HELP gloo_context_failed 1 if the context has failed.\n"
          "gloo_context_failed{rank=\"%u\"} %d\n",
          (unsigned)f->rank, f->has_failed);
  fprintf(to,
          "# TYPE gloo_kept_bytes gauge\n# UNIT gloo_kept_bytes bytes\n"
          "# HELP gloo_kept_bytes Memory kept for later calls.\n");
  const uint64_t kept[] = {f->kept.plans, f->kept.operations, f->kept.scratch};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    fprintf(to, "gloo_kept_bytes{rank=\"%u\",part=\"%s\"}", (unsigned)f->rank,
            kept_parts[i]);
    print_count(to, kept[i]);
  }
  print_family(to, "failed", "Operations that failed.");
  fprintf(to, "gloo_failed_total{rank=\"%u\"}", (unsigned)f->rank);
  print_count(to, f->totals->failed);
}

bool gli_metrics_print(FILE *to, gloo_context *context) {
  gli_figures figures;
  if (!gli_context_figures(context, &figures)) return false;
  print_state(to, &figures);
  print_calls(to, &figures, FIELD_CALLS);
  print_calls(to, &figures, FIELD_BYTES);
  print_calls(to, &figures, FIELD_TIME);
  for (int field = 0; field < PEER_FIELDS; field++)
    print_peers(to, &figures, field);
  fprintf(to, "# EOF\n");
  free(figures.totals);
  return true;
}

static bool metrics_print_all(FILE *to, void *context) {
  return gli_metrics_print(to, context);
}

gloo_status gloo_context_trim(gloo_context *context, gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_status status =
      metrics_check("gloo_context_trim", context, error, error);
  if (status == GLOO_OK) gli_context_trim(context);
  return status;
}

gloo_status gloo_context_metrics(gloo_context *context, gloo_trace_fn write,
                                 void *user, gloo_error *error) {
  static const char name[] = "gloo_context_metrics";
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (write == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `write` must not be NULL",
                    name);
  gloo_status status = metrics_check(name, context, name, error);
  if (status != GLOO_OK) return status;
  size_t bytes = 0;
  char *text = gli_text_print(metrics_print_all, context, &bytes);
  return gli_text_hand_over(name, figures_copy, text, bytes, write, user,
                            error);
}
