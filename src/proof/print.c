/* Prints plans in readable form. */
#include "proof/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const buffers[GLI_BUFFERS] = {
    "IN", "INS", "OUT", "SCRATCH", "TOKEN", "WINDOW", "OUTS"};
static const char *const kinds[GLI_STEP_KINDS] = {
    "SEND",         "RECV",        "RECV_REDUCE", "COPY",
    "COPY_GET",     "REDUCE",      "REDUCE_ALL",  "REDUCE_MANY",
    "LOCAL_REDUCE", "LOCAL_BCAST", "COPY_IN",     "COPY_OUT"};
static const char *const sends[GLI_ROLES] = {"SEND", "EXPOSE_GET", "EXPOSE_PUT",
                                             "PUT", "SIGNAL"};
static const char *const recvs[GLI_ROLES] = {"RECV", "RECV_GET", "RECV_WINDOW",
                                             "RECV_PUT", "AWAIT"};

/* ---- ranges -------------------------------------------------------------- */

#define RANGE_BYTES 64

/* Prints whole elements, or else bytes: "OUT[3B..7B)". */
static const char *print_range(const gli_plan_params *p, uint8_t buffer,
                               uint64_t offset, uint64_t bytes,
                               char text[RANGE_BYTES]) {
  uint64_t each = buffer == GLI_TOKEN ? 1 : p->elem_bytes;
  const char *name = buffer < GLI_BUFFERS ? buffers[buffer] : "?";
  if (offset % each == 0 && bytes % each == 0) {
    snprintf(text, RANGE_BYTES, "%s[%" PRIu64 "..%" PRIu64 ")", name,
             offset / each, (offset + bytes) / each);
  } else {
    snprintf(text, RANGE_BYTES, "%s[%" PRIu64 "B..%" PRIu64 "B)", name, offset,
             offset + bytes);
  }
  return text;
}

/* Prints "get 3" or "gets 3-5". */
static const char *print_windows(const char *what, uint32_t first, uint32_t n,
                                 char text[RANGE_BYTES]) {
  if (n == 1) {
    snprintf(text, RANGE_BYTES, "%s %u", what, first);
  } else {
    snprintf(text, RANGE_BYTES, "%ss %u-%u", what, first, first + n - 1);
  }
  return text;
}

static void print_send(const gli_step *s, const char *a, char *text,
                       size_t bytes) {
  if (s->role == GLI_ROLE_PUT) {
    snprintf(text, bytes, "put %u = %s", s->window, a);
  } else {
    snprintf(text, bytes, "%s", a);
  }
}

static void print_recv(const gli_step *s, const char *dst, char *text,
                       size_t bytes) {
  if (s->role == GLI_ROLE_EXPOSE_GET) {
    snprintf(text, bytes, "get %u or %s", s->window, dst);
  } else if (s->role == GLI_ROLE_EXPOSE_PUT) {
    snprintf(text, bytes, "put %u, %" PRIu64 " bytes", s->window, s->bytes);
  } else {
    snprintf(text, bytes, "%s", dst);
  }
}

static void print_puts(const gli_step *s, char *text, size_t bytes) {
  char puts[RANGE_BYTES];
  if (s->n_puts == 0) return;
  size_t used = strlen(text);
  snprintf(text + used, bytes - used, "; %s too",
           print_windows("put", s->put, s->n_puts, puts));
}

static void print_reduce_all(const gli_step *s, const char *a, const char *dst,
                             char *text, size_t bytes) {
  char left[RANGE_BYTES], right[RANGE_BYTES];
  uint32_t after = s->n - s->own;
  print_windows("get", s->window, s->own, left);
  print_windows("get", s->window + s->own, after, right);
  snprintf(text, bytes, "%s = %s%s%s%s%s", dst, s->own > 0 ? left : "",
           s->own > 0 ? " op " : "", a, after > 0 ? " op " : "",
           after > 0 ? right : "");
}

static void print_local_reduce(const gli_step *s, const char *a,
                               const char *dst, char *text, size_t bytes) {
  if (s->n == 1) {
    snprintf(text, bytes, "%s = input %u of %s", dst, s->own, a);
  } else {
    snprintf(text, bytes, "%s = inputs %u-%u of %s", dst, s->own,
             s->own + s->n - 1, a);
  }
}

