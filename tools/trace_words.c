#include <inttypes.h>
#include <string.h>

#include "tools/trace.h"

const char *gli_traced_words(const gli_traced *o,
                             char text[GLI_TRACE_WORDS_BYTES]) {
  char number[64], count[32] = "", root[40] = "";
  snprintf(number, sizeof number, "#%" PRId64, o->sequence);
  if (o->request >= 0)
    snprintf(number, sizeof number, "of request %" PRId64 ", run #%" PRId64,
             o->request, o->sequence);
  if (o->count >= 0) snprintf(count, sizeof count, "%" PRId64 " x ", o->count);
  if (o->root >= 0) snprintf(root, sizeof root, ", root %" PRId64, o->root);
  if (o->sequence < 0) number[0] = '\0';
  bool more = o->dtype[0] != '\0';
  snprintf(text, GLI_TRACE_WORDS_BYTES, "%.40s %s%s%s%.20s%s%.20s%s%s", o->call,
           number, more ? " (" : "", count, o->dtype,
           o->op[0] != '\0' ? ", " : "", o->op, root, more ? ")" : "");
  return text;
}

const char *gli_traced_where(const gli_traced *o,
                             char text[GLI_TRACE_WORDS_BYTES]) {
  char tag[40] = "";
  if (o->tag > 0) snprintf(tag, sizeof tag, ", tag %" PRId64, o->tag);
  bool world = o->group[0] == '\0' || strcmp(o->group, "world") == 0;
  snprintf(text, GLI_TRACE_WORDS_BYTES, "%s%s%.40s", tag,
           world ? "" : " in group ", world ? "" : o->group);
  return text;
}

enum { LISTED = sizeof((gli_rank_list *)0)->ranks / sizeof(int64_t) };

void gli_rank_list_add(gli_rank_list *list, int64_t rank) {
  if (list->n < LISTED) list->ranks[list->n] = rank;
  list->n++;
}

const char *gli_rank_list_words(gli_rank_list *list) {
  size_t shown = list->n < LISTED ? list->n : LISTED;
  char *at = list->text;
  at += snprintf(at, 16, list->n == 1 ? "rank" : "ranks");
  for (size_t i = 0; i < shown; i++) {
    bool last = i > 0 && i + 1 == list->n;
    const char *before = i == 0 ? " " : last ? " and " : ", ";
    at += snprintf(at, 32, "%s%" PRId64, before, list->ranks[i]);
  }
  if (shown < list->n) snprintf(at, 40, " and %zu more", list->n - shown);
  return list->text;
}

const char *gli_traces_absence(const gli_traces *traces, int64_t rank,
                               char words[GLI_TRACE_ABSENCE_BYTES]) {
  for (size_t i = 0; i < traces->n_absent; i++) {
    const gli_trace_absent *a = &traces->absent[i];
    if (a->rank != rank) continue;
    snprintf(words, GLI_TRACE_ABSENCE_BYTES, "%.30s (process %" PRId64 ")",
             a->how, a->process);
    return words;
  }
  return traces->live ? "does not answer on this host" : "has no file";
}
