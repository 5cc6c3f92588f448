#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "core/environment.h"
#include "kernels/reduce.h"
#include "tools/bench.h"
#include "tools/tools.h"

#define MAX_BYTES (INT64_C(1) << 40)
#define ANYWHERE UINT64_MAX

/* Options as given on the command line. */
static struct {
  const char *sizes, *dtype, *op, *algorithm, *transport, *buffers, *memory,
      *svg;
  uint64_t min, max, offset;
  int64_t factor, streams, iterations, warmup, root, ranks;
  double seconds;
  bool in_place, untouched, json, threads;
} given = {.factor = 4, .warmup = 5, .seconds = 1.0, .offset = ANYWHERE};

static const gli_option options[] = {
    {"sizes", 0, GLI_OPTION_TEXT, &given.sizes, "A,B,..",
     "sizes of the larger buffer (4,1K,16K,256K,4M,64M)", 0, 0},
    {"min", 0, GLI_OPTION_BYTES, &given.min, "BYTES",
     "smallest size, instead of --sizes", 1, MAX_BYTES},
    {"max", 0, GLI_OPTION_BYTES, &given.max, "BYTES", "largest size", 1,
     MAX_BYTES},
    {"factor", 0, GLI_OPTION_INTEGER, &given.factor, "F",
     "factor from each size to the next (4)", 2, 1 << 20},
    {"dtype", 0, GLI_OPTION_TEXT, &given.dtype, "TYPE",
     "element type (float32)", 0, 0},
    {"op", 0, GLI_OPTION_TEXT, &given.op, "OP", "reduction (sum)", 0, 0},
    {"algorithm", 0, GLI_OPTION_TEXT, &given.algorithm, "NAME",
     "name, or 'all'; default: the library's choice", 0, 0},
    {"transport", 0, GLI_OPTION_TEXT, &given.transport, "NAME",
     "auto, shm, tcp or inproc (auto; with --threads inproc)", 0, 0},
    {"streams", 0, GLI_OPTION_INTEGER, &given.streams, "N",
     "connections per pair of ranks", 1, 16},
    {"time", 0, GLI_OPTION_SECONDS, &given.seconds, "SECONDS",
     "measuring time per line (1)", 0, 86400},
    {"iterations", 0, GLI_OPTION_INTEGER, &given.iterations, "N",
     "number of iterations, instead of --time", 1, GLI_BENCH_MAX_ITERATIONS},
    {"warmup", 0, GLI_OPTION_INTEGER, &given.warmup, "N",
     "iterations before the timed ones, fewer for slow calls (5)", 0,
     GLI_BENCH_MAX_ITERATIONS},
    {"in-place", 0, GLI_OPTION_FLAG, &given.in_place, NULL, "operate in place",
     0, 0},
    {"buffers", 0, GLI_OPTION_TEXT, &given.buffers, "N|fresh",
     "rotate N sets of buffers; fresh: one, allocated per line (fresh)", 0, 0},
    {"untouched", 0, GLI_OPTION_FLAG, &given.untouched, NULL,
     "do not touch buffers between calls (unrealistic)", 0, 0},
    {"memory", 0, GLI_OPTION_TEXT, &given.memory, "NAME",
     "buffers from malloc, gloo_alloc, or in GPU memory: cuda, hip (malloc)", 0,
     0},
    {"offset", 0, GLI_OPTION_BYTES, &given.offset, "BYTES",
     "offset of buffers from the start of a page (malloc's choice)", 0, 4096},
    {"root", 0, GLI_OPTION_INTEGER, &given.root, "RANK",
     "root of rooted collectives (0)", 0, INT32_MAX},
    {"json", 0, GLI_OPTION_FLAG, &given.json, NULL,
     "print one JSON object per line", 0, 0},
    {"svg", 0, GLI_OPTION_TEXT, &given.svg, "FILE",
     "also write a plot of time against size", 0, 0},
    {"ranks", 0, GLI_OPTION_INTEGER, &given.ranks, "N",
     "number of ranks, with --threads", 1, 1024},
    {"threads", 0, GLI_OPTION_FLAG, &given.threads, NULL,
     "run the ranks as threads of this process", 0, 0},
};

