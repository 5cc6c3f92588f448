/* `gloo bench overlap`: measures how much of many non-blocking allreduces hides
 * behind computation. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "core/cpu.h"
#include "core/json.h"
#include "tools/bench.h"
#include "tools/overlap.h"
#include "tools/overlap_cores.h"
#include "tools/progress.h"
#include "tools/tools.h"

enum { MAX_COUNT = 1000, MAX_ROUNDS = 1000, VECTOR = 1024 };

typedef enum place { BUSY, SPARE, AWAY } place;
static const char *const place_names[] = {"busy", "spare", "away"};

static struct {
  const char *transport, *compute;
  uint64_t bytes;
  int64_t count, rounds;
  bool json, no_helper;
} given = {.compute = "busy", .bytes = 64 << 10, .count = 100, .rounds = 20};

static const gli_option options[] = {
    {"size", 0, GLI_OPTION_BYTES, &given.bytes, "BYTES",
     "bytes of each allreduce (64K)", 4, INT64_C(1) << 30},
    {"count", 0, GLI_OPTION_INTEGER, &given.count, "N",
     "concurrent allreduces (100)", 1, MAX_COUNT},
    {"rounds", 0, GLI_OPTION_INTEGER, &given.rounds, "N",
     "repetitions; medians are printed (20)", 1, MAX_ROUNDS},
    {"compute", 0, GLI_OPTION_TEXT, &given.compute, "WHERE",
     "busy, spare or away; see above (busy)", 0, 0},
    {"transport", 0, GLI_OPTION_TEXT, &given.transport, "NAME",
     "auto, shm or tcp (auto)", 0, 0},
    {"no-helper", 0, GLI_OPTION_FLAG, &given.no_helper, NULL,
     "without the library's helper thread", 0, 0},
    {"json", 0, GLI_OPTION_FLAG, &given.json, NULL, "print a JSON object", 0,
     0},
};

static const gli_command command = {
    .name = "bench overlap",
    .usage = "gloo run -n N -- gloo bench overlap [options]",
    .about =
        "Starts many non-blocking allreduces (float32 sums), computes for\n"
        "about as long as they take, and waits for them. Prints the time of\n"
        "communication alone, of computation alone and of both together, the\n"
        "ratio of the last to the longer of the others, and the share of the\n"
        "shorter one that was hidden. Results are verified.\n"
        "  busy    every rank computes, on any core\n"
        "  spare   half of the cores compute, the other half communicate. The\n"
        "          library's helper threads stay on the communicating half,\n"
        "          and so do the ranks while they communicate alone. "
        "Otherwise\n"
        "          all ranks share the computing half: they start their\n"
        "          allreduces, compute, and then wait for the rest. So each\n"
        "          part has the same cores alone and combined.\n"
        "  away    an accelerator computes: the ranks sleep meanwhile\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* One rank, and the three times of a round: communication, computation, both.
 */
enum { COMMUNICATE, COMPUTE, BOTH, KINDS };

typedef struct overlap {
  gloo_context *context;
  gli_meeting meeting;
  place where;
  unsigned cores; /* cores of all ranks together */
  gli_bench_case c;
  gli_bench_buffers *sets; /* [count] */
  gloo_request **operations;
  uint64_t work; /* iterations, or nanoseconds to sleep */
  double *us;    /* [KINDS * rounds] */
  gloo_error error;
} overlap;

/* ---- computation --------------------------------------------------------- */

static void calculate(uint64_t iterations) {
  static float x[VECTOR];
  for (uint64_t k = 0; k < iterations; k++) {
    for (int i = 0; i < VECTOR; i++) x[i] = x[i] * 0.999F + (float)i;
    __asm__ volatile("" : : "r"(x) : "memory"); /* needed each time */
  }
}

static void sleep_ns(uint64_t ns) {
  struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000),
                           .tv_nsec = (long)(ns % 1000000000)};
  nanosleep(&pause, NULL);
}

static void compute(const overlap *o) {
  if (o->where == AWAY) {
    sleep_ns(o->work);
  } else {
    calculate(o->work);
  }
}

/* ---- communication ------------------------------------------------------- */

static gloo_status start_all(overlap *o, size_t *started) {
  gloo_options call = GLOO_OPTIONS_INIT;
  gloo_status status = GLOO_OK;
  for (*started = 0; *started < (size_t)given.count; ++*started) {
    const gli_bench_buffers *b = &o->sets[*started];
    status = gloo_allreduce_start(o->context, b->in, b->out, o->c.count,
                                  GLOO_FLOAT32, GLOO_SUM, &call,
                                  &o->operations[*started], &o->error);
    if (status != GLOO_OK) break;
  }
  return status;
}

