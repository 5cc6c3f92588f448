/* Decisions of `gloo run` when ranks fail: which failure was the first, whether
 * the job continues, and when the other ranks are stopped. */
#ifndef GLI_TOOLS_RUN_POLICY_H
#define GLI_TOOLS_RUN_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* Signals that are forwarded to the ranks, unless ignored, as under nohup. */
enum { GLI_RUN_FORWARDED = 5 };
extern const int gli_run_forwarded[GLI_RUN_FORWARDED];
bool gli_run_ignores(int signum);

/* The end of one rank. */
typedef struct gli_run_end {
  int rank, pid;
  const char *host;   /* NULL on one host */
  int status, signum; /* exit status, or the signal that killed it; else 0 */
  const char *memory; /* "", or a clause on a kill for lack of memory */
} gli_run_end;

typedef struct gli_run_policy_ops {
  /* Signals all ranks that run. */
  void (*signal_all)(void *user, int signum);
  bool (*runs)(void *user, int rank);
  /* Prints a line without "gloo run: " and newline. */
  void (*say)(void *user, const char *line);
  /* Starts a process in place of a rank that has failed; returns false if it
   * cannot. NULL if `max_restarts` is 0. */
  bool (*replace)(void *user, int rank);
} gli_run_policy_ops;

typedef enum gli_run_phase {
  GLI_RUN_RUNNING,
  GLI_RUN_GRACE,    /* a rank failed; the others may still print errors */
  GLI_RUN_STOPPING, /* the ranks got SIGTERM */
  GLI_RUN_KILLED
} gli_run_phase;

typedef struct gli_run_policy {
  const gli_run_policy_ops *ops;
  void *user;
  int ranks;
  int min_ranks; /* 0: all */
  int max_restarts;
  uint64_t grace_ms;
  uint64_t hold_ms; /* time for which an exit status that would end the job
                       waits for its cause: the rank that was killed, or the
                       host that is lost, whose news may take another way */
  /* The fields below begin as zeros and are read only. */
  gli_run_phase phase;
  uint64_t phase_ends; /* ms of the caller's clock */
  int lost;            /* ranks lost without ending the job */
  int restarts;
  int also_failed, exit_status, interrupts;
  bool failed, held, was_forwarded[GLI_RUN_FORWARDED];
  uint64_t held_until;
  char first[1024]; /* the failure that ends the job, or that is held */
} gli_run_policy;

/* Reports the end of a rank. */
void gli_run_policy_ended(gli_run_policy *policy, uint64_t now,
                          const gli_run_end *end);

/* Reports that `ranks` ranks failed at once. `text` has the cause, and
 * `exit_status` becomes that of the job if this ends it. */
void gli_run_policy_lost(gli_run_policy *policy, uint64_t now, int ranks,
                         const char *text, int exit_status);

/* Ends the job for the cause in `text`, without a grace for the ranks. */
void gli_run_policy_stop(gli_run_policy *policy, uint64_t now, const char *text,
                         int exit_status);

/* Passes a signal on to all ranks; the third SIGINT or SIGTERM kills them. */
void gli_run_policy_signal(gli_run_policy *policy, int signum);

/* Reports, stops or kills if it is time. Returns true if it must be called
 * again while ranks run. */
bool gli_run_policy_tick(gli_run_policy *policy, uint64_t now);

/* Reports a failure that is held, once all ranks have ended. */
void gli_run_policy_flush(gli_run_policy *policy, uint64_t now);

/* Prints the last lines; `repeat` says whether others were printed since the
 * first failure. */
void gli_run_policy_finish(const gli_run_policy *policy, bool repeat);

#endif