/* Prints "SCRATCH[0..4) and 3 more, 8B apart". */
static void print_blocks(const gli_plan_params *p, const gli_step *s,
                         uint32_t from, uint32_t n, char *text, size_t bytes) {
  char first[RANGE_BYTES];
  print_range(p, s->b_buffer, s->b + from * s->stride, s->bytes, first);
  if (n < 2) {
    snprintf(text, bytes, "%s", n == 0 ? "" : first);
  } else {
    snprintf(text, bytes, "%s and %u more, %" PRIu64 "B apart", first, n - 1,
             s->stride);
  }
}

static void print_reduce_many(const gli_plan_params *p, const gli_step *s,
                              const char *a, const char *dst, char *text,
                              size_t bytes) {
  char left[2 * RANGE_BYTES], right[2 * RANGE_BYTES];
  uint32_t after = s->n - s->own;
  print_blocks(p, s, 0, s->own, left, sizeof left);
  print_blocks(p, s, s->own, after, right, sizeof right);
  snprintf(text, bytes, "%s = %s%s%s%s%s", dst, left, s->own > 0 ? " op " : "",
           a, after > 0 ? " op " : "", right);
}

#define RANGES_BYTES (8 * RANGE_BYTES)

static void print_ranges(const gli_plan_params *p, const gli_step *s,
                         char text[RANGES_BYTES]) {
  char a[RANGE_BYTES], b[RANGE_BYTES], dst[RANGE_BYTES];
  print_range(p, s->a_buffer, s->a, s->bytes, a);
  print_range(p, s->b_buffer, s->b, s->bytes, b);
  print_range(p, s->dst_buffer, s->dst, s->bytes, dst);
  switch (s->kind) {
    case GLI_STEP_SEND:
      print_send(s, a, text, RANGES_BYTES);
      break;
    case GLI_STEP_RECV:
      print_recv(s, dst, text, RANGES_BYTES);
      break;
    case GLI_STEP_COPY:
      snprintf(text, RANGES_BYTES, "%s = %s", dst, a);
      break;
    case GLI_STEP_COPY_GET:
      snprintf(text, RANGES_BYTES, "%s = get %u", dst, s->window);
      break;
    case GLI_STEP_LOCAL_REDUCE:
      print_local_reduce(s, a, dst, text, RANGES_BYTES);
      break;
    case GLI_STEP_LOCAL_BCAST:
      snprintf(text, RANGES_BYTES, "%u more: %s = %s", s->n, dst, a);
      break;
    case GLI_STEP_REDUCE:
      snprintf(text, RANGES_BYTES, "%s = %s op %s", dst, a, b);
      break;
    case GLI_STEP_REDUCE_ALL:
      print_reduce_all(s, a, dst, text, RANGES_BYTES);
      break;
    case GLI_STEP_REDUCE_MANY:
      print_reduce_many(p, s, a, dst, text, RANGES_BYTES);
      break;
    case GLI_STEP_RECV_REDUCE:
      if (s->incoming_first) {
        snprintf(text, RANGES_BYTES, "%s = incoming op %s", dst, a);
      } else {
        snprintf(text, RANGES_BYTES, "%s = %s op incoming", dst, a);
      }
      break;
    default:
      snprintf(text, RANGES_BYTES, "?");
      break;
  }
  print_puts(s, text, RANGES_BYTES);
}

/* Returns the builder's name for the step. */
static const char *kind_name(const gli_step *s) {
  if (s->kind >= GLI_STEP_KINDS || s->role >= GLI_ROLES) return "?";
  if (s->kind == GLI_STEP_SEND) return sends[s->role];
  if (s->kind == GLI_STEP_RECV) return recvs[s->role];
  bool get = s->kind == GLI_STEP_RECV_REDUCE && s->role == GLI_ROLE_EXPOSE_GET;
  return get ? "REDUCE_GET" : kinds[s->kind];
}