static const gli_command command = {
    .name = "bench",
    .usage =
        "gloo run -n N -- gloo bench COLLECTIVE [options]\n"
        "       gloo bench COLLECTIVE --ranks N --threads [options]\n"
        "       gloo run -n N -- gloo bench overlap [options]\n"
        "       gloo bench limits [options]\n"
        "       gloo bench start [options]",
    .about =
        "COLLECTIVE is one of barrier, broadcast, reduce, allreduce, scan,\n"
        "exscan, reduce_scatter, allgather, gather, scatter, alltoall; with\n"
        "blocks of different lengths reduce_scatterv, allgatherv, gatherv,\n"
        "scatterv, alltoallv; sendrecv (round trips between ranks 0 and 1, 2\n"
        "and 3, ...). Before each call every rank writes its input, and the\n"
        "ranks synchronise outside the library; after it they read the "
        "output.\n"
        "None of this is timed. The time of an iteration is that of its\n"
        "slowest rank. Every rank compares its result bit by bit with the\n"
        "expected one before and after the timing; on a difference the "
        "program\n"
        "exits with status 1. algbw is bytes/p50; busbw counts the bytes that\n"
        "cross a rank's link.\n\n"
        "'gloo bench overlap' measures communication beside computation,\n"
        "'gloo bench limits' this machine without the library, and 'gloo "
        "bench\n"
        "start' how long a job takes to start; each has a --help.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* ---- choices by name ----------------------------------------------------- */

static bool unknown(const char *option, const char *value,
                    const char *const *known, size_t n_known) {
  char list[512];
  size_t used = 0;
  list[0] = 0;
  for (size_t i = 0; i < n_known && used < sizeof list; i++) {
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                             i > 0 ? ", " : "", known[i]);
  }
  gli_usage_error(&command, "%s: '%s' is not one of %s", option, value, list);
  return false;
}

static bool choose_collective(gli_bench_settings *s, const char *name) {
  if (gli_collective_from_name(name, &s->call.collective) &&
      gli_case_knows(s->call.collective)) {
    return true;
  }
  const char *known[GLI_COLLECTIVES + 3];
  size_t n_known = 0;
  for (int i = 0; i < GLI_COLLECTIVES; i++) {
    if (!gli_case_knows((gli_collective)i)) continue;
    known[n_known++] = gli_collective_name((gli_collective)i);
  }
  known[n_known++] = "overlap";
  known[n_known++] = "limits";
  known[n_known++] = "start";
  return unknown("collective", name, known, n_known);
}

static bool choose_dtype(gli_bench_settings *s) {
  s->call.dtype = GLOO_FLOAT32;
  if (given.dtype == NULL) return true;
  if (gli_dtype_from_name(given.dtype, &s->call.dtype)) return true;
  const char *known[GLOO_DTYPE_COUNT];
  for (int i = 0; i < GLOO_DTYPE_COUNT; i++) {
    known[i] = gloo_dtype_name((gloo_dtype)i);
  }
  return unknown("option --dtype", given.dtype, known, GLOO_DTYPE_COUNT);
}

static bool choose_op(gli_bench_settings *s) {
  s->call.op = GLOO_SUM;
  if (given.op != NULL && !gli_op_from_name(given.op, &s->call.op)) {
    const char *known[GLOO_OP_COUNT];
    for (int i = 0; i < GLOO_OP_COUNT; i++) {
      known[i] = gloo_op_name((gloo_op)i);
    }
    return unknown("option --op", given.op, known, GLOO_OP_COUNT);
  }
  gli_collective collective = s->call.collective;
  if (!gli_collective_reduces(collective)) return true;
  const char *refusal = gli_reduce_refusal(s->call.dtype, s->call.op);
  if (refusal != NULL) {
    gli_usage_error(&command, "option --op: %s is not defined for %s: %s",
                    gloo_op_name(s->call.op), gloo_dtype_name(s->call.dtype),
                    refusal);
    return false;
  }
  bool prefix = collective == GLI_SCAN || collective == GLI_EXSCAN;
  if (!prefix || s->call.op != GLOO_AVERAGE) return true;
  gli_usage_error(&command, "option --op: %s has no average",
                  gli_collective_name(collective));
  return false;
}

