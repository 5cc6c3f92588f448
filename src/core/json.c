#include "core/json.h"

#include <inttypes.h>
#include <math.h>

#include "core/text.h"

static void json_put_text(FILE *to, const char *text) {
  putc('"', to);
  for (size_t length; *text != 0; text += length > 0 ? length : 1) {
    unsigned char c = (unsigned char)*text;
    length = 1;
    if (c == '"' || c == '\\') {
      fprintf(to, "\\%c", c);
    } else if (c < 0x20) {
      fprintf(to, "\\u%04x", c);
    } else { /* JSON is UTF-8: other bytes, such as of a text cut short */
      length = gli_utf8_length((const unsigned char *)text);
      if (length == 0) putc('?', to);
      fwrite(text, 1, length, to);
    }
  }
  putc('"', to);
}

static void json_put_key(gli_json *json, const char *key) {
  if (!json->first) fputs(json->breaks ? "," : ", ", json->to);
  if (json->breaks) putc('\n', json->to);
  json->first = json->breaks = false;
  if (key == NULL) return;
  json_put_text(json->to, key);
  fputs(": ", json->to);
}

void gli_json_open(gli_json *json, FILE *to) {
  json->to = to;
  json->first = true;
  json->breaks = false;
  putc('{', to);
}

void gli_json_begin(gli_json *json, const char *key, char bracket) {
  json_put_key(json, key);
  putc(bracket, json->to);
  json->first = true;
}

void gli_json_end(gli_json *json, char bracket) {
  putc(bracket, json->to);
  json->first = json->breaks = false;
}

void gli_json_line(gli_json *json) {
  json->breaks = true;
}

void gli_json_text(gli_json *json, const char *key, const char *value) {
  json_put_key(json, key);
  json_put_text(json->to, value);
}

void gli_json_integer(gli_json *json, const char *key, uint64_t value) {
  json_put_key(json, key);
  fprintf(json->to, "%" PRIu64, value);
}

void gli_json_digits(gli_json *json, const char *key, const char *digits) {
  json_put_key(json, key);
  fputs(digits, json->to);
}

void gli_json_number(gli_json *json, const char *key, double value) {
  json_put_key(json, key);
  if (isfinite(value)) fprintf(json->to, "%.6g", value);
  if (!isfinite(value)) fputs("null", json->to);
}

void gli_json_bool(gli_json *json, const char *key, bool value) {
  json_put_key(json, key);
  fputs(value ? "true" : "false", json->to);
}

void gli_json_list(gli_json *json, const char *key, const char *const *values,
                   size_t n_values) {
  gli_json_begin(json, key, '[');
  for (size_t i = 0; i < n_values; i++) gli_json_text(json, NULL, values[i]);
  gli_json_end(json, ']');
}

void gli_json_close(gli_json *json) {
  fputs("}\n", json->to);
  fflush(json->to);
}
