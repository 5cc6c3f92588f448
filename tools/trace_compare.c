/* Compares the collectives of all ranks. Calls with the same context, tag and
 * persistent request are numbered: the n-th must be the same call on all ranks.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace.h"

/* A call of a rank. */
typedef struct compared {
  const gli_traced *o;
  size_t file;
} compared;

/* The last call of a rank in a stream of calls. */
typedef struct reached {
  const gli_traced *last; /* NULL: none */
  size_t times_last;      /* in all streams: number of calls that it started
                             last */
  double late_ns;         /* sum of its delays after the first in these calls */
} reached;

/* ---- the order of calls -------------------------------------------------- */

static int compare_numbers(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

static int compare_streams(const gli_traced *a, const gli_traced *b) {
  int order = strcmp(a->group, b->group);
  if (order == 0) order = compare_numbers(a->tag, b->tag);
  return order != 0 ? order : compare_numbers(a->request, b->request);
}

static int compare_calls(const void *left, const void *right) {
  const compared *a = left, *b = right;
  int order = compare_streams(a->o, b->o);
  if (order == 0) order = compare_numbers(a->o->sequence, b->o->sequence);
  return order != 0 ? order : (a->file > b->file) - (a->file < b->file);
}

static bool has_number(const gli_traced *o) {
  return !o->message && o->sequence >= 0 && o->group[0] != '\0';
}

static compared *sorted_calls(const gli_traces *traces, size_t *n) {
  size_t room = 1;
  for (size_t f = 0; f < traces->n; f++) room += traces->files[f].n_operations;
  compared *all = malloc(room * sizeof *all);
  *n = 0;
  if (all == NULL) return NULL;
  for (size_t f = 0; f < traces->n; f++) {
    for (size_t i = 0; i < traces->files[f].n_operations; i++) {
      const gli_traced *o = &traces->files[f].operations[i];
      if (has_number(o)) all[(*n)++] = (compared){.o = o, .file = f};
    }
  }
  qsort(all, *n, sizeof *all, compare_calls);
  return all;
}

/* ---- what differs -------------------------------------------------------- */

/* Returns true if the call has block lengths, which differ from rank to rank.
 */
static bool has_blocks(const gli_traced *o) {
  size_t length = strlen(o->call);
  return length > 0 && o->call[length - 1] == 'v';
}

static bool is_same_call(const gli_traced *a, const gli_traced *b) {
  return strcmp(a->call, b->call) == 0 && strcmp(a->dtype, b->dtype) == 0 &&
         strcmp(a->op, b->op) == 0 && a->root == b->root &&
         (a->count == b->count || has_blocks(a));
}

static void say_differs(FILE *to, const gli_traces *traces, const compared *a,
                        const compared *b) {
  char left[GLI_TRACE_WORDS_BYTES], right[GLI_TRACE_WORDS_BYTES];
  char where[GLI_TRACE_WORDS_BYTES];
  fprintf(to, "rank %" PRId64 " called %s, but rank %" PRId64 " called %s%s\n",
          traces->files[a->file].rank, gli_traced_words(a->o, left),
          traces->files[b->file].rank, gli_traced_words(b->o, right),
          gli_traced_where(a->o, where));
}

/* Prints the first call of a stream in which ranks differ; all later ones
 * differ as well. */
static size_t find_difference(FILE *to, const gli_traces *traces,
                              const compared *calls, size_t n) {
  for (size_t i = 1; i < n; i++) {
    if (calls[i].o->sequence != calls[i - 1].o->sequence) continue;
    if (is_same_call(calls[i].o, calls[i - 1].o)) continue;
    say_differs(to, traces, &calls[i - 1], &calls[i]);
    return 1;
  }
  return 0;
}

/* ---- who is behind ------------------------------------------------------- */

static bool is_under_way(const gli_traced *o) {
  return o->state < GLI_TRACED_COMPLETED;
}

/* Returns true if the call is in progress. One that failed with its context had
 * not ended before. */
static bool hangs(const gli_traced *o) {
  return is_under_way(o) || o->state == GLI_TRACED_FAILED;
}

/* Returns true if the ranks of a stream know that this rank is part of it. */
static bool takes_part(const gli_traces *traces, const compared *calls,
                       size_t n, int64_t rank) {
  for (size_t i = 0; i < n; i++) {
    const gli_trace_file *f = &traces->files[calls[i].file];
    if (gli_trace_in_group(f, calls[i].o->group, rank)) return true;
    if (i > 0 && calls[i].file == calls[0].file)
      break; /* all files have been searched */
  }
  return false;
}

/* Returns the first call beyond `sequence` in which a rank hangs, and lists
 * these ranks. */
static const gli_traced *first_hanging(const gli_traces *traces,
                                       const compared *calls, size_t n,
                                       int64_t sequence, gli_rank_list *ranks) {
  const gli_traced *first = NULL;
  for (size_t i = 0; i < n; i++) {
    const gli_traced *o = calls[i].o;
    if (o->sequence <= sequence || !hangs(o)) continue;
    if (first != NULL && o->sequence != first->sequence) break;
    if (first == NULL) first = o;
    gli_rank_list_add(ranks, traces->files[calls[i].file].rank);
  }
  return first;
}

static void say_last(FILE *to, const gli_trace_file *f,
                     const gli_traced *last) {
  char words[GLI_TRACE_WORDS_BYTES];
  if (last == NULL) {
    fprintf(to, "%s\n",
            f->ended > (int64_t)f->n_operations
                ? "it has no such call in its trace"
                : "it has not made this call");
    return;
  }
  const char *state = is_under_way(last) ? "is still in progress"
                      : last->state == GLI_TRACED_FAILED ? "failed"
                                                         : "ended";
  int64_t since = is_under_way(last) ? last->started_ns : last->ended_ns;
  fprintf(to, "its last one there is %s, which %s, %s%.3g s before\n",
          gli_traced_words(last, words), state,
          is_under_way(last) ? "started " : "",
          (double)(f->now_ns - since) / 1e9);
}

static size_t find_behind(FILE *to, const gli_traces *traces,
                          const compared *calls, size_t n, const reached *all) {
  size_t found = 0;
  for (size_t f = 0; f < traces->n; f++) {
    const gli_trace_file *file = &traces->files[f];
    int64_t sequence = all[f].last != NULL ? all[f].last->sequence : -1;
    gli_rank_list waiting = {.n = 0};
    const gli_traced *o = first_hanging(traces, calls, n, sequence, &waiting);
    if (o == NULL || !takes_part(traces, calls, n, file->rank)) continue;
    char words[GLI_TRACE_WORDS_BYTES], where[GLI_TRACE_WORDS_BYTES];
    found++;
    fprintf(to,
            "rank %" PRId64
            " is behind: %s wait%s in %s%s, which it has not "
            "started; ",
            file->rank, gli_rank_list_words(&waiting),
            waiting.n == 1 ? "s" : "", gli_traced_words(o, words),
            gli_traced_where(o, where));
    say_last(to, file, all[f].last);
  }
  return found;
}

/* Prints ranks that others wait for and that gave no trace. */
static size_t find_silent(FILE *to, const gli_traces *traces,
                          const compared *calls, size_t n) {
  size_t found = 0;
  for (int64_t rank = 0; rank < traces->size; rank++) {
    if (gli_traces_of(traces, rank) != NULL) continue;
    const gli_traced *o = NULL;
    gli_rank_list waiting = {.n = 0};
    for (size_t i = 0; i < n; i++) {
      if (!gli_traced_waits_for(calls[i].o, rank)) continue;
      o = calls[i].o;
      gli_rank_list_add(&waiting, traces->files[calls[i].file].rank);
    }
    if (o == NULL) continue;
    char words[GLI_TRACE_WORDS_BYTES], where[GLI_TRACE_WORDS_BYTES];
    char absence[GLI_TRACE_ABSENCE_BYTES];
    found++;
    fprintf(to, "rank %" PRId64 " %s, and %s wait%s for it in %s%s\n", rank,
            gli_traces_absence(traces, rank, absence),
            gli_rank_list_words(&waiting), waiting.n == 1 ? "s" : "",
            gli_traced_words(o, words), gli_traced_where(o, where));
  }
  return found;
}

/* ---- who starts last ----------------------------------------------------- */

/* Records the last rank of one call that `n` ranks have made. */
static void note_last(const compared *calls, size_t n, reached *all) {
  size_t first = 0, last = 0;
  for (size_t i = 1; i < n; i++) {
    if (calls[i].o->started_ns < calls[first].o->started_ns) first = i;
    if (calls[i].o->started_ns > calls[last].o->started_ns) last = i;
  }
  reached *r = &all[calls[last].file];
  r->times_last++;
  r->late_ns +=
      (double)(calls[last].o->started_ns - calls[first].o->started_ns);
}

static void say_last_ones(FILE *to, const gli_traces *traces,
                          const reached *all, size_t calls) {
  for (size_t f = 0; f < traces->n; f++) {
    if (all[f].times_last == 0) continue;
    fprintf(to,
            "rank %" PRId64
            " started last in %zu of %zu calls that all ranks made, %.3g ms "
            "after the first on average\n",
            traces->files[f].rank, all[f].times_last, calls,
            all[f].late_ns / (double)all[f].times_last / 1e6);
  }
}

/* ---- all ----------------------------------------------------------------- */

/* Compares one stream; `whole` counts calls that all ranks have made. */
static size_t compare_stream(FILE *to, const gli_traces *traces,
                             const compared *calls, size_t n, reached *all,
                             size_t *whole) {
  for (size_t f = 0; f < traces->n; f++) all[f].last = NULL;
  for (size_t i = 0, from = 0; i < n; i++) {
    if (calls[i].o->sequence != calls[from].o->sequence) from = i;
    all[calls[i].file].last = calls[i].o;
    if (i + 1 - from < (size_t)traces->size) continue;
    (*whole)++;
    note_last(calls + from, i + 1 - from, all);
  }
  size_t found = find_difference(to, traces, calls, n);
  if (found == 0) found = find_behind(to, traces, calls, n, all);
  return found + find_silent(to, traces, calls, n);
}

size_t gli_trace_compare(const gli_traces *traces, FILE *to) {
  size_t n, found = 0, whole = 0;
  compared *calls = sorted_calls(traces, &n);
  reached *all = calloc(traces->n + 1, sizeof *all);
  if (calls == NULL || all == NULL) goto no_memory;
  for (size_t from = 0, i = 1; i <= n; i++) {
    if (i < n && compare_streams(calls[i].o, calls[from].o) == 0) continue;
    found += compare_stream(to, traces, calls + from, i - from, all, &whole);
    from = i;
  }
  if (whole > 0 && traces->n > 1) say_last_ones(to, traces, all, whole);
  free(all);
  free(calls);
  return found;

no_memory:
  free(all);
  free(calls);
  return SIZE_MAX;
}