static bool choose_algorithms(gli_bench_settings *s) {
  s->n_algorithms = 1;
  s->algorithms[0] = NULL;
  if (given.algorithm == NULL) return true;
  const char *known[GLI_BENCH_MAX_ALGORITHMS + 1];
  size_t n_known = 0;
  bool all = strcmp(given.algorithm, "all") == 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *algorithm = &gli_algorithms[i];
    if (algorithm->collective != s->call.collective) continue;
    if (n_known == GLI_BENCH_MAX_ALGORITHMS) break;
    known[n_known++] = algorithm->name;
    if (!all && strcmp(algorithm->name, given.algorithm) != 0) continue;
    s->algorithms[all ? n_known - 1 : 0] = algorithm->name;
  }
  if (n_known == 0 && !all) {
    gli_usage_error(&command,
                    "option --algorithm: %s has no algorithms to choose from",
                    gli_collective_name(s->call.collective));
    return false;
  }
  if (all && n_known > 0) s->n_algorithms = n_known;
  if (all || s->algorithms[0] != NULL) return true;
  known[n_known++] = "all";
  return unknown("option --algorithm", given.algorithm, known, n_known);
}

/* ---- sizes --------------------------------------------------------------- */

static bool add_size(gli_bench_settings *s, uint64_t bytes) {
  if (s->n_sizes == GLI_BENCH_MAX_SIZES) {
    gli_usage_error(&command, "more than %d sizes", GLI_BENCH_MAX_SIZES);
    return false;
  }
  s->sizes[s->n_sizes++] = bytes;
  return true;
}

static bool list_sizes(gli_bench_settings *s, const char *list) {
  for (const char *at = list;;) {
    char one[32];
    size_t length = strcspn(at, ",");
    int width = length < sizeof one ? (int)length : (int)sizeof one - 1;
    snprintf(one, sizeof one, "%.*s", width, at);
    uint64_t bytes;
    if (!gli_parse_bytes(one, &bytes) || bytes > (uint64_t)MAX_BYTES) {
      gli_usage_error(&command,
                      "option --sizes: '%s' is not a size up to 1024G, such as "
                      "4, 16K or 64M",
                      one);
      return false;
    }
    if (!add_size(s, bytes)) return false;
    if (at[length] == 0) return true;
    at += length + 1;
  }
}

static bool choose_sizes(gli_bench_settings *s) {
  if (s->call.collective == GLI_BARRIER) return add_size(s, 0);
  bool range = given.min != 0 || given.max != 0;
  if (!range) {
    return list_sizes(
        s, given.sizes != NULL ? given.sizes : "4,1K,16K,256K,4M,64M");
  }
  if (given.sizes != NULL) {
    gli_usage_error(&command, "give either --sizes or --min and --max");
    return false;
  }
  uint64_t min = given.min != 0 ? given.min : 4;
  uint64_t max = given.max != 0 ? given.max : UINT64_C(64) << 20;
  if (min > max) {
    gli_usage_error(&command,
                    "option --max: %" PRIu64 " is less than --min, %" PRIu64,
                    max, min);
    return false;
  }
  for (uint64_t bytes = min; bytes <= max; bytes *= (uint64_t)given.factor) {
    if (!add_size(s, bytes)) return false;
  }
  return true;
}

/* ---- ranks, buffers ------------------------------------------------------ */

