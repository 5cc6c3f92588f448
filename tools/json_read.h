/* Reading JSON from files that others may have written: strict, bounded in
 * depth, and never beyond the end. */
#ifndef GLI_TOOLS_JSON_READ_H
#define GLI_TOOLS_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gli_json_kind {
  GLI_JSON_NULL,
  GLI_JSON_FALSE,
  GLI_JSON_TRUE,
  GLI_JSON_INTEGER, /* 0 to 2^63 - 1, in plain digits */
  GLI_JSON_NUMBER,  /* any other */
  GLI_JSON_TEXT,
  GLI_JSON_LIST,
  GLI_JSON_OBJECT
} gli_json_kind;

typedef struct gli_json_value gli_json_value;
struct gli_json_value {
  gli_json_kind kind;
  uint64_t integer;
  const char *text;            /* without 0 within; control characters, which
                                  a terminal might obey, are blanks */
  const char *key;             /* in an object; else NULL */
  const gli_json_value *first; /* of a list or object; NULL: empty */
  const gli_json_value *next;  /* in the same */
};

typedef struct gli_json_tree gli_json_tree;

enum { GLI_JSON_WHY_BYTES = 160 };
/* One value, and nothing else, in `bytes` bytes that may be changed meanwhile
 * and must stay until the tree is freed. NULL: why not. */
gli_json_tree *gli_json_parse(char *text, size_t bytes,
                              char why[GLI_JSON_WHY_BYTES]);
const gli_json_value *gli_json_root(const gli_json_tree *tree);
void gli_json_tree_free(gli_json_tree *tree);

/* Of an object, by key: NULL where it has none, or of another kind. */
const gli_json_value *gli_json_get(const gli_json_value *object,
                                   const char *key, gli_json_kind kind);

#endif
