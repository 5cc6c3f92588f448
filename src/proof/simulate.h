/* The simulator estimates how long plans take on a machine, given a model of
 * it.
 *
 * A LogGP model (Alexandrov, Ionescu, Schauser and Scheiman 1995) with two
 * kinds of links. Sending a message keeps the sender's processor busy for
 * `overhead`. Then its bytes leave through the sender's link, message after
 * message, at `per_byte` each; they arrive `latency` later and come in through
 * the receiver's link, message after message. Receiving keeps the processor
 * busy for `overhead`, and for reducing when the step reduces. Ranks of one
 * host (see params->hosts) each have a link to the others there; all ranks of a
 * host share one link, in each direction, to other hosts. A processor does one
 * thing at a time, in the order in which steps become ready. Messages do not
 * wait for their receive to be posted.
 *
 * Gets and puts are ordinary messages, unless in the model ranks of one host
 * reach each other's memory: then a get is a message of 8 bytes, reading it is
 * part of the reduction, writing a put costs as much as a copy, and the message
 * that gives it back is empty.
 *
 * Time is virtual, counted in whole picoseconds, and ties are broken by rank
 * and step: the same plans and model give the same result on every machine. */
#ifndef GLI_PROOF_SIMULATE_H
#define GLI_PROOF_SIMULATE_H

#include "plan/plan.h"

typedef struct gli_sim_link {
  double latency_ns;  /* L: from the departure of a byte to its arrival */
  double overhead_ns; /* o: processor time at each end */
  double gap_ns;      /* g: link time between two messages */
  double per_byte_ns; /* G: link time per byte */
} gli_sim_link;

typedef struct gli_sim_model {
  gli_sim_link inside, across;
  double copy_ns, reduce_ns; /* processor time per byte */
  bool reach;                /* true if ranks of a host reach each other's */
} gli_sim_model;

/* Links at memory speed within a host, 100 Gb/s between hosts. */
#define GLI_SIM_MODEL_DEFAULT \
  { {150, 100, 20, 0.1}, {1500, 500, 100, 0.08}, 0.1, 0.15, false }

typedef struct gli_sim_report {
  double total_ns;      /* time at which the last rank ends */
  double first_done_ns; /* time at which the first rank ends */
  uint64_t messages;
  uint64_t bytes_inside, bytes_across; /* bytes on each kind of link */
} gli_sim_report;

/* Simulates `build` on all ranks (ignores params->rank; params->counts, if any,
 * is an array with the counts of all ranks). `done_ns`, if not NULL, gets each
 * rank's time. All plans are held in memory together. Errors: those of
 * gli_plan_make (GLOO_ERR_INVALID also for more than 32 million steps);
 * GLOO_ERR_INVALID for a model with negative times; GLOO_ERR_INTERNAL if plans
 * do not match each other (check them first). */
gloo_status gli_simulate(gli_build_fn build, const gli_plan_params *params,
                         const gli_sim_model *model, gli_sim_report *report,
                         double *done_ns, gloo_error *error);

#endif
