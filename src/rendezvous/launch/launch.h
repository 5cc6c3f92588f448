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
  const char *launcher; /* its name; "none" for one rank alone */
  uint32_t rank, size;
  char store[GLI_STORE_URL_MAX + 1]; /* URL; "" for one rank alone */
  bool serves; /* true if rank 0 serves the store, a TCP store */
  bool agent;  /* it belongs to torchrun's agent, and admits any client */
  bool here;   /* all ranks are on one host */
  char job[GLI_JOB_MAX + 1];
  uint64_t epoch;
  const void *secret; /* the caller's job secret; NULL: the environment's */
  size_t secret_bytes;
  const gloo_tls_options *tls; /* the caller's; NULL: the environment's */
} gli_launch;

/* Reads rank, size, job and store. Launchers are recognised, in this order, by
 * any of the variables in parentheses:
 *   the variables of this library (GLOO_RANK): GLOO_RANK, GLOO_SIZE, GLOO_STORE
 *   torchrun, `gloo run` (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)
 *   PMI-1: mpiexec of MPICH and Intel MPI, srun with pmi2 (PMI_FD, PMI_RANK)
 *   PMIx: mpirun of Open MPI, srun with pmix (PMIX_NAMESPACE, PMIX_RANK)
 *   Open MPI without PMIx (OMPI_COMM_WORLD_RANK), with GLOO_STORE only
 *   Slurm's srun (SLURM_STEP_NUM_TASKS)
 *   Kubernetes' indexed jobs (JOB_COMPLETION_INDEX)
 *   none of these: a job of one rank
 * The variables of a recognised launcher must be complete, otherwise this is an
 * error: a program that was started as one of several ranks never becomes a job
 * of one rank. An empty variable counts as unset.
 *
 * GLOO_STORE takes precedence over the launcher's store. GLOO_JOB_ID and
 * GLOO_EPOCH are optional ("" and 0) and apply to both; without GLOO_JOB_ID,
 * torchrun's or Slurm's job id is used. GLOO_ERR_INVALID names the variable,
 * its value and the expected one, or the missing variables. `out` is set on
 * success only. */
gloo_status gli_launch_read(gli_launch *out, gloo_error *error);

/* Fails if the secret is invalid, or if GLOO_SECURITY=required asks for one and
 * the caller, the environment and the launcher have none. Called before any
 * listening or connecting. */
gloo_status gli_launch_check_secret(const gli_launch *launch,
                                    gloo_error *error);

/* Opens the store of the rendezvous. If rank 0 is to serve it, `serve` is true
 * in the process that does. */
gloo_status gli_launch_open(const gli_launch *launch, bool serve,
                            int64_t timeout_ns, gloo_store **store,
                            gloo_error *error);

#endif
