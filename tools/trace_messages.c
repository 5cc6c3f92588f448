/* Messages in which one rank waits, and what the other end has done. */
#include <inttypes.h>
#include <string.h>

#include "tools/trace.h"

static bool is_other_end(const gli_traced *a, int64_t rank,
                         const gli_traced *b) {
  return b->message && b->receives != a->receives && b->peer == rank &&
         b->tag == a->tag && strcmp(a->group, b->group) == 0;
}

/* Returns the peer's last matching operation; NULL: none. *done is true if it
 * has completed this one. */
static const gli_traced *find_last(const gli_traced *o, int64_t rank,
                                   const gli_trace_file *peer, bool *done) {
  const gli_traced *last = NULL;
  *done = false;
  for (size_t i = 0; i < peer->n_operations; i++) {
    const gli_traced *p = &peer->operations[i];
    if (!is_other_end(o, rank, p)) continue;
    if (p->sequence >= o->sequence) *done = true;
    if (last == NULL || p->sequence > last->sequence) last = p;
  }
  return last;
}

static size_t compare_message(FILE *to, const gli_traces *traces, int64_t rank,
                              const gli_traced *o) {
  char words[GLI_TRACE_WORDS_BYTES], where[GLI_TRACE_WORDS_BYTES];
  char absence[GLI_TRACE_ABSENCE_BYTES];
  const gli_trace_file *peer = gli_traces_of(traces, o->peer);
  const gli_traced *last = NULL;
  bool done = false;
  if (peer != NULL) last = find_last(o, rank, peer, &done);
  if (done) return 0; /* it is in flight */
  fprintf(to, "rank %" PRId64 " waits for rank %" PRId64 " in %s%s", rank,
          o->peer, gli_traced_words(o, words), gli_traced_where(o, where));
  const char *verb = o->receives ? "sent" : "received";
  if (peer == NULL)
    fprintf(to, ", which %s\n", gli_traces_absence(traces, o->peer, absence));
  else if (last != NULL)
    fprintf(to, ", which has %s no more than #%" PRId64 "\n", verb,
            last->sequence);
  else
    fprintf(to, ", which has not %s it%s\n", verb,
            peer->ended > (int64_t)peer->n_operations
                ? ", as far as its trace reaches"
                : "");
  return 1;
}

size_t gli_trace_compare_messages(const gli_traces *traces, FILE *to) {
  size_t found = 0;
  for (size_t f = 0; f < traces->n; f++) {
    const gli_trace_file *file = &traces->files[f];
    for (size_t i = 0; i < file->n_operations; i++) {
      const gli_traced *o = &file->operations[i];
      if (!o->message || o->state >= GLI_TRACED_COMPLETED || o->peer < 0)
        continue;
      found += compare_message(to, traces, file->rank, o);
    }
  }
  return found;
}