void gli_print_step(const gli_plan_params *p, const gli_step *s,
                    uint32_t peer_rank, char *text, size_t bytes) {
  char ranges[RANGES_BYTES];
  print_ranges(p, s, ranges);
  if (s->peer == GLI_NO_PEER) {
    snprintf(text, bytes, "%s: %s", kind_name(s), ranges);
    return;
  }
  snprintf(text, bytes, "%s %s %u, slot %u: %s", kind_name(s),
           s->kind == GLI_STEP_SEND ? "to" : "from", peer_rank, s->slot,
           ranges);
}

/* ---- plans --------------------------------------------------------------- */

/* The steps that each step waits for: next[] reversed. */
typedef struct waits {
  uint32_t *first; /* [n + 1] */
  uint32_t *step;
} waits;

static bool find_waits(const gli_plan *plan, waits *w) {
  uint32_t n = plan->n_steps, edges = plan->next_first[n];
  w->first = calloc((size_t)n + 2, sizeof(uint32_t));
  w->step = calloc((size_t)edges + 1, sizeof(uint32_t));
  if (w->first == NULL || w->step == NULL) return false;
  for (uint32_t i = 0; i < edges; i++) w->first[plan->next[i] + 2]++;
  for (uint32_t i = 1; i <= n + 1; i++) w->first[i] += w->first[i - 1];
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t e = plan->next_first[i]; e < plan->next_first[i + 1]; e++) {
      w->step[w->first[plan->next[e] + 1]++] = i;
    }
  }
  return true;
}

static void print_head(const gli_plan *plan, FILE *out) {
  const gli_plan_params *p = &plan->params;
  fprintf(out, "%s: rank %u of %u", gli_collective_name(p->collective), p->rank,
          p->size);
  if (gli_collective_rooted(p->collective)) fprintf(out, ", root %u", p->root);
  fprintf(out, ", count %" PRIu64 ", %" PRIu64 " bytes each%s", p->count,
          p->elem_bytes, p->in_place ? ", in place" : "");
  if (p->n_in > 1) fprintf(out, ", %u inputs", p->n_in);
  if (p->n_out > 1) fprintf(out, ", %u outputs", p->n_out);
  fprintf(out, "\n");
  fprintf(out, "bytes: IN %" PRIu64 ", OUT %" PRIu64 ", SCRATCH %" PRIu64 "\n",
          p->in_place ? 0 : plan->in_bytes, plan->out_bytes,
          plan->scratch_bytes);
  for (uint32_t i = 0; i < plan->n_peers; i++) {
    const gli_plan_peer *peer = &plan->peers[i];
    fprintf(out,
            "peer %u: sends %u (%" PRIu64 " bytes), receives %u (%" PRIu64
            " bytes)\n",
            peer->rank, peer->sends, peer->send_bytes, peer->recvs,
            peer->recv_bytes);
  }
}

static void print_row(const gli_plan *plan, const waits *w, uint32_t i,
                      FILE *out) {
  const gli_step *s = &plan->steps[i];
  char ranges[RANGES_BYTES], peer[24] = "", slot[16] = "";
  print_ranges(&plan->params, s, ranges);
  if (s->peer != GLI_NO_PEER) {
    snprintf(peer, sizeof peer, "%s %u",
             s->kind == GLI_STEP_SEND ? "to" : "from",
             plan->peers[s->peer].rank);
    snprintf(slot, sizeof slot, "%u", s->slot);
  }
  fprintf(out, "%5u  %-11s  %-10s  %4s  %-45s ", i, kind_name(s), peer, slot,
          ranges);
  if (w->first[i] == w->first[i + 1]) fprintf(out, " -");
  for (uint32_t e = w->first[i]; e < w->first[i + 1]; e++) {
    fprintf(out, " %u", w->step[e]);
  }
  fprintf(out, "\n");
}

bool gli_print_plan(const gli_plan *plan, FILE *out) {
  waits w = {NULL, NULL};
  bool ok = find_waits(plan, &w);
  if (ok) {
    print_head(plan, out);
    fprintf(out, "\n%5s  %-11s  %-10s  %4s  %-45s  %s\n", "step", "what",
            "peer", "slot", "ranges (elements)", "waits for");
    for (uint32_t i = 0; i < plan->n_steps; i++) print_row(plan, &w, i, out);
  }
  free(w.first);
  free(w.step);
  return ok;
}
