#include "tools/top_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Returns the text after a label's name in a line; NULL: no such label. */
static const char *top_label_at(const char *line, size_t length,
                                const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i + n < length; i++)
    if (strncmp(line + i, name, n) == 0) return line + i + n;
  return NULL;
}

/* Returns the value of a label; -1 if it is missing or not a number. */
static int64_t top_label(const char *line, size_t length, const char *name) {
  const char *at = top_label_at(line, length, name);
  char *end;
  if (at == NULL) return -1;
  errno = 0;
  long long value = strtoll(at, &end, 10);
  bool good = errno == 0 && end > at && *end == '"' && value >= 0;
  return good && value < INT32_MAX ? value : -1;
}

/* Returns true if the line is about this metric, with its value, which is at
 * the end. */
static bool top_value(const char *line, size_t length, const char *name,
                      double *value) {
  size_t n = strlen(name);
  if (length < n || strncmp(line, name, n) != 0 || line[n] != '{') return false;
  const char *at = line + length;
  while (at > line && at[-1] != ' ') at--;
  char *end;
  *value = strtod(at, &end);
  return end > at && *value >= 0 && *value < 1e30;
}

static void top_line(const char *line, size_t length, gli_top_rank *r) {
  double v;
  if (top_value(line, length, "gloo_rank_info", &v)) {
    r->rank = top_label(line, length, "{rank=\"");
    r->process = top_label(line, length, "process=\"");
    const char *job = top_label_at(line, length, ",job=\"");
    if (job != NULL) r->job = strtoull(job, NULL, 16);
  }
  if (top_value(line, length, "gloo_calls_total", &v)) r->calls += v;
  if (top_value(line, length, "gloo_call_seconds_total", &v))
    r->call_seconds += v;
  if (top_value(line, length, "gloo_bytes_sent_total", &v)) r->bytes_sent += v;
  if (top_value(line, length, "gloo_bytes_received_total", &v))
    r->bytes_received += v;
  if (top_value(line, length, "gloo_running", &v)) r->running = v;
  if (top_value(line, length, "gloo_context_failed", &v)) r->failed = v > 0;
  if (!top_value(line, length, "gloo_late_seconds_total", &v)) return;
  int64_t peer = top_label(line, length, "peer=\"");
  if (peer < 0 || r->n_late == GLI_TOP_PEERS) return;
  r->late_rank[r->n_late] = peer;
  r->late_seconds[r->n_late++] = v;
}

const char *gli_top_parse(const char *text, gli_top_rank *rank) {
  *rank = (gli_top_rank){.rank = -1, .process = -1};
  bool ends = false;
  while (*text != '\0' && !ends) {
    size_t length = strcspn(text, "\n");
    ends = length == 5 && strncmp(text, "# EOF", 5) == 0;
    top_line(text, length, rank);
    text += length + (text[length] != '\0');
  }
  return rank->rank >= 0 ? text : NULL;
}
