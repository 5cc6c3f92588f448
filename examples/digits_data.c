#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"

/* ---- the file ----------------------------------------------------------- */

/* Reads a number from 0 to `max` and the separator after it. */
static bool read_number(const char **at, long max, long *number) {
  char *end;
  *number = strtol(*at, &end, 10);
  if (end == *at || *number < 0 || *number > max) return false;
  *at = *end == ',' ? end + 1 : end;
  return true;
}

static bool read_image(const char *line, image *one) {
  long number;
  for (int i = 0; i < PIXELS; i++) {
    if (!read_number(&line, 16, &number)) return false;
    one->pixels[i] = (float)number / 16;
  }
  if (!read_number(&line, CLASSES - 1, &number)) return false;
  one->label = (int)number;
  return *line == 0 || *line == '\r' || *line == '\n';
}

static bool append(images *all, const image *one, size_t *capacity) {
  if (all->count == *capacity) {
    size_t more = *capacity == 0 ? 2048 : 2 * *capacity;
    image *list = realloc(all->list, more * sizeof *list);
    if (list == NULL) return false;
    all->list = list;
    *capacity = more;
  }
  all->list[all->count++] = *one;
  return true;
}

static bool read_all(FILE *file, const char *path, images *all) {
  char line[512];
  size_t capacity = 0;
  for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
    image one;
    if (!read_image(line, &one)) {
      fprintf(stderr, "digits: %s: line %d is not 64 pixels and a label\n",
              path, number);
      return false;
    }
    if (!append(all, &one, &capacity)) {
      fprintf(stderr, "digits: out of memory\n");
      return false;
    }
  }
  if (all->count > 0 && !ferror(file)) return true;
  fprintf(stderr, "digits: %s: %s\n", path,
          ferror(file) ? "cannot be read" : "is empty");
  return false;
}

bool images_load(const char *path, images *all) {
  all->list = NULL;
  all->count = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    perror(path);
    fprintf(stderr, "digits: name the file: digits path/to/digits.csv\n");
    return false;
  }
  bool good = read_all(file, path, all);
  fclose(file);
  if (!good) free(all->list);
  return good;
}

/* ---- random numbers ----------------------------------------------------- */

/* splitmix64: Steele, Lea and Flood 2014. */
uint64_t random_next(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

float random_uniform(uint64_t *state) {
  return (float)(random_next(state) >> 40) / 8388608.0f - 1;
}

void random_shuffle(uint64_t *state, size_t *list, size_t count) {
  for (size_t i = count; i > 1; i--) {
    size_t other = (size_t)(random_next(state) % i);
    size_t kept = list[i - 1];
    list[i - 1] = list[other];
    list[other] = kept;
  }
}

void images_find(const char *named, const char *program, char *path,
                 size_t bytes) {
  if (named != NULL) {
    snprintf(path, bytes, "%s", named);
    return;
  }
  const char *slash = strrchr(program, '/');
  int directory = slash != NULL ? (int)(slash - program) + 1 : 0;
  snprintf(path, bytes, "%.*sdata/digits.csv", directory, program);
}
