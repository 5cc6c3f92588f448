/* Reads tables of times that `gloo tune` wrote: the comments of its files. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options.h"
#include "tools/tune.h"

enum { LINE_BYTES = 4096 };

/* A line, and the rest of it that is not yet read. */
typedef struct reader {
  const char *name; /* name of the file */
  int line;
  const char *at;
  char text[LINE_BYTES];
} reader;

static bool complain(const reader *r, const char *what) {
  fprintf(stderr, "gloo tune: %s, line %d: %s\n", r->name, r->line, what);
  return false;
}

/* ---- words --------------------------------------------------------------- */

static bool skip(reader *r, const char *word) {
  size_t length = strlen(word);
  if (strncmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

/* Reads up to a space or a mark between words. Returns false if there is no
 * word, or no room. */
static bool read_word(reader *r, char *word, size_t room) {
  size_t n = strcspn(r->at, " ,;:\n");
  if (n == 0 || n >= room) return false;
  memcpy(word, r->at, n);
  word[n] = 0;
  r->at += n;
  return true;
}

static bool read_time(reader *r, double *us) {
  char *end;
  *us = strtod(r->at, &end);
  if (end == r->at || !(*us > 0 && *us < 1e12)) return false;
  r->at = end;
  return skip(r, " us");
}

/* ---- lines --------------------------------------------------------------- */

static bool read_header(reader *r, gli_tune_source *from) {
  char *end;
  long ranks = strtol(r->at, &end, 10);
  if (ranks < 2 || ranks > 1000000) return complain(r, "ranks are missing");
  from->ranks = (int)ranks;
  r->at = end;
  bool good = skip(r, " ranks, transport ") &&
              read_word(r, from->transport, sizeof from->transport) &&
              skip(r, ", memory of ") &&
              read_word(r, from->memory, sizeof from->memory);
  return good || complain(r, "transport and memory are missing");
}

/* Finds the index of an algorithm in its collective; returns false if there is
 * none. */
static bool find(gli_collective collective, const char *name, size_t *i) {
  const gli_algorithm *a;
  for (*i = 0; *i < GLI_TUNE_MAX_ALGORITHMS; (*i)++) {
    a = gli_tune_algorithm(collective, *i);
    if (a == NULL) return false;
    if (strcmp(a->name, name) == 0) return true;
  }
  return false;
}

static bool read_times(reader *r, gli_tune_point *p) {
  char name[64];
  for (const char *before = "; "; skip(r, before); before = ", ") {
    size_t i;
    if (!read_word(r, name, sizeof name) || !find(p->collective, name, &i)) {
      return complain(r, "unknown algorithm");
    }
    if (!skip(r, " ") || !read_time(r, &p->us[i])) {
      return complain(r, "a time is missing");
    }
    if (p->best_us > 0 && p->best_us <= p->us[i]) continue;
    p->best = i;
    p->best_us = p->us[i];
  }
  if (*r->at != '\n' && *r->at != 0) return complain(r, "times are expected");
  return true;
}

/* Reads the text after the name of a collective. */
static bool read_point(reader *r, gli_tune_point *p) {
  char name[64], *end;
  size_t chosen;
  p->bytes = strtoull(r->at, &end, 10);
  if (end == r->at) return complain(r, "a number of bytes is missing");
  r->at = end;
  if (!skip(r, ": chosen ") || !read_word(r, name, sizeof name) ||
      !find(p->collective, name, &chosen)) {
    return complain(r, "the chosen algorithm is missing");
  }
  p->choice = gli_tune_algorithm(p->collective, chosen);
  if (!read_times(r, p)) return false;
  p->choice_us = p->us[chosen];
  if (p->choice_us > 0) return true;
  return complain(r, "the chosen algorithm has no time");
}

/* Other comments, and rules, have no times. */
static bool read_line(reader *r, gli_tune_source *from) {
  char name[64];
  gli_tune_table *table = &from->table;
  gli_tune_point p = {.bytes = 0};
  r->at = r->text;
  if (!skip(r, "# ")) return true;
  if (skip(r, "Measured by gloo tune: ")) return read_header(r, from);
  if (!read_word(r, name, sizeof name) || !skip(r, " ")) return true;
  if (!gli_collective_from_name(name, &p.collective)) return true;
  if (!read_point(r, &p)) return false;
  if (table->n_points == GLI_TUNE_MAX_POINTS) {
    return complain(r, "too many points");
  }
  table->points[table->n_points++] = p;
  return true;
}

bool gli_tune_read(const char *name, gli_tune_source *from) {
  FILE *file = fopen(name, "r");
  reader *r = malloc(sizeof *r);
  bool good = file != NULL && r != NULL;
  if (!good) fprintf(stderr, "gloo tune: cannot read %s\n", name);
  *from = (gli_tune_source){.ranks = 0};
  if (r != NULL) *r = (reader){.name = name};
  while (good && fgets(r->text, sizeof r->text, file) != NULL) {
    r->line++;
    good = read_line(r, from);
  }
  if (good && ferror(file)) good = complain(r, "cannot be read");
  if (good && (from->ranks == 0 || from->table.n_points == 0)) {
    good = complain(r, "the file has no times from gloo tune");
  }
  if (good) gli_tune_sort(&from->table);
  if (file != NULL) fclose(file);
  free(r);
  return good;
}
