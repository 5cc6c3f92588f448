/* The rank and job of this process, and the store of its rendezvous, from the
 * environment that the launcher sets. */
#ifndef GLI_RENDEZVOUS_LAUNCH_LAUNCH_H
#define GLI_RENDEZVOUS_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/store_url.h"

typedef struct gli_launch {
  const char
      *launcher; /* which one was recognised; "none" for one rank alone */
  uint32_t rank, size;
  char store[GLI_STORE_URL_MAX + 1]; /* its URL; "" for one rank alone */
  bool serves;      /* rank 0 serves the store, a TCP store, at that place */
  bool open_to_all; /* it is on the host of all ranks, and lets everybody in */
  char job[GLI_JOB_MAX + 1];
  uint64_t epoch;
  const void *secret; /* the caller's, of the job; NULL: the environment's */
  size_t secret_bytes;
  const gloo_tls_options *tls; /* the caller's; NULL: the environment's */
} gli_launch;

/* Recognised, in this order, by any of the variables in parentheses:
 *   the variables of this library (GLOO_RANK): GLOO_RANK, GLOO_SIZE, GLOO_STORE
 *   torchrun, `gloo run` (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)
 *   PMI-1: mpiexec of MPICH and Intel MPI, srun with pmi2 (PMI_FD, PMI_RANK)
 *   PMIx: mpirun of Open MPI, srun with pmix (PMIX_NAMESPACE, PMIX_RANK)
 *   Open MPI without PMIx (OMPI_COMM_WORLD_RANK), with GLOO_STORE only
 *   Slurm's srun (SLURM_STEP_NUM_TASKS)
 *   Kubernetes' indexed jobs (JOB_COMPLETION_INDEX)
 *   none of these: a job of one rank
 * What the launcher is recognised by must be complete, or it is an error: a
 * program that was started as one rank of several never becomes a job of its
 * own. An empty variable counts as one that is not set.
 *
 * Where ranks meet is what GLOO_STORE says, or else what the launcher offers.
 * GLOO_JOB_ID and GLOO_EPOCH (may be absent: "" and 0) go with each. Without
 * the first, the job is what torchrun or Slurm call it.
 * GLOO_ERR_INVALID names the variable, its value and what is expected, or those
 * that are missing. `out` is set on success only. */
gloo_status gli_launch_read(gli_launch *out, gloo_error *error);

/* Fails where GLOO_SECURITY=required asks for a secret that neither the caller
 * nor the environment has, and that the launcher carries to no rank; and where
 * what they have is no secret. Called before anything listens or connects. */
gloo_status gli_launch_check_secret(const gli_launch *launch,
                                    gloo_error *error);

/* Open the store at which the ranks meet. Where the launch says that rank 0
 * serves it, `serve` is for the process that does. */
gloo_status gli_launch_open(const gli_launch *launch, bool serve,
                            int64_t timeout_ns, gloo_store **store,
                            gloo_error *error);

#endif
