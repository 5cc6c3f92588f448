#include "core/printable.h"

#include <stdbool.h>
#include <stddef.h>

static bool printable_continues(unsigned char byte) {
  return byte >= 0x80 && byte <= 0xbf;
}

/* Bytes of the character of UTF-8 that begins at `s`; 0: none does. The end of
 * the text is no continuation, so nothing is read beyond it. */
static size_t utf8_length(const unsigned char *s) {
  unsigned char first = s[0];
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !printable_continues(s[1])) return 0;
  if (first < 0xe0) return 2;
  /* Longer than need be, half of a pair of UTF-16, or beyond U+10FFFF. */
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
    size_t length = utf8_length(s);
    bool control = length == 0   ? printable_continues(*s) && *s < 0xa0
                   : length == 1 ? *s < 0x20 || *s == 0x7f
                                 : *s == 0xc2 && s[1] < 0xa0;
    if (length == 0) length = 1;
    for (size_t i = 0; control && i < length; i++) s[i] = ' ';
    s += length;
  }
}
