#include "tools/metrics_line.h"

#include <string.h>

enum { LINE_BYTES_MOST = 4096 };

static const char digits[] = "0123456789";
static const char letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";

bool gli_part_is(gli_part_text part, const char *text) {
  return part.bytes == strlen(text) && memcmp(part.at, text, part.bytes) == 0;
}

bool gli_part_ends(gli_part_text part, const char *end) {
  size_t n = strlen(end);
  return part.bytes > n && memcmp(part.at + part.bytes - n, end, n) == 0;
}

/* Returns the length of the name at `text`, up to `bytes`; 0 if none. */
static size_t line_name(const char *text, size_t bytes) {
  size_t n = 0;
  while (n < bytes && (strchr(letters, text[n]) != NULL ||
                       (n > 0 && strchr(digits, text[n]) != NULL)))
    n++;
  return n;
}

static bool line_is_gloo(const char *text, size_t bytes) {
  static const char prefix[] = "gloo_";
  return bytes > sizeof prefix - 1 &&
         memcmp(text, prefix, sizeof prefix - 1) == 0;
}

/* ---- labels -------------------------------------------------------------- */

/* Returns the length of a label's value, before its closing quote; -1 if it has
 * none, or an unknown escape. */
static ptrdiff_t line_value(const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] == '"') return (ptrdiff_t)i;
    if (text[i] != '\\') continue;
    i++;
    if (i == bytes || strchr("\\\"n", text[i]) == NULL) return -1;
  }
  return -1;
}

bool gli_metrics_label_next(gli_part_text *labels, gli_part_text *name,
                            gli_part_text *value) {
  const char *at = labels->at, *end = labels->at + labels->bytes;
  size_t n = line_name(at, labels->bytes);
  if (n == 0 || end - at < (ptrdiff_t)n + 3 || at[n] != '=' || at[n + 1] != '"')
    return false;
  *name = (gli_part_text){at, n};
  at += n + 2;
  ptrdiff_t bytes = line_value(at, (size_t)(end - at));
  if (bytes < 0) return false;
  *value = (gli_part_text){at, (size_t)bytes};
  at += bytes + 1;
  if (at < end && *at != ',') return false;
  if (at < end) at++;
  *labels = (gli_part_text){at, (size_t)(end - at)};
  return true;
}

/* Returns the length of the labels at `text`, before the closing brace; -1 if
 * they are malformed. */
static ptrdiff_t line_labels(const char *text, size_t bytes) {
  gli_part_text name, value;
  size_t used = 0;
  bool quoted = false;
  for (; used < bytes && (quoted || text[used] != '}'); used++) {
    if (quoted && text[used] == '\\') {
      used++;
    } else if (text[used] == '"') {
      quoted = !quoted;
    }
  }
  if (used >= bytes) return -1;
  gli_part_text labels = {text, used};
  if (used > 0 && text[used - 1] == ',') return -1;
  while (labels.bytes > 0)
    if (!gli_metrics_label_next(&labels, &name, &value)) return -1;
  return (ptrdiff_t)used;
}

/* ---- lines --------------------------------------------------------------- */

/* Returns true for digits with an optional fraction and exponent. */
static bool line_is_number(const char *text, size_t bytes) {
  char copy[64];
  if (bytes == 0 || bytes >= sizeof copy) return false;
  memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  const char *at = copy;
  size_t n = strspn(at, digits);
  if (n == 0) return false;
  at += n;
  if (*at == '.') {
    n = strspn(at + 1, digits);
    if (n == 0) return false;
    at += n + 1;
  }
  if (*at != 'e') return *at == '\0';
  at++;
  at += *at == '+' || *at == '-';
  n = strspn(at, digits);
  return n > 0 && at[n] == '\0';
}

static gli_metrics_kind line_comment(const char *text, size_t bytes,
                                     gli_metrics_line *line) {
  static const char *const starts[] = {
      [GLI_METRICS_TYPE_LINE] = "# TYPE ", [GLI_METRICS_HELP_LINE] = "# HELP "};
  if (bytes == 5 && memcmp(text, "# EOF", 5) == 0) return GLI_METRICS_END;
  for (int i = 0; i < 2; i++) {
    size_t n = strlen(starts[i]);
    if (bytes <= n || memcmp(text, starts[i], n) != 0) continue;
    size_t name = line_name(text + n, bytes - n);
    if (!line_is_gloo(text + n, name) || bytes < n + name + 2 ||
        text[n + name] != ' ')
      return GLI_METRICS_MALFORMED;
    line->name = (gli_part_text){text + n, name};
    line->text = (gli_part_text){text + n + name + 1, bytes - n - name - 1};
    return (gli_metrics_kind)i;
  }
  return GLI_METRICS_COMMENT;
}

static gli_metrics_kind line_sample(const char *text, size_t bytes,
                                    gli_metrics_line *line) {
  size_t n = line_name(text, bytes);
  if (!line_is_gloo(text, n) || n == bytes || text[n] != '{')
    return GLI_METRICS_MALFORMED;
  line->name = (gli_part_text){text, n++};
  ptrdiff_t labels = line_labels(text + n, bytes - n);
  if (labels < 0) return GLI_METRICS_MALFORMED;
  line->labels = (gli_part_text){text + n, (size_t)labels};
  n += (size_t)labels + 1;
  if (n + 1 >= bytes || text[n] != ' ' ||
      !line_is_number(text + n + 1, bytes - n - 1))
    return GLI_METRICS_MALFORMED;
  line->text = (gli_part_text){text + n + 1, bytes - n - 1};
  return GLI_METRICS_SAMPLE;
}

gli_metrics_line gli_metrics_line_read(const char *text) {
  gli_metrics_line line = {.kind = GLI_METRICS_MALFORMED};
  size_t bytes = strcspn(text, "\n");
  line.next = text + bytes + (text[bytes] != '\0');
  if (text[bytes] == '\0' || bytes > LINE_BYTES_MOST) return line;
  for (size_t i = 0; i < bytes; i++)
    if (text[i] < ' ' || text[i] > '~') return line;
  if (bytes == 0)
    line.kind = GLI_METRICS_COMMENT;
  else if (text[0] == '#')
    line.kind = line_comment(text, bytes, &line);
  else
    line.kind = line_sample(text, bytes, &line);
  return line;
}