static bool choose_ranks(gli_bench_settings *s) {
  s->threads = given.threads ? given.ranks : 0;
  if (given.threads && given.ranks == 0) {
    gli_usage_error(&command, "option --threads needs --ranks N");
    return false;
  }
  if (!given.threads && given.ranks != 0) {
    gli_usage_error(&command,
                    "option --ranks needs --threads; for processes use 'gloo "
                    "run -n %" PRId64 " -- gloo bench ...'",
                    given.ranks);
    return false;
  }
  s->transport = given.transport;
  if (s->transport == NULL)
    s->transport = gli_environment_read("GLOO_TRANSPORT");
  if (s->transport == NULL) s->transport = given.threads ? "inproc" : "auto";
  const char *world = gli_environment_read("WORLD_SIZE");
  bool many = !given.threads && world != NULL && strtol(world, NULL, 10) > 1;
  if (!many || strcmp(s->transport, "inproc") != 0) return true;
  gli_usage_error(&command,
                  "transport inproc connects threads of one process, but the "
                  "%s ranks are processes: use --ranks %s --threads",
                  world, world);
  return false;
}

static bool choose_memory(gli_bench_settings *s) {
  const char *known[GLI_BENCH_HIP + 1];
  if (given.memory == NULL) return true;
  for (size_t i = 0; i <= GLI_BENCH_HIP; i++) {
    known[i] = gli_bench_memory_name((gli_bench_memory)i);
    s->call.memory = (gli_bench_memory)i;
    if (strcmp(given.memory, known[i]) == 0) return true;
  }
  return unknown("option --memory", given.memory, known, GLI_BENCH_HIP + 1);
}

static bool choose_offset(gli_bench_settings *s) {
  size_t element = gloo_dtype_size(s->call.dtype);
  if (given.offset == ANYWHERE) return true;
  s->call.placed = true;
  s->call.offset = (size_t)given.offset;
  if (s->call.memory >= GLI_BENCH_CUDA) {
    gli_usage_error(&command, "option --offset: not possible with GPU memory");
    return false;
  }
  if (given.offset % element == 0) return true;
  gli_usage_error(&command,
                  "option --offset: elements of %s have %zu bytes, but %" PRIu64
                  " is not a multiple of that",
                  gloo_dtype_name(s->call.dtype), element, given.offset);
  return false;
}

static bool choose_buffers(gli_bench_settings *s) {
  s->sets = 0;
  s->call.in_place = given.in_place;
  gli_collective collective = s->call.collective;
  if (given.in_place &&
      (collective == GLI_BARRIER || collective == GLI_SENDRECV)) {
    gli_usage_error(&command, "option --in-place: %s cannot operate in place",
                    gli_collective_name(collective));
    return false;
  }
  if (given.buffers == NULL || strcmp(given.buffers, "fresh") == 0) return true;
  char *end;
  long sets = strtol(given.buffers, &end, 10);
  bool good = end != given.buffers && *end == 0 && sets >= 1 && sets <= 1024;
  s->sets = sets;
  if (good) return true;
  gli_usage_error(&command,
                  "option --buffers: '%s' is neither 'fresh' nor a whole "
                  "number from 1 to 1024",
                  given.buffers);
  return false;
}

bool gli_bench_settings_parse(gli_bench_settings *s, int argc, char **argv,
                              int *exit_status) {
  int n_operands;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n_operands);
  *exit_status = parsed == GLI_PARSE_HELP ? GLI_EXIT_OK : GLI_EXIT_USAGE;
  if (parsed != GLI_PARSE_OK) return false;
  if (n_operands != 1) {
    gli_usage_error(&command, n_operands == 0
                                  ? "COLLECTIVE is missing; see --help"
                                  : "only one collective at a time");
    return false;
  }
  memset(s, 0, sizeof *s);
  if (!choose_collective(s, argv[0])) return false;
  if (!choose_dtype(s) || !choose_op(s)) return false;
  if (!choose_algorithms(s) || !choose_sizes(s)) return false;
  if (!choose_ranks(s) || !choose_buffers(s) || !choose_memory(s)) return false;
  if (!choose_offset(s)) return false;
  s->call.root = (int)given.root;
  s->streams = given.streams;
  s->seconds = given.seconds;
  s->iterations = given.iterations;
  s->warmup = given.warmup;
  s->untouched = given.untouched;
  s->json = given.json;
  s->svg = given.svg;
  if (s->svg == NULL || s->call.collective != GLI_BARRIER) return true;
  gli_usage_error(&command, "option --svg: barrier has no sizes to plot");
  return false;
}
