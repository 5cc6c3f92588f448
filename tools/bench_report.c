#include <inttypes.h>
#include <stdio.h>

#include "core/json.h"
#include "core/text.h"
#include "gloo_c/version.h"
#include "tools/bench.h"
#include "tools/options.h"

static const char *dtype_text(const gli_bench_call *call) {
  return call->collective == GLI_BARRIER ? "none"
                                         : gloo_dtype_name(call->dtype);
}

static const char *op_text(const gli_bench_call *call) {
  return gli_collective_reduces(call->collective) ? gloo_op_name(call->op)
                                                  : "none";
}

static const char *algorithm_text(const gli_bench_call *call) {
  if (call->collective == GLI_SENDRECV) return "none";
  return call->algorithm != NULL ? call->algorithm : "auto";
}

double gli_bench_bus_factor(gli_collective collective, int ranks) {
  double p = ranks;
  switch (collective) {
    case GLI_ALLREDUCE:
      return 2 * (p - 1) / p;
    case GLI_REDUCE_SCATTER:
    case GLI_ALLGATHER:
    case GLI_GATHER:
    case GLI_SCATTER:
    case GLI_ALLTOALL:
    case GLI_REDUCE_SCATTERV:
    case GLI_ALLGATHERV:
    case GLI_GATHERV:
    case GLI_SCATTERV:
    case GLI_ALLTOALLV:
      return (p - 1) / p;
    case GLI_SENDRECV:
      return 2; /* a round trip is two messages */
    default:
      return 1;
  }
}

void gli_bench_describe(const gli_bench_settings *settings, int ranks,
                        char *text, size_t bytes) {
  static const char *const memory[] = {
      [GLI_BENCH_MALLOC] = "",
      [GLI_BENCH_ALLOC] = " in memory from gloo_alloc",
      [GLI_BENCH_CUDA] = " in GPU memory",
      [GLI_BENCH_HIP] = " in GPU memory"};
  const gli_bench_call *call = &settings->call;
  bool typed = call->collective != GLI_BARRIER;
  bool reduces = gli_collective_reduces(call->collective);
  snprintf(text, bytes, "%s%s%s%s%s%s%s, %s (%s), %s",
           gli_collective_name(call->collective), typed ? " " : "",
           typed ? dtype_text(call) : "", reduces ? " " : "",
           reduces ? op_text(call) : "", call->in_place ? " in place" : "",
           memory[call->memory], gli_count((uint64_t)ranks, "rank").text,
           settings->threads > 0 ? "threads" : "processes",
           settings->transport);
}

void gli_bench_report_begin(const gli_bench_settings *settings, int ranks) {
  char text[256];
  if (settings->json) return;
  gli_bench_describe(settings, ranks, text, sizeof text);
  printf("# gloo_c %s: %s\n", gloo_version(), text);
  printf("# times in us, bandwidths in 10^9 bytes/s\n");
  printf("%12s  %-20s %8s %10s %10s %10s %8s %8s  %s\n", "bytes", "algorithm",
         "iters", "min", "p50", "p99", "algbw", "busbw", "verified");
  fflush(stdout);
}

static void report_json(const gli_bench_result *r) {
  gli_json out;
  gli_json_open(&out, stdout);
  gli_json_text(&out, "collective", gli_collective_name(r->call.collective));
  gli_json_text(&out, "transport", r->transport);
  gli_json_text(&out, "algorithm", algorithm_text(&r->call));
  gli_json_text(&out, "dtype", dtype_text(&r->call));
  gli_json_text(&out, "op", op_text(&r->call));
  gli_json_text(&out, "memory", gli_bench_memory_name(r->call.memory));
  gli_json_integer(&out, "ranks", (uint64_t)r->ranks);
  gli_json_integer(&out, "bytes", r->bytes);
  gli_json_integer(&out, "iterations", r->iterations);
  gli_json_number(&out, "min_us", r->min_us);
  gli_json_number(&out, "p50_us", r->p50_us);
  gli_json_number(&out, "p99_us", r->p99_us);
  gli_json_number(&out, "algbw_gbps", r->algbw_gbps);
  gli_json_number(&out, "busbw_gbps", r->busbw_gbps);
  gli_json_number(&out, "seconds", r->seconds);
  gli_json_number(&out, "flag_ns", r->flag_ns);
  gli_json_bool(&out, "verified", r->verified);
  gli_json_close(&out);
}

void gli_bench_report(const gli_bench_settings *settings,
                      const gli_bench_result *r) {
  if (settings->json) {
    report_json(r);
    return;
  }
  printf("%12" PRIu64 "  %-20s %8" PRIu64
         " %10.2f %10.2f %10.2f %8.3f %8.3f"
         "  %s\n",
         r->bytes, algorithm_text(&r->call), r->iterations, r->min_us,
         r->p50_us, r->p99_us, r->algbw_gbps, r->busbw_gbps,
         r->verified ? "yes" : "no");
  fflush(stdout);
}
