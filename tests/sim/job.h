/* A job in the simulated world: ranks that run a script on the real engine, in
 * one thread, in an order drawn from the seed; and things that go wrong. */
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
  JOB_DISAGREE, /* a rank makes another call than the others */
  JOB_FAULTS
} job_fault;

enum { JOB_TEXT_BYTES = 900 };

/* Run the job of a seed. True when all went as it must; else `text` says what
 * did not. Every operation ends, and in time; without a fault all succeed with
 * the right data; with one, each rank has succeeded as far as it got or names
 * the culprit. */
bool job_run(uint64_t seed, job_fault fault, char text[JOB_TEXT_BYTES]);
/* The same; *trace is a number that follows from all that happened, and when.
 */
bool job_run_traced(uint64_t seed, job_fault fault, char text[JOB_TEXT_BYTES],
                    uint64_t *trace);

#endif
