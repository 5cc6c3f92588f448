/* A job in the simulated world: ranks that run a script on the real engine, in
 * one thread, in an order drawn from the seed, with injected faults. */
#ifndef TESTS_SIM_JOB_H
#define TESTS_SIM_JOB_H

#include "engine/engine.h"
#include "script.h"
#include "sim.h"

typedef enum job_fault {
  JOB_NO_FAULT,
  JOB_KILL,     /* a rank's process is gone */
  JOB_FREEZE,   /* a rank hangs */
  JOB_CUT,      /* a connection breaks */
  JOB_LEAVE,    /* a rank destroys its context too early */
  JOB_CANCEL,   /* a rank cancels an operation */
  JOB_DISAGREE, /* a rank makes a different call */
  JOB_FAULTS
} job_fault;

enum { JOB_TEXT_BYTES = 900 };

/* Runs the job of a seed. Returns true if it behaved correctly; otherwise
 * `text` describes the first error. Every operation must complete in time.
 * Without a fault all succeed with the right data; with one, each rank either
 * succeeds up to that point or names the culprit. */
bool job_run(uint64_t seed, job_fault fault, char text[JOB_TEXT_BYTES]);
/* As job_run, and sets *trace to a hash of all events and their times. */
bool job_run_traced(uint64_t seed, job_fault fault, char text[JOB_TEXT_BYTES],
                    uint64_t *trace);

#endif
