#include "core/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

gli_text gli_quote(const char *text) {
  gli_text quoted;
  size_t used = 0;
  const size_t room = sizeof quoted.text - 4; /* "..." and NUL */
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    bool plain = c >= 0x20 && c != 0x7f && c != '\\';
    size_t need = plain ? 1 : 4;
    if (used + need > room) {
      memcpy(quoted.text + used, "...", 3);
      used += 3;
      break;
    }
    if (plain) {
      quoted.text[used] = (char)c;
    } else {
      snprintf(quoted.text + used, need + 1, "\\x%02x", c);
    }
    used += need;
  }
  quoted.text[used] = '\0';
  return quoted;
}

gli_text gli_count(uint64_t n, const char *noun) {
  gli_text out;
  size_t length = strlen(noun);
  bool hisses = length > 0 && noun[length - 1] == 's';
  snprintf(out.text, sizeof out.text, "%" PRIu64 " %s%s", n, noun,
           n == 1   ? ""
           : hisses ? "es"
                    : "s");
  return out;
}

gli_text gli_duration(int64_t ns) {
  static const struct {
    int64_t ns;
    const char *name;
  } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
  gli_text duration = {"no time"};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (ns < units[i].ns) continue;
    int64_t tenths =
        ns / units[i].ns * 10 + ns % units[i].ns * 10 / units[i].ns;
    int64_t whole = tenths / 10, rest = tenths % 10;
    if (rest == 0) {
      snprintf(duration.text, sizeof duration.text, "%" PRId64 " %s", whole,
               units[i].name);
    } else {
      snprintf(duration.text, sizeof duration.text,
               "%" PRId64 ".%" PRId64 " %s", whole, rest, units[i].name);
    }
    return duration;
  }
  return duration;
}

/* Space reserved for " and N more". */
#define TAIL_BYTES 32

/* Appends `item` if the list has room for it and the tail. */
static bool list_add(gli_long_text *list, size_t *used, const char *item) {
  size_t bytes = strlen(item);
  if (*used + bytes + 2 + TAIL_BYTES > sizeof(list->text)) return false;
  int n = snprintf(list->text + *used, sizeof(list->text) - *used, "%s%s",
                   *used == 0 ? "" : ", ", item);
  *used += (size_t)n;
  return true;
}

static void list_end(gli_long_text *list, size_t used, size_t more) {
  if (more == 0) return;
  snprintf(list->text + used, sizeof(list->text) - used, " and %zu more", more);
}

gli_long_text gli_missing_keys(const char *const *keys, const bool *present,
                               size_t n_keys) {
  gli_long_text list = {""};
  size_t used = 0, more = 0;
  for (size_t i = 0; i < n_keys; i++) {
    char item[sizeof(gli_text) + 2];
    if (present[i]) continue;
    snprintf(item, sizeof item, "'%s'", gli_quote(keys[i]).text);
    if (more > 0 || !list_add(&list, &used, item)) more++;
  }
  list_end(&list, used, more);
  return list;
}

gli_long_text gli_missing_ranks(const bool *present, size_t size) {
  gli_long_text list = {""};
  size_t used = 0, more = 0, missing = 0;
  for (size_t i = 0; i < size; i++) missing += present[i] ? 0 : 1;
  for (size_t i = 0, last; i < size; i = last + 1) {
    char item[48];
    last = i;
    if (present[i]) continue;
    while (last + 1 < size && !present[last + 1]) last++;
    const char *word = used > 0 ? "" : missing == 1 ? "rank " : "ranks ";
    if (last == i) {
      snprintf(item, sizeof item, "%s%zu", word, i);
    } else {
      snprintf(item, sizeof item, "%s%zu-%zu", word, i, last);
    }
    if (more > 0 || !list_add(&list, &used, item)) more += last - i + 1;
  }
  list_end(&list, used, more);
  return list;
}

/* ---- control characters -------------------------------------------------- */

static bool printable_continues(unsigned char byte) {
  return byte >= 0x80 && byte <= 0xbf;
}

/* The terminator is no continuation byte, so nothing is read beyond it. */
size_t gli_utf8_length(const unsigned char *s) {
  unsigned char first = s[0];
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !printable_continues(s[1])) return 0;
  if (first < 0xe0) return 2;
  /* Overlong encodings, surrogates, and values beyond U+10FFFF. */
  if ((first == 0xe0 && s[1] < 0xa0) || (first == 0xed && s[1] > 0x9f) ||
      (first == 0xf0 && s[1] < 0x90) || (first == 0xf4 && s[1] > 0x8f))
    return 0;
  if (!printable_continues(s[2])) return 0;
  if (first < 0xf0) return 3;
  return printable_continues(s[3]) ? 4 : 0;
}

void gli_make_printable(char *text) {
  unsigned char *s = (unsigned char *)text;
  while (*s != '\0') {
    size_t length = gli_utf8_length(s);
    bool control = length == 0   ? printable_continues(*s) && *s < 0xa0
                   : length == 1 ? *s < 0x20 || *s == 0x7f
                                 : *s == 0xc2 && s[1] < 0xa0;
    if (length == 0) length = 1;
    for (size_t i = 0; control && i < length; i++) s[i] = ' ';
    s += length;
  }
}

size_t gli_word_distance(const char *a, const char *b) {
  size_t row[64], n = strlen(b);
  if (n >= sizeof row / sizeof *row) return n;
  for (size_t k = 0; k <= n; k++) row[k] = k;
  for (size_t i = 0; a[i] != '\0'; i++) {
    size_t corner = i;
    row[0] = i + 1;
    for (size_t k = 1; k <= n; k++) {
      size_t least = corner + (a[i] != b[k - 1]);
      corner = row[k];
      if (corner < least) least = corner + 1;
      if (row[k - 1] < least) least = row[k - 1] + 1;
      row[k] = least;
    }
  }
  return row[n];
}
