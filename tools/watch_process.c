#include "tools/watch_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GENERATIONS_MOST = 64 };

/* Returns false if the process does not exist, or the system has no /proc. */
static bool process_read(int64_t process, char *state, int64_t *parent) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", process);
  FILE *from = fopen(path, "r");
  if (from == NULL) return false;
  size_t got = fread(line, 1, sizeof line - 1, from);
  fclose(from);
  line[got] = '\0';
  const char *after = strrchr(line, ')'); /* end of the name, which may have any
                                             characters */
  return after != NULL && sscanf(after, ") %c %" SCNd64, state, parent) == 2;
}

bool gli_process_is_stopped(int64_t process) {
  char state;
  int64_t parent;
  return process_read(process, &state, &parent) &&
         (state == 'T' || state == 't');
}

bool gli_process_is_below(int64_t process, int64_t ancestor) {
  char state;
  for (int i = 0; i < GENERATIONS_MOST && process > 0; i++) {
    if (process == ancestor) return true;
    if (!process_read(process, &state, &process)) return false;
  }
  return false;
}
