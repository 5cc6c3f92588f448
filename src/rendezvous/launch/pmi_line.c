#include "rendezvous/launch/pmi_line.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"

bool gli_pmi_line_word(const char *line, const char *name, char *out,
                       size_t room) {
  size_t name_bytes = strlen(name);
  while (*line != '\0') {
    line += strspn(line, " ");
    size_t bytes = strcspn(line, " ");
    if (bytes > name_bytes && line[name_bytes] == '=' &&
        memcmp(line, name, name_bytes) == 0) {
      size_t value_bytes = bytes - name_bytes - 1;
      if (value_bytes == 0 || value_bytes >= room) return false;
      memcpy(out, line + name_bytes + 1, value_bytes);
      out[value_bytes] = '\0';
      return true;
    }
    line += bytes;
  }
  return false;
}

bool gli_pmi_number(const char *text, uint64_t max, uint64_t *number) {
  uint64_t value = 0;
  if (*text == '\0') return false;
  for (; *text != '\0'; text++)
    if (*text < '0' || *text > '9' || !gli_mul_u64(value, 10, &value) ||
        !gli_add_u64(value, (uint64_t)(*text - '0'), &value))
      return false;
  if (value > max) return false;
  *number = value;
  return true;
}

bool gli_pmi_line_number(const char *line, const char *name, uint64_t max,
                         uint64_t *number) {
  char text[24];
  return gli_pmi_line_word(line, name, text, sizeof text) &&
         gli_pmi_number(text, max, number);
}

static const char letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-";

void gli_pmi_escape(const char *text, size_t *at, char *out, size_t room) {
  size_t used = 0;
  for (; text[*at] != '\0'; ++*at) {
    char c = text[*at];
    size_t need = strchr(letters, c) != NULL ? 1 : 3;
    if (used + need >= room) break;
    if (need == 1) {
      out[used] = c;
    } else {
      snprintf(out + used, 4, "_%02x", (unsigned)(unsigned char)c);
    }
    used += need;
  }
  out[used] = '\0';
}

static int pmi_hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool gli_pmi_unescape(const char *escaped, char *out, size_t *used,
                      size_t room) {
  for (; *escaped != '\0'; escaped++) {
    int byte = (unsigned char)*escaped;
    if (*escaped == '_') {
      int high = pmi_hex_digit(escaped[1]);
      int low = high < 0 ? -1 : pmi_hex_digit(escaped[2]);
      if (low < 0) return false;
      byte = high * 16 + low;
      escaped += 2;
    } else if (strchr(letters, *escaped) == NULL) {
      return false;
    }
    if (byte == 0 || *used + 1 >= room) return false;
    out[(*used)++] = (char)byte;
  }
  out[*used] = '\0';
  return true;
}
