#include <inttypes.h>
#include <math.h>

#include "tools/tools.h"
#include "tools/tune.h"

#define GOOD 1.25 /* times the best: goal for the selector */
#define SAME 1.1  /* figures closer than this do not differ */
#define FAR 3.0   /* ratio for algorithms too far behind to be measured */

double gli_tune_ratio(const gli_tune_point *point) {
  return point->best_us > 0 ? point->choice_us / point->best_us : 1;
}

static const char *best_name(const gli_tune_point *p) {
  return gli_tune_algorithm(p->collective, p->best)->name;
}

void gli_tune_print(FILE *to, const gli_tune_table *table) {
  size_t good = 0;
  fprintf(to,
          "# times in us, medians\n%-15s %10s  %-20s %11s  %-20s %11s %6s\n",
          "collective", "bytes", "chosen", "", "best", "", "ratio");
  for (size_t i = 0; i < table->n_points; i++) {
    const gli_tune_point *p = &table->points[i];
    double ratio = gli_tune_ratio(p);
    good += ratio <= GOOD;
    fprintf(to, "%-15s %10" PRIu64 "  %-20s %11.2f  %-20s %11.2f %6.2f%s\n",
            gli_collective_name(p->collective), p->bytes, p->choice->name,
            p->choice_us, best_name(p), p->best_us, ratio,
            ratio > GOOD ? " !" : "");
  }
  fprintf(to, "# the choice is within %.2f times the best at %zu of %zu points",
          GOOD, good, table->n_points);
  if (table->n_points > 0) {
    fprintf(to, " (%.0f %%)", 100.0 * (double)good / (double)table->n_points);
  }
  fprintf(to, "\n");
  if (table->skipped > 0) {
    fprintf(to, "# %zu points were not measured: the time was up\n",
            table->skipped);
  }
}

/* ---- as Markdown --------------------------------------------------------- */

typedef struct tally {
  size_t points, good;
  const gli_tune_point *worst; /* NULL: no point yet */
} tally;

/* Counts points of one collective, or, with GLI_COLLECTIVES, of all. */
static tally count(const gli_tune_table *table, gli_collective collective) {
  tally t = {0};
  for (size_t i = 0; i < table->n_points; i++) {
    const gli_tune_point *p = &table->points[i];
    double ratio = gli_tune_ratio(p);
    if (collective != GLI_COLLECTIVES && p->collective != collective) continue;
    t.points++;
    t.good += ratio <= GOOD;
    if (t.worst == NULL || ratio > gli_tune_ratio(t.worst)) t.worst = p;
  }
  return t;
}

static void print_row(FILE *to, const char *name, gli_collective collective,
                      const gli_tune_source *from, size_t n) {
  size_t points = 0;
  for (size_t i = 0; i < n; i++)
    points += count(&from[i].table, collective).points;
  if (points == 0) return;
  fprintf(to, "| %s |", name);
  for (size_t i = 0; i < n; i++) {
    tally t = count(&from[i].table, collective);
    if (t.points == 0) {
      fprintf(to, " – |");
      continue;
    }
    fprintf(to, " %zu of %zu", t.good, t.points);
    if (collective == GLI_COLLECTIVES) {
      fprintf(to, " (%.0f %%)", 100.0 * (double)t.good / (double)t.points);
    }
    fprintf(to, " |");
  }
  fprintf(to, "\n");
}

static void print_worst(FILE *to, const gli_tune_source *from, size_t n) {
  char size[GLI_BYTES_TEXT];
  fprintf(to, "| worst |");
  for (size_t i = 0; i < n; i++) {
    const gli_tune_point *w = count(&from[i].table, GLI_COLLECTIVES).worst;
    if (w == NULL) {
      fprintf(to, " – |");
      continue;
    }
    fprintf(to, " %.2f: %s at %s, %s instead of %s |", gli_tune_ratio(w),
            gli_collective_name(w->collective),
            gli_format_bytes(w->bytes, size), w->choice->name, best_name(w));
  }
  fprintf(to, "\n");
}

