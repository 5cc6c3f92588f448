#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/environment.h"
#include "engine/engine.h"
#include "tools/tools.h"
#include "tools/tune.h"

static gli_tune_settings given = {
    .memory = "malloc",
    .min = 4,
    .max = (uint64_t)64 << 20,
    .factor = 4,
    .seconds = 60,
};

#define MAX_BYTES (INT64_C(1) << 34)

static const gli_option options[] = {
    {"transport", 0, GLI_OPTION_TEXT, &given.transport, "NAME",
     "auto, shm or tcp (auto)", 0, 0},
    {"time", 0, GLI_OPTION_SECONDS, &given.seconds, "SECONDS",
     "total measuring time, approximate (60)", 0, 86400},
    {"memory", 0, GLI_OPTION_TEXT, &given.memory, "NAME",
     "buffers from malloc or gloo_alloc (malloc)", 0, 0},
    {"collectives", 0, GLI_OPTION_TEXT, &given.collectives, "A,B,..",
     "only these", 0, 0},
    {"min", 0, GLI_OPTION_BYTES, &given.min, "BYTES", "shortest vector (4)", 1,
     MAX_BYTES},
    {"max", 0, GLI_OPTION_BYTES, &given.max, "BYTES", "longest (64M)", 1,
     MAX_BYTES},
    {"factor", 0, GLI_OPTION_INTEGER, &given.factor, "F",
     "factor from each size to the next (4)", 2, 1 << 20},
    {"report", 0, GLI_OPTION_FLAG, &given.report, NULL,
     "print a Markdown table of the quality of the choices instead of a file; "
     "for the FILEs, if any, without measuring",
     0, 0},
    {"output", 'o', GLI_OPTION_TEXT, &given.output, "FILE",
     "file for the tuning file (after the table)", 0, 0},
};

