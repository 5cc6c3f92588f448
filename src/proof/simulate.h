/* The simulator: how long would these plans take on such a machine?
 *
 * A LogGP model (Alexandrov, Ionescu, Schauser and Scheiman 1995) with two
 * kinds of links. Sending a message keeps the sender's processor busy for
 * `overhead`. Then its bytes leave through the sender's link, message after
 * message, at `per_byte` each; they arrive `latency` later and come in through
 * the receiver's link, message after message. Receiving keeps the processor
 * busy for `overhead`, and for reducing when the step reduces. Ranks of one
 * host (params->hosts says which) have a link each to the others there; all
 * ranks of a host share one link, in each direction, to other hosts. A
 * processor does one thing at a time, in the order in which things become
 * possible. Messages do not wait for their receive to be posted.
 *
 * Gets and puts are messages like others, unless the model says that ranks of
 * one host reach each other's memory: then a get is a message of 8 bytes, its
 * reading is part of reducing, writing a put costs what copying costs, and
 * giving it back is an empty message.
 *
 * Time is virtual, counted in whole picoseconds, and ties are broken by rank
 * and step: the same plans and model give the same result on every machine. */
#ifndef GLI_PROOF_SIMULATE_H
#define GLI_PROOF_SIMULATE_H

#include "plan/plan.h"

typedef struct gli_sim_link {
  double latency_ns;  /* L: from a byte's leaving to its arriving */
  double overhead_ns; /* o: of the processor, at each end */
  double gap_ns;      /* g: of the link, between two messages */
  double per_byte_ns; /* G */
} gli_sim_link;

typedef struct gli_sim_model {
  gli_sim_link inside, across;
  double copy_ns, reduce_ns; /* of the processor, per byte */
  bool reach;                /* memory of ranks of the same host */
} gli_sim_model;

/* Memory-speed links inside, 100 Gb/s across. */
#define GLI_SIM_MODEL_DEFAULT \
  { {150, 100, 20, 0.1}, {1500, 500, 100, 0.08}, 0.1, 0.15, false }

typedef struct gli_sim_report {
  double total_ns;      /* until the last rank is done */
  double first_done_ns; /* until the first rank is */
  uint64_t messages;
  uint64_t bytes_inside, bytes_across; /* on links, of all messages */
} gli_sim_report;

/* Simulate `build` on all ranks (params->rank is ignored;
 * params->counts is an array of all ranks' then). `done_ns`, when not
 * NULL, gets each rank's time. All plans are held in memory together. Errors:
 * those of gli_plan_make (GLOO_ERR_INVALID also for more than 32 million
 * steps); GLOO_ERR_INVALID for a model with negative times; GLOO_ERR_INTERNAL
 * when plans do not fit each other (check them first). */
gloo_status gli_simulate(gli_build_fn build, const gli_plan_params *params,
                         const gli_sim_model *model, gli_sim_report *report,
                         double *done_ns, gloo_error *error);

#endif