static gloo_status wait_all(overlap *o, size_t started) {
  gloo_status all = GLOO_OK;
  for (size_t i = 0; i < started; i++) {
    gloo_status status =
        gloo_request_wait(o->operations[i], GLOO_TIMEOUT_DEFAULT, NULL);
    if (status != GLOO_OK && all == GLOO_OK) {
      all = status;
      gloo_request_error(o->operations[i], &o->error);
    }
    gloo_request_destroy(o->operations[i]);
  }
  return all;
}

/* ---- measuring ----------------------------------------------------------- */

static bool keep_to(overlap *o, gli_half half) {
  if (o->where != SPARE || gli_halves_keep_to(half)) return true;
  gli_fail(&o->error, GLOO_ERR_IO, -1, "cannot bind a thread to cores");
  return false;
}

/* The system gives each rank that shares a core a long time slice, so all ranks
 * start before one computes, and all compute before one waits. */
static gloo_status compute_together(overlap *o) {
  bool meets = o->where == SPARE;
  gloo_status status = GLOO_OK;
  if (meets) status = gli_meeting_wait(&o->meeting, &o->error);
  if (status == GLOO_OK) compute(o);
  if (meets && status == GLOO_OK) {
    status = gli_meeting_wait(&o->meeting, &o->error);
  }
  return status;
}

static bool measure_one(overlap *o, int kind, double *us) {
  bool computes = kind != COMMUNICATE;
  if (!keep_to(o, computes ? GLI_HALF_COMPUTES : GLI_HALF_COMMUNICATES)) {
    return false;
  }
  if (gli_meeting_wait(&o->meeting, &o->error) != GLOO_OK) return false;
  size_t started = 0;
  gloo_status status = GLOO_OK;
  uint64_t begin = uv_hrtime();
  if (kind != COMPUTE) status = start_all(o, &started);
  if (computes && status == GLOO_OK) status = compute_together(o);
  gloo_status waited = wait_all(o, started);
  *us = (double)(uv_hrtime() - begin) / 1e3;
  return status == GLOO_OK && waited == GLOO_OK;
}

static bool verify(overlap *o) {
  char where[GLI_CASE_WHERE];
  for (int64_t i = 0; i < given.count; i++) {
    if (gli_case_check(&o->c, &o->sets[i], where)) continue;
    gli_fail(&o->error, GLOO_ERR_INTERNAL, -1, "wrong result: %s", where);
    return false;
  }
  return true;
}

/* Replaces times by those of the slowest rank. */
static bool slowest(overlap *o, double *us, size_t n) {
  gloo_options call = GLOO_OPTIONS_INIT;
  return gloo_allreduce(o->context, GLOO_IN_PLACE, us, n, GLOO_FLOAT64,
                        GLOO_MAX, &call, &o->error) == GLOO_OK;
}

/* Chooses the work that takes about as long as the communication, on all ranks.
 */
static bool choose_work(overlap *o) {
  double communicate = 0, us = 0;
  for (int i = 0; i < 3; i++) {
    if (!measure_one(o, COMMUNICATE, &communicate)) return false;
  }
  if (!slowest(o, &communicate, 1)) return false;
  if (o->where == AWAY) {
    o->work = (uint64_t)(communicate * 1e3);
    return true;
  }
  o->work = 16;
  do {
    o->work *= 2;
    if (!measure_one(o, COMPUTE, &us) || !slowest(o, &us, 1)) return false;
  } while (us < communicate && o->work < UINT64_C(1) << 40);
  double fitting = (double)o->work * communicate / us;
  o->work = fitting < 1 ? 1 : (uint64_t)fitting;
  return true;
}

static bool measure(overlap *o) {
  if (!choose_work(o)) return false;
  size_t rounds = (size_t)given.rounds;
  for (size_t i = 0; i < rounds; i++) {
    for (int kind = 0; kind < KINDS; kind++) {
      double *us = &o->us[(size_t)kind * rounds + i];
      if (!measure_one(o, kind, us)) return false;
    }
    gli_progress_step();
  }
  return verify(o) && slowest(o, o->us, KINDS * rounds);
}

/* ---- the report ---------------------------------------------------------- */

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

