#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/collective.h"
#include "engine/engine.h"
#include "plan/shape.h"
#include "tools/options.h"
#include "tools/progress.h"
#include "tools/tune.h"

/* Each point is measured in rounds with all algorithms in each, so that a
 * moment of other load on the machine does not affect a single algorithm. */
enum { ROUNDS = 3 };
#define LONG ((uint64_t)1 << 20)  /* from here on, one round is enough */
#define HOPELESS 2.5              /* times the best */
#define SHORT ((uint64_t)4 << 10) /* below, all are measured */
#define MEAN_ALGORITHMS 5.0       /* per collective, to divide the time */

bool gli_tune_knows(gli_collective collective) {
  return collective != GLI_SENDRECV && gli_case_knows(collective) &&
         gli_tune_algorithm(collective, 1) != NULL;
}

bool gli_tune_wants(const gli_tune_settings *settings,
                    gli_collective collective) {
  const char *list = settings->collectives;
  if (list == NULL) return true;
  const char *name = gli_collective_name(collective);
  size_t length = strlen(name);
  for (const char *at = list;; at++) {
    size_t n = strcspn(at, ",");
    if (n == length && strncmp(at, name, n) == 0) return true;
    at += n;
    if (*at == 0) return false;
  }
}

const gli_algorithm *gli_tune_algorithm(gli_collective collective, size_t i) {
  for (size_t k = 0; k < gli_algorithm_count; k++) {
    const gli_algorithm *a = &gli_algorithms[k];
    if (a->collective == collective && i-- == 0) return a;
  }
  return NULL;
}

/* ---- one point ----------------------------------------------------------- */

/* An algorithm on its way up in sizes. All of this derives from figures that
 * are equal on all ranks. */
typedef struct runner {
  const gli_algorithm *algorithm;
  double us;    /* at this size; 0: not measured */
  double ratio; /* ratio to the best, at the size before */
  bool out;
} runner;

typedef struct field {
  gli_bench_rank *rank;
  gli_bench_call call;
  uint64_t previous; /* size */
  runner runners[GLI_TUNE_MAX_ALGORITHMS];
  size_t n;
} field;

static bool measure_one(field *f, runner *r, uint64_t bytes) {
  gli_bench_result result;
  gli_bench_call call = f->call;
  call.algorithm = r->algorithm->name;
  if (!gli_bench_measure(f->rank, &call, bytes, &result)) return false;
  if (r->us == 0 || result.p50_us < r->us) r->us = result.p50_us;
  return true;
}

/* Drops algorithms that are far behind and did not catch up. */
static void drop_out(field *f, uint64_t bytes, double best_us) {
  for (size_t i = 0; i < f->n; i++) {
    runner *r = &f->runners[i];
    if (r->out || r->us == 0) continue;
    double ratio = r->us / best_us;
    r->out = bytes >= SHORT && ratio > HOPELESS && ratio >= r->ratio;
    r->ratio = ratio;
  }
}

static bool measure_point(field *f, uint64_t bytes, gli_tune_point *point) {
  for (size_t i = 0; i < f->n; i++) f->runners[i].us = 0;
  int rounds = bytes >= LONG ? 1 : ROUNDS;
  for (int round = 0; round < rounds; round++) {
    for (size_t i = 0; i < f->n; i++) {
      runner *r = &f->runners[i];
      bool chosen = r->algorithm == point->choice;
      if (r->out && !chosen) continue;
      if (!measure_one(f, r, bytes)) return false;
    }
  }
  point->best = 0;
  for (size_t i = 0; i < f->n; i++) {
    const runner *r = &f->runners[i];
    point->us[i] = r->us;
    if (r->us == 0) continue;
    if (r->algorithm == point->choice) point->choice_us = r->us;
    if (point->best_us > 0 && point->best_us <= r->us) continue;
    point->best = i;
    point->best_us = r->us;
  }
  drop_out(f, bytes, point->best_us);
  return true;
}

/* Measures a point; all algorithms use the same buffers. */
static bool with_buffers(field *f, uint64_t bytes, gli_tune_point *point) {
  gli_bench_case *c = malloc(sizeof *c);
  gli_bench_buffers buffers;
  bool good = c != NULL;
  if (good) good = gli_case_init(c, &f->call, f->rank->context, bytes);
  good = good && gli_case_allocate(c, &buffers);
  if (c != NULL) gli_case_destroy(c);
  free(c);
  if (!good) {
    fprintf(stderr,
            "gloo tune: out of memory for buffers of %" PRIu64 " bytes\n",
            bytes);
    return false;
  }
  f->rank->sets = &buffers;
  good = measure_point(f, bytes, point);
  f->rank->sets = NULL;
  gli_case_free(&buffers);
  return good;
}

/* ---- all points ---------------------------------------------------------- */

/* Returns a count that makes the selector see the actual vector: with given
 * counts all blocks together, if every rank knows them. */
static uint64_t counted(const gli_bench_case *c) {
  gli_collective collective = c->call.collective;
  if (gli_collective_pairwise(collective)) return 0;
  if (!gli_collective_counted(collective)) return c->count;
  return c->bytes / gloo_dtype_size(c->call.dtype) / (uint64_t)c->ranks;
}

