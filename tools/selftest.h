/* `gloo doctor --selftest`: tests this build on this machine. selftest.c starts
 * jobs by `gloo run`. Their ranks run the checks of selftest_checks.c, and print
 * one line each, which selftest_report.c collects in a report. */
#ifndef GLI_TOOLS_SELFTEST_H
#define GLI_TOOLS_SELFTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/error.h"
#include "core/text.h"
#include "gloo_c/gloo_c.h"
#include "tools/bench_meeting.h"

/* ---- lines: selftest_checks.c -------------------------------------------- */

typedef enum gli_selftest_state {
  GLI_SELFTEST_PASSED,
  GLI_SELFTEST_FAILED,
  GLI_SELFTEST_FIGURE, /* information; never a failure */
  GLI_SELFTEST_STATES
} gli_selftest_state;
extern const char *const gli_selftest_states[GLI_SELFTEST_STATES];

/* The result of a check: "passed messages: 24 messages". */
typedef struct gli_selftest_line {
  gli_selftest_state state;
  char what[24];
  char text[GLOO_ERROR_MESSAGE_BYTES + 64];
} gli_selftest_line;

/* Prints a line in one piece, so that lines of several ranks stay whole. */
void gli_selftest_say(gli_selftest_state state, const char *what,
                      const char *format, ...) GLI_PRINTF(3, 4);

/* Checks collectives, messages and windows, and measures. All ranks call it.
 * Returns false if the context is of no use afterwards; *right is false if a
 * check failed on this rank, which has printed that. */
bool gli_selftest_checks(gloo_context *context, gli_meeting *meeting,
                         bool *right);

/* ---- stores: selftest_stores.c ------------------------------------------- */

/* Checks `memory`, which the ranks share as threads (NULL: they are processes),
 * a file store and a TCP store, likewise. */
bool gli_selftest_stores(gloo_context *context, gloo_store *memory);

/* ---- ranks: selftest_ranks.c --------------------------------------------- */

/* Runs all checks as a rank of a job and prints lines. `part`: "ranks", the
 * ranks of a job; "threads", ranks that are threads of this process; or
 * "killed", a job whose last rank is killed. Returns the exit status. */
int gli_selftest_part(const char *part, double timeout_s);

/* ---- jobs: selftest.c ---------------------------------------------------- */

enum { GLI_SELFTEST_RANKS = 3, GLI_SELFTEST_LINES = 32 };

typedef struct gli_selftest_job {
  const char *part, *transport;
  double seconds;
  bool failed;
  gli_selftest_line lines[GLI_SELFTEST_LINES];
  size_t n_lines;
  char output[2048]; /* end of its other output; shown if it failed */
} gli_selftest_job;

/* Runs everything and prints the report, also to the file `report` unless that
 * is NULL. Returns the exit status. */
int gli_selftest(bool json, const char *report, double timeout_s);

/* ---- the report: selftest_report.c --------------------------------------- */

typedef struct gli_selftest_report {
  gli_selftest_job *jobs;
  size_t n_jobs, passed, failed; /* jobs, and numbers of checks */
  double seconds;
} gli_selftest_report;

void gli_selftest_print(const gli_selftest_report *report, bool json, FILE *to);

#endif