static void report(const overlap *o) {
  double median[KINDS];
  for (int kind = 0; kind < KINDS; kind++) {
    double *us = o->us + kind * given.rounds;
    qsort(us, (size_t)given.rounds, sizeof *us, compare);
    median[kind] = us[given.rounds / 2];
  }
  double longer = larger(median[COMMUNICATE], median[COMPUTE]);
  double shorter = median[COMMUNICATE] + median[COMPUTE] - longer;
  double ratio = median[BOTH] / longer;
  double hidden = (longer + shorter - median[BOTH]) / shorter;
  if (!given.json) {
    printf("# gloo_c: %" PRId64 " allreduces of %" PRIu64
           " bytes, %d ranks, computing: %s\n"
           "communication alone  %10.1f us\n"
           "computation alone    %10.1f us\n"
           "both                 %10.1f us\n"
           "both / the longer    %10.2f\n"
           "hidden               %10.0f %%\n",
           given.count, o->c.bytes, o->c.ranks, place_names[o->where],
           median[COMMUNICATE], median[COMPUTE], median[BOTH], ratio,
           100 * hidden);
    return;
  }
  gli_json out;
  gli_json_open(&out, stdout);
  gli_json_text(&out, "compute", place_names[o->where]);
  gli_json_bool(&out, "helper", !given.no_helper);
  gli_json_integer(&out, "ranks", (uint64_t)o->c.ranks);
  gli_json_integer(&out, "cores", o->cores);
  gli_json_integer(&out, "count", (uint64_t)given.count);
  gli_json_integer(&out, "bytes", o->c.bytes);
  gli_json_number(&out, "communication_us", median[COMMUNICATE]);
  gli_json_number(&out, "computation_us", median[COMPUTE]);
  gli_json_number(&out, "both_us", median[BOTH]);
  gli_json_number(&out, "ratio", ratio);
  gli_json_number(&out, "hidden", hidden);
  gli_json_bool(&out, "verified", true);
  gli_json_close(&out);
}

/* ---- a rank -------------------------------------------------------------- */

static bool allocate(overlap *o) {
  size_t count = (size_t)given.count;
  gli_bench_call call = {
      .collective = GLI_ALLREDUCE, .dtype = GLOO_FLOAT32, .op = GLOO_SUM};
  o->sets = calloc(count, sizeof *o->sets);
  o->operations = calloc(count, sizeof(gloo_request *));
  o->us = calloc(KINDS * (size_t)given.rounds, sizeof *o->us);
  bool good = gli_case_init(&o->c, &call, o->context, given.bytes) &&
              o->sets != NULL && o->operations != NULL && o->us != NULL;
  for (size_t i = 0; good && i < count; i++) {
    good = gli_case_allocate(&o->c, &o->sets[i]);
    if (good) good = gli_case_fill(&o->c, &o->sets[i]);
  }
  if (!good) gli_fail(&o->error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
  return good;
}

static void release(overlap *o) {
  for (int64_t i = 0; o->sets != NULL && i < given.count; i++) {
    gli_case_free(&o->sets[i]);
  }
  gli_case_destroy(&o->c);
  free(o->sets);
  free(o->operations);
  free(o->us);
}

static bool work(overlap *o) {
  if (gli_meeting_open(&o->meeting, o->context, &o->error) != GLOO_OK) {
    return false;
  }
  if (gloo_context_rank(o->context) == 0)
    gli_progress_begin("gloo bench overlap", (uint64_t)given.rounds);
  bool good = allocate(o) && measure(o);
  gli_progress_end();
  if (!good) gli_meeting_break(&o->meeting);
  if (good && gloo_context_rank(o->context) == 0) report(o);
  release(o);
  gli_meeting_close(&o->meeting);
  return good;
}

static bool choose_place(place *where) {
  for (int i = 0; i < 3; i++) {
    if (strcmp(given.compute, place_names[i]) != 0) continue;
    *where = (place)i;
    if (*where != SPARE || gli_halves_find()) return true;
    gli_usage_error(&command,
                    "option --compute: no core is left to communicate on (gloo "
                    "run --no-bind lets ranks that share cores spread)");
    return false;
  }
  gli_usage_error(&command,
                  "option --compute: '%s' is not one of busy, spare, away",
                  given.compute);
  return false;
}

int gli_bench_overlap(int argc, char **argv) {
  gli_parse parsed = gli_options_parse(&command, argc, argv, NULL);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  static overlap o;
  if (!choose_place(&o.where)) return GLI_EXIT_USAGE;
  gloo_device_options device = GLOO_DEVICE_OPTIONS_INIT;
  device.transport = given.transport;
  device.no_helper = given.no_helper;
  gloo_init_options init = GLOO_INIT_OPTIONS_INIT;
  init.device = &device;
  /* The library's threads stay on this thread's cores, and it counts these
   * only. */
  o.cores = gli_cpu_effective();
  if (!keep_to(&o, GLI_HALF_COMMUNICATES) ||
      gloo_init(&init, &o.context, &o.error) != GLOO_OK) {
    fprintf(stderr, "gloo bench overlap: %s\n", o.error.message);
    return GLI_EXIT_FAILED;
  }
  int rank = gloo_context_rank(o.context);
  bool good = work(&o);
  if (!good) gli_bench_complain(rank, &o.error);
  gloo_context_destroy(o.context);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
