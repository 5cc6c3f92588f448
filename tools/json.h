/* One JSON object per line, which is what --json prints. */
#ifndef GLI_TOOLS_JSON_H
#define GLI_TOOLS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct gli_json {
  FILE *to;
  bool first;
} gli_json;

void gli_json_open(gli_json *json, FILE *to);
void gli_json_text(gli_json *json, const char *key, const char *value);
void gli_json_integer(gli_json *json, const char *key, uint64_t value);
/* Numbers that JSON cannot say (infinity, NaN) become null. */
void gli_json_number(gli_json *json, const char *key, double value);
void gli_json_bool(gli_json *json, const char *key, bool value);
void gli_json_list(gli_json *json, const char *key, const char *const *values,
                   size_t n_values);
/* End the object and its line, and flush. */
void gli_json_close(gli_json *json);

#endif
