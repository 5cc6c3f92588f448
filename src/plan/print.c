/* Plans for people to read. */
#include "plan/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const buffers[GLI_BUFFERS] = {"IN", "OUT", "SCRATCH",
                                                 "TOKEN"};
static const char *const kinds[GLI_STEP_KINDS] = {"SEND", "RECV", "RECV_REDUCE",
                                                  "COPY", "REDUCE"};

/* ---- ranges ------------------------------------------------------------- */

#define RANGE_BYTES 64

/* In elements where it falls on them, else in bytes: "OUT[3B..7B)". */
static const char *range(const gli_plan_params *p, uint8_t buffer,
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

static void print_ranges(const gli_plan_params *p, const gli_step *s,
                         char *text, size_t bytes) {
  char a[RANGE_BYTES], b[RANGE_BYTES], dst[RANGE_BYTES];
  range(p, s->a_buffer, s->a, s->bytes, a);
  range(p, s->b_buffer, s->b, s->bytes, b);
  range(p, s->dst_buffer, s->dst, s->bytes, dst);
  switch (s->kind) {
    case GLI_STEP_SEND:
      snprintf(text, bytes, "%s", a);
      break;
    case GLI_STEP_RECV:
      snprintf(text, bytes, "%s", dst);
      break;
    case GLI_STEP_COPY:
      snprintf(text, bytes, "%s = %s", dst, a);
      break;
    case GLI_STEP_REDUCE:
      snprintf(text, bytes, "%s = %s op %s", dst, a, b);
      break;
    case GLI_STEP_RECV_REDUCE:
      if (s->incoming_left) {
        snprintf(text, bytes, "%s = incoming op %s", dst, a);
      } else {
        snprintf(text, bytes, "%s = %s op incoming", dst, a);
      }
      break;
    default:
      snprintf(text, bytes, "?");
      break;
  }
}

static const char *kind_name(const gli_step *s) {
  return s->kind < GLI_STEP_KINDS ? kinds[s->kind] : "?";
}

void gli_print_step(const gli_plan_params *p, const gli_step *s,
                    uint32_t peer_rank, char *text, size_t bytes) {
  char ranges[3 * RANGE_BYTES + 16];
  print_ranges(p, s, ranges, sizeof(ranges));
  if (s->peer == GLI_NO_PEER) {
    snprintf(text, bytes, "%s: %s", kind_name(s), ranges);
    return;
  }
  snprintf(text, bytes, "%s %s %u, slot %u: %s", kind_name(s),
           s->kind == GLI_STEP_SEND ? "to" : "from", peer_rank, s->slot,
           ranges);
}

/* ---- plans -------------------------------------------------------------- */

/* For each step the steps that it waits for: next[] the other way round. */
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
  fprintf(out, ", count %" PRIu64 ", %" PRIu64 " bytes each%s\n", p->count,
          p->elem_bytes, p->in_place ? ", in place" : "");
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
  char ranges[3 * RANGE_BYTES + 16], peer[24] = "", slot[16] = "";
  print_ranges(&plan->params, s, ranges, sizeof(ranges));
  if (s->peer != GLI_NO_PEER) {
    snprintf(peer, sizeof(peer), "%s %u",
             s->kind == GLI_STEP_SEND ? "to" : "from",
             plan->peers[s->peer].rank);
    snprintf(slot, sizeof(slot), "%u", s->slot);
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
