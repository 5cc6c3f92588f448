#include "tools/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum { DEPTH_MAX = 16, BLOCK_VALUES = 1024 };

/* A block of values. Blocks do not move, so values keep their addresses. */
typedef struct json_block {
  struct json_block *next;
  gli_json_value values[BLOCK_VALUES];
} json_block;

struct gli_json_tree {
  json_block *blocks; /* newest first */
  size_t used;        /* values used in the newest block */
  const gli_json_value *root;
};

typedef struct json_reader {
  gli_json_tree *tree;
  char *start, *at, *end;
  const char *why; /* error at `at`; NULL: none */
} json_reader;

static gli_json_value *json_read_fail(json_reader *r, const char *why) {
  if (r->why == NULL) r->why = why;
  return NULL;
}

static gli_json_value *json_read_new(json_reader *r, gli_json_kind kind) {
  gli_json_tree *tree = r->tree;
  if (tree->blocks == NULL || tree->used == BLOCK_VALUES) {
    json_block *block = malloc(sizeof *block);
    if (block == NULL) return json_read_fail(r, "out of memory");
    block->next = tree->blocks;
    tree->blocks = block;
    tree->used = 0;
  }
  gli_json_value *value = &tree->blocks->values[tree->used++];
  *value = (gli_json_value){.kind = kind};
  return value;
}

static void json_read_blanks(json_reader *r) {
  while (r->at < r->end &&
         (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
    r->at++;
}

static bool json_read_char(json_reader *r, char c) {
  json_read_blanks(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

/* ---- texts --------------------------------------------------------------- */

static bool json_read_hex(json_reader *r, uint32_t *code) {
  *code = 0;
  if (r->end - r->at < 4) return false;
  for (int i = 0; i < 4; i++) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *digit = *r->at != 0 ? strchr(digits, *r->at) : NULL;
    if (digit == NULL) return false;
    *code = *code * 16 + (uint32_t)(digit - digits) % 16;
    r->at++;
  }
  return true;
}

/* Writes UTF-8, which is at most as long as the escape sequence. */
static char *json_put_code(char *to, uint32_t code) {
  bool pair = code >= 0xd800 && code < 0xe000; /* surrogates, which no writer of
                                                  ours uses */
  if (pair || code == 0) code = '?';
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 0x3f));
  } else {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    *to++ = (char)(0x80 | (code & 0x3f));
  }
  return to;
}

static char *json_read_escape(json_reader *r, char *to) {
  static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  char name = r->at < r->end ? *r->at++ : '\0';
  uint32_t code;
  if (name == 'u') {
    if (json_read_hex(r, &code)) return json_put_code(to, code);
    name = '\0';
  }
  const char *known = name != '\0' ? strchr(names, name) : NULL;
  if (known == NULL) {
    (void)json_read_fail(r, "invalid escape");
    return to;
  }
  *to++ = meant[known - names];
  return to;
}

/* Reads a text after its opening quote. Decodes it in place, because it does
 * not get longer. */
static const char *json_read_text(json_reader *r) {
  char *text = r->at, *to = text;
  while (r->why == NULL && r->at < r->end && *r->at != '"') {
    char c = *r->at++;
    if (c == '\0') (void)json_read_fail(r, "a zero byte in a string");
    if (c == '\\')
      to = json_read_escape(r, to);
    else
      *to++ = c;
  }
  if (r->at == r->end) (void)json_read_fail(r, "unterminated string");
  if (r->why != NULL) return NULL;
  r->at++;
  *to = '\0'; /* at the quote at the latest */
  gli_make_printable(text);
  return text;
}

/* ---- numbers ------------------------------------------------------------- */

static bool json_read_digits(json_reader *r) {
  char *from = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > from;
}

static bool json_read_rest(json_reader *r) {
  if (r->at < r->end && *r->at == '.') {
    r->at++;
    if (!json_read_digits(r)) return false;
  }
  if (r->at == r->end || (*r->at != 'e' && *r->at != 'E')) return true;
  r->at++;
  if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
  return json_read_digits(r);
}

static gli_json_value *json_read_number(json_reader *r) {
  const char *from = r->at;
  bool negative = *r->at == '-';
  if (negative) r->at++;
  const char *digits = r->at;
  if (!json_read_digits(r)) return json_read_fail(r, "no value");
  const char *behind = r->at;
  if (*digits == '0' && behind - digits > 1)
    return json_read_fail(r, "a number that begins with 0");
  if (!json_read_rest(r)) return json_read_fail(r, "a number without digits");
  uint64_t integer = 0;
  bool plain = !negative && r->at == behind && from == digits;
  for (; plain && digits < behind; digits++) {
    uint64_t digit = (uint64_t)(*digits - '0');
    plain = integer <= ((uint64_t)INT64_MAX - digit) / 10;
    integer = integer * 10 + digit;
  }
  gli_json_value *value =
      json_read_new(r, plain ? GLI_JSON_INTEGER : GLI_JSON_NUMBER);
  if (value != NULL && plain) value->integer = integer;
  return value;
}

