/* One JSON object, on a line of its own unless it is told otherwise. */
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
/* A number whose digits are made. */
void gli_json_digits(gli_json *json, const char *key, const char *digits);
/* Numbers that JSON cannot say (infinity, NaN) become null. */
void gli_json_number(gli_json *json, const char *key, double value);
void gli_json_bool(gli_json *json, const char *key, bool value);
void gli_json_list(gli_json *json, const char *key, const char *const *values,
                   size_t n_values);
/* Lists and objects within: '[' or '{', and ']' or '}' to end them. `key` NULL:
 * in a list. What is in lists has no keys. */
void gli_json_begin(gli_json *json, const char *key, char bracket);
void gli_json_end(gli_json *json, char bracket);
/* Begins the next value on a new line. */
void gli_json_line(gli_json *json);
/* End the object and its line, and flush. */
void gli_json_close(gli_json *json);

#endif