/* Returns the selector's choice, without tuning rules. */
static const gli_algorithm *selected(const field *f, uint64_t bytes) {
  gloo_context *context = f->rank->context;
  gli_bench_case *c = malloc(sizeof *c);
  if (c == NULL || !gli_case_init(c, &f->call, context, bytes)) {
    free(c);
    return NULL;
  }
  bool typed = f->call.collective != GLI_BARRIER;
  gli_plan_params p = {.collective = f->call.collective,
                       .rank = (uint32_t)c->rank,
                       .size = (uint32_t)c->ranks,
                       .root = (uint32_t)f->call.root,
                       .count = counted(c),
                       .elem_bytes = typed ? gloo_dtype_size(f->call.dtype) : 1,
                       .hosts = gli_context_hosts(context),
                       .oversubscribed = gli_context_oversubscribed(context),
                       .locality = gli_context_locality(context),
                       .tuning = gli_context_tuning(context)};
  gli_case_destroy(c);
  free(c);
  return gli_algorithm_select(&p);
}

/* Decides by rank 0's clock whether there is time for more. */
static bool has_time(const gli_bench_rank *rank, uint64_t ends_ns, bool *yes) {
  gloo_error error;
  gloo_options options = GLOO_OPTIONS_INIT;
  uint8_t more = uv_hrtime() < ends_ns;
  *yes = false;
  if (gloo_broadcast(rank->context, GLOO_IN_PLACE, &more, 1, GLOO_UINT8, 0,
                     &options, &error) != GLOO_OK) {
    return gli_bench_complain(gloo_context_rank(rank->context), &error);
  }
  *yes = more != 0;
  return true;
}

/* Measures one point of one collective, unless it equals the one before. */
static bool add_point(field *f, uint64_t size, uint64_t ends_ns,
                      gli_tune_table *table) {
  int ranks = gloo_context_size(f->rank->context);
  uint64_t bytes = gli_case_bytes(&f->call, ranks, size);
  bool first = f->previous == UINT64_MAX;
  if (bytes == f->previous) return true;
  f->previous = bytes;
  bool more = true; /* the shortest of each are measured in any case */
  if (!first && !has_time(f->rank, ends_ns, &more)) return false;
  if (!more || table->n_points == GLI_TUNE_MAX_POINTS) {
    table->skipped++;
    gli_progress_step();
    return true;
  }
  gli_tune_point *point = &table->points[table->n_points];
  *point = (gli_tune_point){.collective = f->call.collective,
                            .bytes = bytes,
                            .choice = selected(f, bytes)};
  if (!with_buffers(f, bytes, point)) return false;
  table->n_points++;
  gli_progress_step();
  return true;
}

static size_t count_points(const gli_tune_settings *settings) {
  size_t sizes = 0, points = 0;
  for (uint64_t size = settings->min; size <= settings->max;
       size *= (uint64_t)settings->factor) {
    sizes++;
  }
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    gli_collective collective = (gli_collective)c;
    if (!gli_tune_knows(collective)) continue;
    if (!gli_tune_wants(settings, collective)) continue;
    points += collective == GLI_BARRIER ? 1 : sizes;
  }
  return points > 0 ? points : 1;
}

static void begin(field *f, gli_bench_rank *rank, gli_collective collective) {
  f->rank = rank;
  f->call = rank->settings->call;
  f->call.collective = collective;
  f->previous = UINT64_MAX;
  /* On one host, two_level is one of the others under another name. */
  bool one_host = gli_context_hosts(rank->context) == NULL;
  const gli_algorithm *a;
  while (f->n < GLI_TUNE_MAX_ALGORITHMS &&
         (a = gli_tune_algorithm(collective, f->n)) != NULL) {
    bool another = one_host && strcmp(a->name, "two_level") == 0;
    f->runners[f->n++] = (runner){.algorithm = a, .out = another};
  }
}

static int in_order(const void *a, const void *b) {
  const gli_tune_point *x = a, *y = b;
  if (x->collective != y->collective) {
    return x->collective < y->collective ? -1 : 1;
  }
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

void gli_tune_sort(gli_tune_table *table) {
  qsort(table->points, table->n_points, sizeof table->points[0], in_order);
}

bool gli_tune_measure(gli_bench_rank *rank, const gli_tune_settings *settings,
                      gli_tune_table *table) {
  /* Half of the time is for the work around the timing, and for slow
   * algorithms. */
  gli_bench_settings bench = *rank->settings;
  bench.sets = 1;
  bench.seconds = settings->seconds / 2 / (double)count_points(settings) /
                  ((double)ROUNDS * MEAN_ALGORITHMS);
  gli_bench_rank own = *rank;
  own.settings = &bench;
  uint64_t ends_ns = uv_hrtime() + (uint64_t)(2e9 * settings->seconds);
  char text[GLI_BYTES_TEXT];
  field *fields = calloc(GLI_COLLECTIVES, sizeof *fields);
  size_t n = 0;
  bool good = fields != NULL;
  if (!good) fprintf(stderr, "gloo tune: out of memory\n");
  for (int c = 0; good && c < GLI_COLLECTIVES; c++) {
    gli_collective collective = (gli_collective)c;
    if (!gli_tune_knows(collective)) continue;
    if (!gli_tune_wants(settings, collective)) continue;
    begin(&fields[n++], &own, collective);
  }
  if (gloo_context_rank(rank->context) == 0)
    gli_progress_begin("gloo tune", count_points(settings));
  /* Short ones come first: if time runs out, the longest of all collectives are
   * skipped. */
  for (uint64_t size = settings->min; good && size <= settings->max;
       size *= (uint64_t)settings->factor) {
    for (size_t i = 0; good && i < n; i++) {
      gli_progress_say("%s %s", gli_collective_name(fields[i].call.collective),
                       gli_format_bytes(size, text));
      good = add_point(&fields[i], size, ends_ns, table);
    }
  }
  gli_progress_end();
  free(fields);
  gli_tune_sort(table);
  return good;
}
