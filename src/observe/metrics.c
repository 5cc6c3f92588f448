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

static void print_family(FILE *to, const char *type, const char *name,
                         const char *help) {
  fprintf(to, "# HELP gloo_%s %s\n# TYPE gloo_%s %s\n", name, help, name, type);
}

/* A counter: a field of gloo_call_totals or gloo_peer_totals. */
typedef struct metrics_field {
  size_t at;
  const char *name, *help;
} metrics_field;

#define OF_CALL(field) offsetof(gloo_call_totals, field)
#define OF_PEER(field) offsetof(gloo_peer_totals, field)
static const metrics_field call_fields[] = {
    {OF_CALL(calls), "calls_total", "Operations that completed."},
    {OF_CALL(bytes), "call_bytes_total",
     "Bytes of their longest buffers on this rank."},
    {OF_CALL(nanoseconds), "call_seconds_total",
     "Time from their start to their end."},
};
static const metrics_field peer_fields[] = {
    {OF_PEER(messages_sent), "messages_sent_total", "Messages to that rank."},
    {OF_PEER(bytes_sent), "bytes_sent_total", "Bytes to that rank."},
    {OF_PEER(messages_received), "messages_received_total",
     "Messages from that rank."},
    {OF_PEER(bytes_received), "bytes_received_total", "Bytes from that rank."},
    {OF_PEER(late), "late_total",
     "Collectives that waited for that rank last."},
    {OF_PEER(late_nanoseconds), "late_seconds_total",
     "Duration of these waits."},
};
enum {
  CALL_FIELDS = sizeof call_fields / sizeof *call_fields,
  PEER_FIELDS = sizeof peer_fields / sizeof *peer_fields
};

static uint64_t field_value(const void *totals, const metrics_field *field) {
  uint64_t value;
  memcpy(&value, (const char *)totals + field->at, sizeof value);
  return value;
}

static void print_field(FILE *to, const metrics_field *field, uint64_t value) {
  if (strstr(field->name, "seconds") != NULL)
    fprintf(to, " %" PRIu64 ".%09u\n", value / 1000000000,
            (unsigned)(value % 1000000000));
  else
    fprintf(to, " %" PRIu64 "\n", value);
}

static void print_calls(FILE *to, const gli_figures *f,
                        const metrics_field *field) {
  print_family(to, "counter", field->name, field->help);
  for (size_t kind = 0; kind < GLI_TOTAL_KINDS; kind++) {
    if (f->totals->calls[kind].calls == 0) continue;
    gloo_call_totals c = metrics_call(f, kind);
    fprintf(to, "gloo_%s{rank=\"%u\",call=\"%s\",algorithm=\"%s\"}",
            field->name, (unsigned)f->rank, c.call, c.algorithm);
    print_field(to, field, field_value(&c, field));
  }
}

static void print_peers(FILE *to, const gli_figures *f,
                        const metrics_field *field) {
  print_family(to, "counter", field->name, field->help);
  for (uint32_t rank = 0; rank < f->size; rank++) {
    gloo_peer_totals t = metrics_peer(f, rank);
    uint64_t value = field_value(&t, field);
    if (value == 0) continue;
    fprintf(to, "gloo_%s{rank=\"%u\",peer=\"%u\"}", field->name,
            (unsigned)f->rank, (unsigned)rank);
    print_field(to, field, value);
  }
}

static void print_state(FILE *to, const gli_figures *f) {
  const unsigned rank = f->rank;
  print_family(to, "gauge", "rank_info", "Which rank this is.");
  fprintf(to,
          "gloo_rank_info{rank=\"%u\",size=\"%u\",process=\"%ld\","
          "transport=\"%s\",job=\"%012" PRIx64 "\"} 1\n",
          rank, (unsigned)f->size, (long)getpid(), f->transport, f->mark);
  print_family(to, "gauge", "running", "Operations in progress.");
  fprintf(to, "gloo_running{rank=\"%u\"} %zu\n", rank, f->running);
  print_family(to, "gauge", "context_failed", "1 if the context has failed.");
  fprintf(to, "gloo_context_failed{rank=\"%u\"} %d\n", rank, f->has_failed);
  print_family(to, "gauge", "kept_bytes", "Memory kept for later calls.");
  const uint64_t kept[] = {f->kept.plans, f->kept.operations, f->kept.scratch};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    fprintf(to, "gloo_kept_bytes{rank=\"%u\",part=\"%s\"} %" PRIu64 "\n", rank,
            kept_parts[i], kept[i]);
  print_family(to, "counter", "failed_total", "Operations that failed.");
  fprintf(to, "gloo_failed_total{rank=\"%u\"} %" PRIu64 "\n", rank,
          f->totals->failed);
}

/* Prints the messages of the start and of the creation of groups. */
static void print_internal(FILE *to, const gli_figures *f) {
  const gli_peer_total *t = &f->totals->internal;
  static const char lines[] =
      "gloo_internal_%s_total{rank=\"%u\",direction=\"sent\"} %" PRIu64
      "\n"
      "gloo_internal_%s_total{rank=\"%u\",direction=\"received\"} %" PRIu64
      "\n";
  print_family(to, "counter", "internal_messages_total",
               "Messages of the start and of the creation of groups.");
  fprintf(to, lines, "messages", f->rank, t->messages_sent, "messages", f->rank,
          t->messages_received);
  print_family(to, "counter", "internal_bytes_total",
               "Bytes of these messages.");
  fprintf(to, lines, "bytes", f->rank, t->bytes_sent, "bytes", f->rank,
          t->bytes_received);
}

bool gli_metrics_print(FILE *to, gloo_context *context) {
  gli_figures figures;
  if (!gli_context_figures(context, &figures)) return false;
  print_state(to, &figures);
  for (int i = 0; i < CALL_FIELDS; i++)
    print_calls(to, &figures, &call_fields[i]);
  for (int i = 0; i < PEER_FIELDS; i++)
    print_peers(to, &figures, &peer_fields[i]);
  print_internal(to, &figures);
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
