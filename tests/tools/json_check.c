/* Checks that every line of standard input is one JSON object.
 * usage: json_check [KEY ...]: with exactly these keys, in this order
 * Prints the number of lines; at least one is required. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *at;

static void blanks(void) {
  while (*at == ' ' || *at == '\t') at++;
}

static bool take(char c) {
  blanks();
  if (*at != c) return false;
  at++;
  return true;
}

static bool word(const char *text) {
  if (strncmp(at, text, strlen(text)) != 0) return false;
  at += strlen(text);
  return true;
}

/* Reads a string; its text (escapes unchanged) goes to `into`. */
static bool string(char *into, size_t bytes) {
  size_t used = 0;
  if (!take('"')) return false;
  for (; *at != '"'; at++) {
    if ((unsigned char)*at < 0x20) return false;
    if (*at == '\\' && strchr("\"\\/bfnrtu", at[1]) == NULL) return false;
    if (used + 2 < bytes) into[used++] = *at;
    if (*at == '\\' && used + 2 < bytes) into[used++] = *++at;
  }
  into[used] = 0;
  at++;
  return true;
}

static bool digits(void) {
  const char *start = at;
  while (isdigit((unsigned char)*at)) at++;
  return at > start;
}

static bool number(void) {
  if (*at == '-') at++;
  if (*at == '0' && isdigit((unsigned char)at[1])) return false;
  if (!digits()) return false;
  if (*at == '.' && (at++, !digits())) return false;
  if (*at != 'e' && *at != 'E') return true;
  at++;
  if (*at == '+' || *at == '-') at++;
  return digits();
}

static bool value(void);

static bool list(void) {
  at++;
  if (take(']')) return true;
  do {
    if (!value()) return false;
  } while (take(','));
  return take(']');
}

/* Reads an object within the line's object. */
static bool inner(void) {
  char text[256];
  at++;
  if (take('}')) return true;
  do {
    blanks();
    if (!string(text, sizeof text) || !take(':') || !value()) return false;
  } while (take(','));
  return take('}');
}

static bool value(void) {
  char text[256];
  blanks();
  if (*at == '"') return string(text, sizeof text);
  if (*at == '[') return list();
  if (*at == '{') return inner();
  if (word("true") || word("false") || word("null")) return true;
  return number();
}

static bool object(int n_keys, char **keys) {
  int found = 0;
  if (!take('{')) return false;
  do {
    char key[256];
    blanks();
    if (!string(key, sizeof key) || !take(':') || !value()) return false;
    if (n_keys > 0 && (found >= n_keys || strcmp(key, keys[found]) != 0)) {
      fprintf(stderr, "unexpected key '%s'\n", key);
      return false;
    }
    found++;
  } while (take(','));
  return take('}') && strcmp(at, "\n") == 0 && (n_keys == 0 || found == n_keys);
}

int main(int argc, char **argv) {
  static char line[1 << 16];
  int lines = 0;
  while (fgets(line, sizeof line, stdin) != NULL) {
    lines++;
    at = line;
    if (object(argc - 1, argv + 1)) continue;
    fprintf(stderr, "line %d: wrong at '%.40s'\n", lines, at);
    return 1;
  }
  printf("%d\n", lines);
  return lines > 0 ? 0 : 1;
}