void gli_tune_print_report(FILE *to, const gli_tune_source *from, size_t n) {
  fprintf(to, "| within %.2f times the best |", GOOD);
  for (size_t i = 0; i < n; i++) {
    fprintf(to, " %d ranks, %s |", from[i].ranks, from[i].transport);
  }
  fprintf(to, "\n|---|");
  for (size_t i = 0; i < n; i++) fprintf(to, "---:|");
  fprintf(to, "\n");
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    gli_collective collective = (gli_collective)c;
    print_row(to, gli_collective_name(collective), collective, from, n);
  }
  print_row(to, "all", GLI_COLLECTIVES, from, n);
  print_worst(to, from, n);
}

/* ---- the file ------------------------------------------------------------ */

/* Returns the border between two sizes: the geometric mean. */
static uint64_t border(uint64_t below, uint64_t above) {
  return (uint64_t)sqrt((double)below * (double)above);
}

/* Returns the algorithm for the file: keeps the one before if the best is
 * hardly better. */
static size_t named(const gli_tune_point *p, size_t before) {
  bool stays = p->us[before] > 0 && p->us[before] <= SAME * p->best_us;
  return stays ? before : p->best;
}

/* Writes the figures, for users who want to know why, and for gli_tune_read. */
static void write_figures(FILE *to, const gli_tune_point *p) {
  fprintf(to, "# %s %" PRIu64 ": chosen %s", gli_collective_name(p->collective),
          p->bytes, p->choice->name);
  const gli_algorithm *a;
  const char *separator = "; ";
  for (size_t i = 0; i < GLI_TUNE_MAX_ALGORITHMS &&
                     (a = gli_tune_algorithm(p->collective, i)) != NULL;
       i++) {
    if (p->us[i] == 0) continue;
    fprintf(to, "%s%s %.4g us", separator, a->name, p->us[i]);
    separator = ", ";
  }
  fprintf(to, "\n");
}

/* Returns how far an algorithm is behind the best in total: a sum of
 * logarithms. An algorithm that was not measured was far behind. */
static double distance(const gli_tune_point *points, size_t n, size_t i) {
  double sum = 0;
  for (size_t k = 0; k < n; k++) {
    double us = points[k].us[i];
    sum += us > 0 ? log(us / points[k].best_us) : log(FAR);
  }
  return sum;
}

/* Writes one choice for all lengths, because no rank knows the length of the
 * vector. */
static void write_single(FILE *to, const gli_tune_point *points, size_t n) {
  gli_collective collective = points[0].collective;
  size_t best = 0;
  for (size_t i = 1; gli_tune_algorithm(collective, i) != NULL; i++) {
    if (distance(points, n, i) < distance(points, n, best)) best = i;
  }
  fprintf(to, "=%s\n", gli_tune_algorithm(collective, best)->name);
}

static void write_collective(FILE *to, const gli_tune_point *points, size_t n,
                             const char *where) {
  char text[GLI_BYTES_TEXT];
  gli_collective collective = points[0].collective;
  size_t current = points[0].best;
  for (size_t i = 0; i < n; i++) write_figures(to, &points[i]);
  fprintf(to, "%s%s:0-", gli_collective_name(collective), where);
  if (gli_collective_pairwise(collective)) {
    write_single(to, points, n);
    return;
  }
  for (size_t i = 1; i < n; i++) {
    size_t next = named(&points[i], current);
    if (next == current) continue;
    gli_format_bytes(border(points[i - 1].bytes, points[i].bytes), text);
    fprintf(to, "%s=%s,%s-", text,
            gli_tune_algorithm(collective, current)->name, text);
    current = next;
  }
  fprintf(to, "=%s\n", gli_tune_algorithm(collective, current)->name);
}

void gli_tune_write(FILE *to, const gli_tune_table *table,
                    const gli_tune_settings *settings, const char *where,
                    int ranks) {
  fprintf(to,
          "# Measured by gloo tune: %d ranks, transport %s, memory of %s; rank "
          "0 on\n# %s, gloo_c %s. For GLOO_TUNING_FILE.\n",
          ranks, settings->transport, settings->memory, settings->host,
          gloo_version());
  for (size_t i = 0, n; i < table->n_points; i += n) {
    for (n = 1; i + n < table->n_points; n++) {
      if (table->points[i + n].collective != table->points[i].collective) break;
    }
    write_collective(to, &table->points[i], n, where);
  }
}
