#include "tools/limits.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/cpu.h"
#include "core/json.h"
#include "tools/progress.h"
#include "tools/tools.h"

typedef struct limit {
  const char *name;
  uint64_t bytes;
  const char *unit;
  gli_limit_fn measure;
} limit;

static const limit limits[] = {
    {"memcpy_behind", 32 << 10, "GB/s", gli_limit_memcpy_behind},
    {"memcpy", 32 << 10, "GB/s", gli_limit_memcpy},
    {"memcpy", 512 << 10, "GB/s", gli_limit_memcpy},
    {"memcpy", 4 << 20, "GB/s", gli_limit_memcpy},
    {"memcpy", 64 << 20, "GB/s", gli_limit_memcpy},
    {"add", 512 << 10, "GB/s", gli_limit_add},
    {"add", 4 << 20, "GB/s", gli_limit_add},
    {"add", 64 << 20, "GB/s", gli_limit_add},
    {"fused_add", 512 << 10, "GB/s", gli_limit_fused_add},
    {"fused_add", 4 << 20, "GB/s", gli_limit_fused_add},
    {"fused_add", 64 << 20, "GB/s", gli_limit_fused_add},
    {"fused_allreduce", 256 << 10, "us", gli_limit_fused_allreduce},
    {"fused_allreduce", 4 << 20, "us", gli_limit_fused_allreduce},
    {"fused_allreduce", 64 << 20, "us", gli_limit_fused_allreduce},
    {"shm_pingpong_roundtrip", 1 << 10, "us", gli_limit_shm_pingpong},
    {"shm_pingpong_roundtrip", 16 << 10, "us", gli_limit_shm_pingpong},
    {"shm_pingpong_roundtrip", 256 << 10, "us", gli_limit_shm_pingpong},
    {"shm_pingpong_roundtrip", 4 << 20, "us", gli_limit_shm_pingpong},
    {"read_process", 16 << 10, "GB/s", gli_limit_read_process},
    {"read_process", 256 << 10, "GB/s", gli_limit_read_process},
    {"read_process", 4 << 20, "GB/s", gli_limit_read_process},
    {"tcp_pingpong_roundtrip", 4, "us", gli_limit_tcp_pingpong},
    {"tcp_pingpong_roundtrip", 1 << 10, "us", gli_limit_tcp_pingpong},
    {"tcp_pingpong_roundtrip", 64 << 10, "us", gli_limit_tcp_pingpong},
    {"tcp_exchange", 4, "us", gli_limit_tcp_exchange},
    {"tcp_exchange", 1 << 10, "us", gli_limit_tcp_exchange},
    {"tcp_exchange", 16 << 10, "us", gli_limit_tcp_exchange},
    {"tcp_exchange", 256 << 10, "us", gli_limit_tcp_exchange},
    {"tcp_exchange", 4 << 20, "us", gli_limit_tcp_exchange},
    {"tcp_exchange", 64 << 20, "us", gli_limit_tcp_exchange},
    {"tcp_stream", 1 << 20, "GB/s", gli_limit_tcp_stream},
    {"flag_one_way", 64, "us", gli_limit_flag},
};
enum { N_LIMITS = sizeof limits / sizeof limits[0], SPINS_BEFORE_YIELD = 1000 };

/* ---- samples ------------------------------------------------------------- */

bool gli_samples_begin(gli_samples *samples, const gli_limit_effort *effort) {
  samples->count = 0;
  samples->min_samples = effort->min_samples;
  samples->ends_ns = uv_hrtime() + (uint64_t)(effort->seconds * 1e9);
  samples->values = malloc(GLI_LIMIT_MAX_SAMPLES * sizeof(double));
  return samples->values != NULL;
}

bool gli_samples_wanted(const gli_samples *samples) {
  if (samples->count >= GLI_LIMIT_MAX_SAMPLES) return false;
  if (samples->count < samples->min_samples) return true;
  return uv_hrtime() < samples->ends_ns;
}

