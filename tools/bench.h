/* `gloo bench`: measures and verifies collectives. What a rank is, a process or
 * a thread, is bench_ranks.c's business; how one point is measured,
 * bench_measure.c's. */
#ifndef GLI_TOOLS_BENCH_H
#define GLI_TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/bench_case.h"
#include "tools/bench_meeting.h"

enum {
  GLI_BENCH_MAX_SIZES = 64,
  GLI_BENCH_MAX_ALGORITHMS = 16,
  GLI_BENCH_MAX_ITERATIONS = 1000000
};

typedef struct gli_bench_settings {
  gli_bench_call call;                              /* without an algorithm */
  const char *algorithms[GLI_BENCH_MAX_ALGORITHMS]; /* NULL: the library's */
  size_t n_algorithms;
  uint64_t sizes[GLI_BENCH_MAX_SIZES]; /* ascending when by --min, --max */
  size_t n_sizes;
  const char *transport; /* "tcp" or "inproc" */
  int64_t streams;       /* 0: the default */
  double seconds;        /* per point */
  int64_t iterations;    /* 0: as many as fit in `seconds` */
  int64_t warmup;
  int64_t sets;    /* of buffers, used in turn; 0: new ones for each point */
  int64_t threads; /* ranks as threads of this process; 0: as processes */
  bool untouched;  /* buffers are left alone between the calls */
  bool json;
} gli_bench_settings;

/* ---- bench_settings.c ---------------------------------------------------- */

/* Read the command line. False: nothing to do but to exit with *exit_status. */
bool gli_bench_settings_parse(gli_bench_settings *settings, int argc,
                              char **argv, int *exit_status);

/* ---- bench_measure.c ----------------------------------------------------- */

/* One rank at work. */
typedef struct gli_bench_rank {
  const gli_bench_settings *settings;
  gloo_context *context;
  gli_meeting meeting;
  gli_bench_buffers *sets; /* [settings->sets], NULL when 0 */
  double *times_us;        /* [GLI_BENCH_MAX_ITERATIONS] */
} gli_bench_rank;

typedef struct gli_bench_result {
  gli_bench_call call;
  const char *transport;
  int ranks;
  uint64_t bytes, iterations;
  double min_us, p50_us, p99_us;
  double algbw_gbps, busbw_gbps; /* 10^9 bytes per second */
  double seconds; /* that measuring took, with warm-up and checks */
  double flag_ns; /* gli_meeting_flag_ns, before and after: their mean; 0:
                     not known */
  bool verified;
} gli_bench_result;

/* Measure one point, with the results checked before and after. Collective.
 * False when a rank could not go on; the one that knows why has printed it. */
bool gli_bench_measure(gli_bench_rank *rank, const gli_bench_call *call,
                       uint64_t bytes, gli_bench_result *result);

/* All points, printed by rank 0. Returns the exit status. */
int gli_bench_measure_all(gli_bench_rank *rank);

/* Print "gloo bench: rank R: ..." and return false. */
bool gli_bench_complain(int rank, const gloo_error *error);

/* ---- bench_ranks.c ------------------------------------------------------- */

/* Be the ranks that the settings ask for, and measure. Returns the exit
 * status. */
int gli_bench_ranks(const gli_bench_settings *settings);

/* ---- bench_report.c ------------------------------------------------------ */

void gli_bench_report_begin(const gli_bench_settings *settings, int ranks);
void gli_bench_report(const gli_bench_settings *settings,
                      const gli_bench_result *result);

/* Bytes that cross each rank's link for one byte of the buffer, which makes
 * figures of different collectives and sizes of jobs comparable (the factors
 * of nccl-tests). */
double gli_bench_bus_factor(gli_collective collective, int ranks);

#endif
