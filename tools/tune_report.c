#include <inttypes.h>
#include <math.h>

#include "tools/tools.h"
#include "tools/tune.h"

#define GOOD 1.25 /* times the best: what the selector should reach */
#define SAME 1.1  /* figures closer than this do not differ */

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
    fprintf(to, "# no time was left for %zu points\n", table->skipped);
  }
}

/* ---- as Markdown --------------------------------------------------------- */

typedef struct tally {
  size_t points, good;
  const gli_tune_point *worst; /* NULL: no point yet */
} tally;

static void count(tally *t, const gli_tune_point *p) {
  double ratio = gli_tune_ratio(p);
  t->points++;
  t->good += ratio <= GOOD;
  if (t->worst == NULL || ratio > gli_tune_ratio(t->worst)) t->worst = p;
}

static void print_tally(FILE *to, const char *name, const tally *t) {
  char size[GLI_BYTES_TEXT];
  const gli_tune_point *w = t->worst;
  fprintf(to, "| %s | %zu of %zu (%.0f %%) | %.2f: %s at %s, %s is best |\n",
          name, t->good, t->points, 100.0 * (double)t->good / (double)t->points,
          gli_tune_ratio(w), w->choice->name, gli_format_bytes(w->bytes, size),
          best_name(w));
}

void gli_tune_print_report(FILE *to, const gli_tune_table *table) {
  tally all = {0}, one = {0};
  fprintf(
      to,
      "| collective | within %.2f times the best | worst |\n|---|---|---|\n",
      GOOD);
  for (size_t i = 0; i < table->n_points; i++) {
    const gli_tune_point *p = &table->points[i];
    count(&all, p);
    count(&one, p);
    bool last = i + 1 == table->n_points ||
                table->points[i + 1].collective != p->collective;
    if (!last) continue;
    print_tally(to, gli_collective_name(p->collective), &one);
    one = (tally){0};
  }
  if (all.points > 0) print_tally(to, "all", &all);
}

/* ---- the file ------------------------------------------------------------ */

/* Where one size ends and the next begins: in the middle, as ratios go. */
static uint64_t border(uint64_t below, uint64_t above) {
  return (uint64_t)sqrt((double)below * (double)above);
}

/* The one that the file names: the one before, where the best is hardly better.
 */
static size_t named(const gli_tune_point *p, size_t before) {
  bool stays = p->us[before] > 0 && p->us[before] <= SAME * p->best_us;
  return stays ? before : p->best;
}

/* The figures, for who wants to know why. */
static void write_figures(FILE *to, const gli_tune_point *p) {
  fprintf(to, "# %s %" PRIu64 ":", gli_collective_name(p->collective),
          p->bytes);
  const gli_algorithm *a;
  const char *separator = " ";
  for (size_t i = 0; i < GLI_TUNE_MAX_ALGORITHMS &&
                     (a = gli_tune_algorithm(p->collective, i)) != NULL;
       i++) {
    if (p->us[i] == 0) continue;
    fprintf(to, "%s%s %.4g us", separator, a->name, p->us[i]);
    separator = ", ";
  }
  fprintf(to, "\n");
}

static void write_collective(FILE *to, const gli_tune_point *points, size_t n,
                             const char *where) {
  char text[GLI_BYTES_TEXT];
  gli_collective collective = points[0].collective;
  size_t current = points[0].best;
  for (size_t i = 0; i < n; i++) write_figures(to, &points[i]);
  fprintf(to, "%s%s:0-", gli_collective_name(collective), where);
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
