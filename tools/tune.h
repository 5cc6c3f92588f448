/* `gloo tune`: measures which algorithm is best here. */
#ifndef GLI_TOOLS_TUNE_H
#define GLI_TOOLS_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "algorithms/registry.h"
#include "tools/bench.h"

enum { GLI_TUNE_MAX_POINTS = 512, GLI_TUNE_MAX_ALGORITHMS = 16 };

/* One collective at one size. */
typedef struct gli_tune_point {
  gli_collective collective;
  uint64_t bytes;
  const gli_algorithm *choice; /* the selector's choice */
  double choice_us, best_us;   /* 0: not measured */
  double us[GLI_TUNE_MAX_ALGORITHMS];
  size_t best; /* index for gli_tune_algorithm of the collective */
} gli_tune_point;

typedef struct gli_tune_table {
  gli_tune_point points[GLI_TUNE_MAX_POINTS]; /* by collective, ascending */
  size_t n_points, skipped;
} gli_tune_table;

/* A table, and what it was measured on. */
typedef struct gli_tune_source {
  int ranks;
  char transport[16], memory[16];
  gli_tune_table table;
} gli_tune_source;

typedef struct gli_tune_settings {
  const char *transport, *memory, *output, *collectives, *host;
  uint64_t min, max;
  int64_t factor;
  double seconds; /* approximate total */
  bool report;    /* prints how good the choices are, instead of a file */
} gli_tune_settings;

/* ---- tune_measure.c ------------------------------------------------------ */

/* Measures. Collective; all ranks get the same table. Returns false if a rank
 * failed; that rank has printed the cause. */
bool gli_tune_measure(gli_bench_rank *rank, const gli_tune_settings *settings,
                      gli_tune_table *table);

/* Returns true if the collective is in the list, or the list is empty. */
bool gli_tune_wants(const gli_tune_settings *settings,
                    gli_collective collective);
/* Returns algorithm number i of a collective, or NULL. */
const gli_algorithm *gli_tune_algorithm(gli_collective collective, size_t i);
/* Returns true if the collective can be measured and has several algorithms. */
bool gli_tune_knows(gli_collective collective);
void gli_tune_sort(gli_tune_table *table);

/* ---- tune_read.c --------------------------------------------------------- */

/* Reads a file of gli_tune_write. Returns false if the file has another format,
 * after printing the cause with the line. */
bool gli_tune_read(const char *file, gli_tune_source *from);

/* ---- tune_report.c ------------------------------------------------------- */

/* Returns how many times slower than the best the choice is: 1 or more. */
double gli_tune_ratio(const gli_tune_point *point);
void gli_tune_print(FILE *to, const gli_tune_table *table);
/* Prints how good the choices are, as Markdown: a column for each of n sources.
 */
void gli_tune_print_report(FILE *to, const gli_tune_source *from, size_t n);
/* Writes a tuning file. `where` has the qualifiers, such as "@shm@ranks=2". */
void gli_tune_write(FILE *to, const gli_tune_table *table,
                    const gli_tune_settings *settings, const char *where,
                    int ranks);

#endif