static const gli_command command = {
    .name = "tune",
    .usage =
        "gloo run -n N -- gloo tune [options]\n"
        "       gloo tune --report FILE...",
    .about =
        "Measures every algorithm of every collective on these ranks with\n"
        "float32 sums, and checks the results. Prints the library's choice "
        "and\n"
        "the best algorithm for each size, and writes the best into a file "
        "for\n"
        "GLOO_TUNING_FILE. Its entries hold for this number of ranks, within\n"
        "one host or across hosts; several files can be concatenated.\n"
        "Algorithms that are far behind are not measured at larger sizes.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* ---- the command line ---------------------------------------------------- */

static bool check_collectives(void) {
  for (const char *at = given.collectives; at != NULL;) {
    size_t length = strcspn(at, ",");
    bool known = false;
    for (int c = 0; c < GLI_COLLECTIVES; c++) {
      const char *name = gli_collective_name((gli_collective)c);
      if (strlen(name) != length || strncmp(at, name, length) != 0) continue;
      known = gli_tune_knows((gli_collective)c);
    }
    if (!known) {
      int width = length < 64 ? (int)length : 64;
      gli_usage_error(&command,
                      "option --collectives: '%.*s' is not a collective that "
                      "can be measured",
                      width, at);
      return false;
    }
    at = at[length] == ',' ? at + length + 1 : NULL;
  }
  return true;
}

static bool check_settings(gli_bench_call *call) {
  bool shared = strcmp(given.memory, "gloo_alloc") == 0;
  if (!shared && strcmp(given.memory, "malloc") != 0) {
    gli_usage_error(&command,
                    "option --memory: '%s' is not one of malloc, gloo_alloc",
                    given.memory);
    return false;
  }
  if (given.report && given.output != NULL) {
    gli_usage_error(&command, "--report writes no file: omit --output");
    return false;
  }
  if (given.min > given.max) {
    gli_usage_error(&command, "option --max is less than --min");
    return false;
  }
  if (given.transport == NULL)
    given.transport = gli_environment_read("GLOO_TRANSPORT");
  if (given.transport == NULL) given.transport = "auto";
  if (strcmp(given.transport, "inproc") == 0) {
    gli_usage_error(
        &command, "the ranks are processes, but inproc connects only threads");
    return false;
  }
  call->dtype = GLOO_FLOAT32;
  call->op = GLOO_SUM;
  call->memory = shared ? GLI_BENCH_ALLOC : GLI_BENCH_MALLOC;
  return check_collectives();
}

/* ---- results ------------------------------------------------------------- */

static bool write_file(const gli_tune_table *table, const char *where,
                       int ranks) {
  if (given.output == NULL) {
    gli_tune_write(stdout, table, &given, where, ranks);
    return fflush(stdout) == 0;
  }
  FILE *file = fopen(given.output, "w");
  bool good = file != NULL;
  if (good) {
    gli_tune_write(file, table, &given, where, ranks);
    good = ferror(file) == 0;
    good = fclose(file) == 0 && good;
  }
  if (!good) {
    fprintf(stderr, "gloo tune: cannot write %s: %s\n", given.output,
            strerror(errno));
  }
  return good;
}

/* Reports on files that were written before. */
static int report_files(char **files, int n) {
  gli_tune_source *from = calloc((size_t)n, sizeof *from);
  bool good = from != NULL;
  if (!good) fprintf(stderr, "gloo tune: out of memory\n");
  for (int i = 0; good && i < n; i++) good = gli_tune_read(files[i], &from[i]);
  if (good) gli_tune_print_report(stdout, from, (size_t)n);
  good = good && fflush(stdout) == 0;
  free(from);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

/* Reports on new measurements. */
static bool report_table(const gli_tune_table *table, int ranks) {
  gli_tune_source *from = calloc(1, sizeof *from);
  if (from == NULL) {
    fprintf(stderr, "gloo tune: out of memory\n");
    return false;
  }
  from->ranks = ranks;
  from->table = *table;
  snprintf(from->transport, sizeof from->transport, "%s", given.transport);
  gli_tune_print_report(stdout, from, 1);
  free(from);
  return fflush(stdout) == 0;
}

/* Prints the result; only rank 0 calls it. */
static bool report(const gli_bench_rank *rank, const gli_tune_table *table) {
  int ranks = gloo_context_size(rank->context);
  bool near = gli_context_locality(rank->context) &&
              gli_context_hosts(rank->context) == NULL;
  char where[48], host[128];
  size_t bytes = sizeof host;
  if (uv_os_gethostname(host, &bytes) != 0) strcpy(host, "a machine");
  given.host = host;
  snprintf(where, sizeof where, "@%s@ranks=%d", near ? "shm" : "tcp", ranks);
  if (given.report) return report_table(table, ranks);
  gli_tune_print(stdout, table);
  return write_file(table, where, ranks);
}

static bool work(gli_bench_rank *rank) {
  gli_tune_table *table = calloc(1, sizeof *table);
  rank->times_us = malloc(GLI_BENCH_MAX_ITERATIONS * sizeof(double));
  bool good = table != NULL && rank->times_us != NULL;
  if (!good) fprintf(stderr, "gloo tune: out of memory\n");
  good = good && gli_tune_measure(rank, &given, table);
  if (!good) gli_meeting_break(&rank->meeting);
  if (good && gloo_context_rank(rank->context) == 0) {
    good = report(rank, table);
  }
  free(rank->times_us);
  free(table);
  return good;
}

int gli_tool_tune(int argc, char **argv) {
  int n_operands;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n_operands);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (n_operands > 0 && given.report) return report_files(argv, n_operands);
  if (n_operands > 0) {
    return gli_usage_error(&command, "takes no operands, but got '%s'",
                           argv[0]);
  }
  gli_bench_settings bench = {.warmup = 2};
  if (!check_settings(&bench.call)) return GLI_EXIT_USAGE;
  bench.transport = given.transport;
  gli_bench_rank rank = {.settings = &bench};
  gloo_error error;
  gloo_device_options device = GLOO_DEVICE_OPTIONS_INIT;
  device.transport = given.transport;
  gloo_context_options context = GLOO_CONTEXT_OPTIONS_INIT;
  context.shared_buffers = gli_bench_promises_buffers(&bench.call);
  gloo_init_options init = GLOO_INIT_OPTIONS_INIT;
  init.device = &device;
  init.context = &context;
  if (gloo_init(&init, &rank.context, &error) != GLOO_OK) {
    fprintf(stderr, "gloo tune: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  bool good = gloo_context_size(rank.context) > 1;
  if (!good) {
    fprintf(stderr,
            "gloo tune: one rank has no choices; start several: gloo run -n 4 "
            "-- gloo tune\n");
  } else if (gli_meeting_open(&rank.meeting, rank.context, &error) != GLOO_OK) {
    good = gli_bench_complain(gloo_context_rank(rank.context), &error);
  } else {
    good = work(&rank);
    gli_meeting_close(&rank.meeting);
  }
  gloo_context_destroy(rank.context);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