/* ---- values -------------------------------------------------------------- */

static gli_json_value *json_read_value(json_reader *r, int depth);

static gli_json_value *json_read_member(json_reader *r, bool object,
                                        int depth) {
  const char *key = NULL;
  if (object) {
    if (!json_read_char(r, '"')) return json_read_fail(r, "no key");
    key = json_read_text(r);
    if (key == NULL) return NULL;
    if (!json_read_char(r, ':')) return json_read_fail(r, "no colon");
  }
  gli_json_value *value = json_read_value(r, depth + 1);
  if (value != NULL) value->key = key;
  return value;
}

/* Reads members after the opening bracket. */
static gli_json_value *json_read_members(json_reader *r, bool object,
                                         int depth) {
  char closing = object ? '}' : ']';
  gli_json_value *list =
      json_read_new(r, object ? GLI_JSON_OBJECT : GLI_JSON_LIST);
  if (list == NULL || json_read_char(r, closing)) return list;
  gli_json_value *last = NULL;
  do {
    gli_json_value *value = json_read_member(r, object, depth);
    if (value == NULL) return NULL;
    if (last != NULL)
      last->next = value;
    else
      list->first = value;
    last = value;
  } while (json_read_char(r, ','));
  if (json_read_char(r, closing)) return list;
  return json_read_fail(r, r->at == r->end ? "the file is truncated"
                                           : "expected a comma or the end");
}

static gli_json_value *json_read_word(json_reader *r) {
  static const struct {
    const char *word;
    gli_json_kind kind;
  } words[] = {{"null", GLI_JSON_NULL},
               {"false", GLI_JSON_FALSE},
               {"true", GLI_JSON_TRUE}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t length = strlen(words[i].word);
    if ((size_t)(r->end - r->at) < length ||
        memcmp(r->at, words[i].word, length) != 0)
      continue;
    r->at += length;
    return json_read_new(r, words[i].kind);
  }
  return json_read_number(r);
}

static gli_json_value *json_read_value(json_reader *r, int depth) {
  if (depth > DEPTH_MAX) return json_read_fail(r, "nested too deeply");
  json_read_blanks(r);
  if (r->at == r->end) return json_read_fail(r, "the file is truncated");
  switch (*r->at) {
    case '{':
    case '[':
      r->at++;
      return json_read_members(r, r->at[-1] == '{', depth);
    case '"': {
      r->at++;
      const char *text = json_read_text(r);
      gli_json_value *value =
          text != NULL ? json_read_new(r, GLI_JSON_TEXT) : NULL;
      if (value != NULL) value->text = text;
      return value;
    }
    default:
      return json_read_word(r);
  }
}

/* ---- the whole ----------------------------------------------------------- */

gli_json_tree *gli_json_parse(char *text, size_t bytes,
                              char why[GLI_JSON_WHY_BYTES]) {
  json_reader r = {.start = text, .at = text, .end = text + bytes};
  r.tree = calloc(1, sizeof *r.tree);
  if (r.tree == NULL) {
    snprintf(why, GLI_JSON_WHY_BYTES, "out of memory");
    return NULL;
  }
  r.tree->root = json_read_value(&r, 0);
  json_read_blanks(&r);
  if (r.tree->root != NULL && r.at != r.end)
    (void)json_read_fail(&r, "data after the end");
  if (r.why == NULL) return r.tree;
  snprintf(why, GLI_JSON_WHY_BYTES, "%s, at byte %zu", r.why,
           (size_t)(r.at - r.start));
  gli_json_tree_free(r.tree);
  return NULL;
}

const gli_json_value *gli_json_root(const gli_json_tree *tree) {
  return tree->root;
}

void gli_json_tree_free(gli_json_tree *tree) {
  if (tree == NULL) return;
  while (tree->blocks != NULL) {
    json_block *block = tree->blocks;
    tree->blocks = block->next;
    free(block);
  }
  free(tree);
}

const gli_json_value *gli_json_get(const gli_json_value *object,
                                   const char *key, gli_json_kind kind) {
  if (object == NULL || object->kind != GLI_JSON_OBJECT) return NULL;
  for (const gli_json_value *v = object->first; v != NULL; v = v->next) {
    if (strcmp(v->key, key) == 0) return v->kind == kind ? v : NULL;
  }
  return NULL;
}
