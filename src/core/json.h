/* Writer of a JSON object, on a single line unless gli_json_line is called. */
#ifndef GLI_CORE_JSON_H
#define GLI_CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct gli_json {
  FILE *to;
  bool first, breaks;
} gli_json;

void gli_json_open(gli_json *json, FILE *to);
void gli_json_text(gli_json *json, const char *key, const char *value);
void gli_json_integer(gli_json *json, const char *key, uint64_t value);
/* Writes a number from its digits. */
void gli_json_digits(gli_json *json, const char *key, const char *digits);
/* Writes a number; infinity and NaN, which JSON lacks, become null. */
void gli_json_number(gli_json *json, const char *key, double value);
void gli_json_bool(gli_json *json, const char *key, bool value);
void gli_json_list(gli_json *json, const char *key, const char *const *values,
                   size_t n_values);
/* Begin and end a list ('[', ']') or an object ('{', '}'). `key` is NULL within
 * a list, whose elements have no keys. */
void gli_json_begin(gli_json *json, const char *key, char bracket);
void gli_json_end(gli_json *json, char bracket);
/* Begins the next value on a new line. */
void gli_json_line(gli_json *json);
/* Ends the object and its line, and flushes. */
void gli_json_close(gli_json *json);

#endif
