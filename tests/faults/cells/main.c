/* The matrix of faults, calls and transports, or the selected part of it.
 *
 *   fault_cells [--over tcp|shm|hosts] [--fault NAME]... [--call NAME]...
 *               [--seeds N | --seed N] [--sample N] [--records FILE]
 *               [--other PID] [--list]
 *
 * Prints TAP, a line for each fault, and for a cell that fails the options that
 * play it again. --sample: plays N cells of each fault instead of all, others
 * each time unless a seed is given. --records: writes a line per rank, for
 * table.py. */
#include <stdlib.h>
#include <string.h>

#include "cell.h"

enum { MOST_NAMES = 32 };

typedef struct choice {
  const char *names[MOST_NAMES];
  int count;
} choice;

typedef struct options {
  cell_over over;
  choice faults, calls;
  unsigned first_seed, seeds, sample;
  FILE *records;
} options;

static bool is_chosen(const choice *c, const char *name) {
  for (int i = 0; i < c->count; i++)
    if (strcmp(c->names[i], name) == 0) return true;
  return c->count == 0;
}

static void choose(choice *c, const char *name) {
  if (c->count < MOST_NAMES) c->names[c->count++] = name;
}

static cell_over over_named(const char *name) {
  for (int i = 0; i < CELL_OVERS; i++)
    if (strcmp(cell_over_names[i], name) == 0) return (cell_over)i;
  fprintf(stderr, "no transport is %s\n", name);
  exit(2);
}

static void list_all(void) {
  for (int f = 0; f < cell_fault_count; f++)
    printf("fault %s\n", cell_faults[f].name);
  for (int k = 0; k < cell_call_count; k++)
    printf("call %s\n", cell_call_names[k]);
  exit(0);
}

static options read_options(int argc, char **argv) {
  options o = {.over = CELL_TCP, .first_seed = 1, .seeds = 1};
  bool seeded = false;
  for (int i = 1; i < argc; i += 2) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(name, "--list") == 0) list_all();
    if (strcmp(name, "--over") == 0) {
      o.over = over_named(value);
    } else if (strcmp(name, "--fault") == 0) {
      choose(&o.faults, value);
    } else if (strcmp(name, "--call") == 0) {
      choose(&o.calls, value);
    } else if (strcmp(name, "--seed") == 0) {
      o.first_seed = (unsigned)strtoul(value, NULL, 10);
      seeded = true;
    } else if (strcmp(name, "--seeds") == 0) {
      o.seeds = (unsigned)strtoul(value, NULL, 10);
    } else if (strcmp(name, "--sample") == 0) {
      o.sample = (unsigned)strtoul(value, NULL, 10);
    } else if (strcmp(name, "--records") == 0) {
      o.records = fopen(value, "a");
    } else if (strcmp(name, "--other") == 0) {
      cell_other_host = (pid_t)atoi(value);
    } else {
      fprintf(stderr, "unknown option %s\n", name);
      exit(2);
    }
  }
  if (o.sample > 0 && !seeded) o.first_seed = (unsigned)cell_now_ns() >> 8;
  return o;
}

/* Returns true if the result is as expected. */
static bool play_one(const options *o, const cell_fault *fault, int kind,
                     unsigned seed) {
  cell c = {.fault = fault, .kind = kind, .over = o->over, .seed = seed};
  cell_draw(&c);
  if (cell_play(&c, o->records)) return true;
  printf("# again: --over %s --fault %s --call %s --seed %u\n",
         cell_over_names[o->over], fault->name, cell_call_names[kind], seed);
  return false;
}

typedef struct totals {
  unsigned cells, failed;
} totals;

static bool is_cell(const options *o, const cell_fault *fault, int kind) {
  return is_chosen(&o->calls, cell_call_names[kind]) &&
         cell_call_departs(kind, fault->departure);
}

static void play_and_count(const options *o, const cell_fault *fault, int kind,
                           unsigned seed, totals *t) {
  if (!is_cell(o, fault, kind)) return;
  t->cells++;
  if (!play_one(o, fault, kind, seed)) t->failed++;
}

static void play_all(const options *o, const cell_fault *fault, totals *t) {
  for (unsigned i = 0; i < o->seeds; i++)
    for (int kind = 0; kind < cell_call_count; kind++)
      play_and_count(o, fault, kind, o->first_seed + i, t);
}

static void play_sample(const options *o, const cell_fault *fault, totals *t) {
  unsigned random = o->first_seed + (unsigned)(fault - cell_faults) * 97u;
  while (t->cells < o->sample) {
    int kind = (int)cell_random(&random, (unsigned)cell_call_count);
    play_and_count(o, fault, kind, random >> 12, t);
  }
}

int main(int argc, char **argv) {
  options o = read_options(argc, argv);
  int number = 0, failed = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int f = 0; f < cell_fault_count; f++) {
    const cell_fault *fault = &cell_faults[f];
    totals t = {0, 0};
    if (!is_chosen(&o.faults, fault->name)) continue;
    if ((fault->over >> o.over & 1) == 0) continue;
    uint64_t begun_ns = cell_now_ns();
    if (o.sample > 0)
      play_sample(&o, fault, &t);
    else
      play_all(&o, fault, &t);
    failed += t.failed > 0;
    printf("%sok %d - %s: %u of %u cells over %s, %.1f s\n",
           t.failed > 0 ? "not " : "", ++number, fault->name,
           t.cells - t.failed, t.cells, cell_over_names[o.over],
           (double)(cell_now_ns() - begun_ns) / 1e9);
  }
  printf("1..%d\n", number);
  if (o.records != NULL) fclose(o.records);
  return failed > 0;
}