void gli_samples_add(gli_samples *samples, double value) {
  samples->values[samples->count++] = value;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double gli_samples_end(gli_samples *samples) {
  double median = 0;
  if (samples->count > 0) {
    qsort(samples->values, samples->count, sizeof(double), compare);
    median = samples->values[samples->count / 2];
  }
  free(samples->values);
  samples->values = NULL;
  return median;
}

void gli_spin(unsigned tries) {
  static atomic_int cores = 0;
  int known = atomic_load_explicit(&cores, memory_order_relaxed);
  if (known == 0) {
    known = (int)gli_cpu_effective();
    atomic_store_explicit(&cores, known, memory_order_relaxed);
  }
  if (known < 2 || tries > SPINS_BEFORE_YIELD) gli_cpu_yield();
}

/* ---- the command --------------------------------------------------------- */

static double seconds = 0.3;
static bool json = false;
static const char *only = NULL;

static const gli_option options[] = {
    {"only", 0, GLI_OPTION_TEXT, &only, "NAME",
     "measure one limit instead of all", 0, 0},
    {"time", 0, GLI_OPTION_SECONDS, &seconds, "SECONDS",
     "measuring time per line (0.3)", 0, 3600},
    {"json", 0, GLI_OPTION_FLAG, &json, NULL, "print one JSON object per line",
     0, 0},
};

static const gli_command command = {
    .name = "bench limits",
    .usage = "gloo bench limits [options]",
    .about =
        "Measures the limits of this machine without the library. Prints\n"
        "medians.\n"
        "  memcpy, add       one thread; GB/s of one vector (float32 a += b)\n"
        "  memcpy_behind     to a page offset 16 bytes above that of the\n"
        "                    source, which some processors copy ten times\n"
        "                    slower\n"
        "  fused_add         two threads, each storing its half of the sum of\n"
        "                    two vectors into two others; GB/s of one vector\n"
        "  fused_allreduce   the same as a time: the lower bound of an\n"
        "                    allreduce of two ranks\n"
        "  shm_pingpong_roundtrip  two spinning processes and a ring: two "
        "copies\n"
        "                    each way\n"
        "  read_process      one copy, from another process's memory, which "
        "it\n"
        "                    has just written (Linux)\n"
        "  tcp_pingpong_roundtrip  two spinning processes over 127.0.0.1\n"
        "  tcp_exchange      the same, both send at once; memory is written\n"
        "                    before and read after, outside the timing\n"
        "  tcp_stream        one way\n"
        "  flag_one_way      until another thread sees a changed cache line\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

static void print_result(const limit *l, double value) {
  if (json) {
    gli_json out;
    gli_json_open(&out, stdout);
    gli_json_text(&out, "limit", l->name);
    gli_json_integer(&out, "bytes", l->bytes);
    gli_json_number(&out, "value", value);
    gli_json_text(&out, "unit", l->unit);
    gli_json_close(&out);
    return;
  }
  char text[GLI_BYTES_TEXT];
  printf("%-24s %8s %12.3f %s\n", l->name, gli_format_bytes(l->bytes, text),
         value, l->unit);
  fflush(stdout);
}

static bool is_limit(const char *name) {
  for (int i = 0; i < N_LIMITS; i++) {
    if (strcmp(limits[i].name, name) == 0) return true;
  }
  return false;
}

static int unknown_limit(void) {
  gli_usage_error(&command, "option --only: unknown limit '%s'", only);
  fprintf(stderr, "gloo bench limits: valid limits:");
  for (int i = 0; i < N_LIMITS; i++) {
    bool repeated = i > 0 && strcmp(limits[i].name, limits[i - 1].name) == 0;
    if (!repeated) fprintf(stderr, "%s %s", i > 0 ? "," : "", limits[i].name);
  }
  fprintf(stderr, "\n");
  return GLI_EXIT_USAGE;
}

static bool measure_limit(const limit *l) {
  gli_limit_effort effort = {seconds, 5};
  gloo_error error;
  double value;
  gli_progress_say("%s", l->name);
  bool good = l->measure(l->bytes, &effort, &value, &error);
  gli_progress_hide();
  gli_progress_step();
  if (good) print_result(l, value);
  if (!good)
    fprintf(stderr, "gloo bench limits: %s: %s\n", l->name, error.message);
  return good || error.status == GLOO_ERR_UNSUPPORTED;
}

int gli_bench_limits(int argc, char **argv) {
  gli_parse parsed = gli_options_parse(&command, argc, argv, NULL);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (only != NULL && !is_limit(only)) return unknown_limit();
  if (!json) printf("%-24s %8s %12s %s\n", "limit", "bytes", "value", "unit");

  gli_progress_begin("gloo bench limits", only == NULL ? N_LIMITS : 0);
  bool good = true;
  for (int i = 0; good && i < N_LIMITS; i++) {
    if (only == NULL || strcmp(only, limits[i].name) == 0)
      good = measure_limit(&limits[i]);
  }
  gli_progress_end();
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
