/* `gloo bench`: measures and verifies collectives. bench_ranks.c runs ranks as
 * processes or threads; bench_measure.c measures one point. */
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
  const char *algorithms[GLI_BENCH_MAX_ALGORITHMS]; /* NULL: the library's
                                                       choice */
  size_t n_algorithms;
  uint64_t sizes[GLI_BENCH_MAX_SIZES]; /* ascending if given by --min, --max */
  size_t n_sizes;
  const char *transport; /* "tcp" or "inproc" */
  int64_t streams;       /* 0: the default */
  double seconds;        /* per point */
  int64_t iterations;    /* 0: as many as fit into `seconds` */
  int64_t warmup;
  int64_t sets;    /* number of buffer sets, used in turn; 0: new ones for each
                      point */
  int64_t threads; /* number of ranks as threads of this process; 0: as
                      processes */
  bool untouched;  /* true to leave buffers alone between the calls */
  bool json;
  const char *svg; /* file for a plot; NULL: none */
} gli_bench_settings;

/* ---- bench_settings.c ---------------------------------------------------- */

/* Reads the command line. Returns false if the caller should exit with
 * *exit_status. */
bool gli_bench_settings_parse(gli_bench_settings *settings, int argc,
                              char **argv, int *exit_status);

/* ---- bench_measure.c ----------------------------------------------------- */

/* The state of one rank. */
typedef struct gli_bench_rank {
  const gli_bench_settings *settings;
  gloo_context *context;
  gli_meeting meeting;
  gli_bench_buffers *sets; /* [settings->sets], NULL if 0 */
  double *times_us;        /* [GLI_BENCH_MAX_ITERATIONS] */
} gli_bench_rank;

typedef struct gli_bench_result {
  gli_bench_call call;
  const char *transport;
  int ranks;
  uint64_t bytes, iterations;
  double min_us, p50_us, p99_us;
  double algbw_gbps, busbw_gbps; /* 10^9 bytes per second */
  double seconds; /* duration of measuring, with warm-up and checks */
  double flag_ns; /* mean of gli_meeting_flag_ns before and after; 0: not
                     known */
  bool verified;
} gli_bench_result;

/* Measures one point, and checks the results before and after. Collective.
 * Returns false if a rank failed; that rank has printed the cause. */
bool gli_bench_measure(gli_bench_rank *rank, const gli_bench_call *call,
                       uint64_t bytes, gli_bench_result *result);

/* Measures all points, which rank 0 prints. Returns the exit status. */
int gli_bench_measure_all(gli_bench_rank *rank);

/* Prints "gloo bench: rank R: ..." and returns false. */
bool gli_bench_complain(int rank, const gloo_error *error);

/* ---- bench_ranks.c ------------------------------------------------------- */

/* Starts the ranks of the settings, and measures. Returns the exit status. */
int gli_bench_ranks(const gli_bench_settings *settings);

/* ---- bench_report.c ------------------------------------------------------ */

void gli_bench_report_begin(const gli_bench_settings *settings, int ranks);
void gli_bench_report(const gli_bench_settings *settings,
                      const gli_bench_result *result);

/* Writes what is measured: "allreduce float32 sum, 4 ranks (processes), shm".
 */
void gli_bench_describe(const gli_bench_settings *settings, int ranks,
                        char *text, size_t bytes);

/* Returns the bytes that cross each rank's link per byte of the buffer, which
 * makes figures of different collectives and numbers of ranks comparable (the
 * factors of nccl-tests). */
double gli_bench_bus_factor(gli_collective collective, int ranks);

/* ---- bench_plot.c -------------------------------------------------------- */

/* A plot in the file of settings->svg. Opening and closing print their errors
 * and return NULL or false; closing draws the points and frees the plot. */
typedef struct gli_bench_plot gli_bench_plot;
gli_bench_plot *gli_bench_plot_open(const gli_bench_settings *settings);
void gli_bench_plot_add(gli_bench_plot *plot, const gli_bench_result *result);
bool gli_bench_plot_close(gli_bench_plot *plot, const char *title);

#endif
