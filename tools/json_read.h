/* Reads JSON from files that others may have written: strict, with bounded
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
  GLI_JSON_NUMBER,  /* any other number */
  GLI_JSON_TEXT,
  GLI_JSON_LIST,
  GLI_JSON_OBJECT
} gli_json_kind;

typedef struct gli_json_value gli_json_value;
struct gli_json_value {
  gli_json_kind kind;
  uint64_t integer;
  const char *text;            /* without embedded zeros; control characters,
                                  which a terminal might obey, are replaced by
                                  blanks */
  const char *key;             /* in an object; otherwise NULL */
  const gli_json_value *first; /* first of a list or object; NULL: empty */
  const gli_json_value *next;  /* next of the same list or object */
};

typedef struct gli_json_tree gli_json_tree;

enum { GLI_JSON_WHY_BYTES = 160 };
/* Parses exactly one value of `bytes` bytes. Parsing may change the text, which
 * must stay until the tree is freed. Returns NULL on failure, with the reason
 * in `why`. */
gli_json_tree *gli_json_parse(char *text, size_t bytes,
                              char why[GLI_JSON_WHY_BYTES]);
const gli_json_value *gli_json_root(const gli_json_tree *tree);
void gli_json_tree_free(gli_json_tree *tree);

/* Returns the member of an object with this key, or NULL if there is none, or
 * of another kind. */
const gli_json_value *gli_json_get(const gli_json_value *object,
                                   const char *key, gli_json_kind kind);

#endif
