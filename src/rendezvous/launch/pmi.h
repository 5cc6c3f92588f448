/* The information that a launcher gives its processes: rank, size, and one text
 * from rank 0 to all others.
 *
 * There are two interfaces, and programs are linked with neither: PMI-1, lines
 * of text on the descriptor PMI_FD (mpiexec of MPICH and of Intel MPI, srun
 * with pmi2), and PMIx, a library that is loaded at run time (mpirun of Open
 * MPI, PRRTE, srun with pmix).
 *
 * The session belongs to the process. It begins once and lasts until exit: all
 * of these launchers end it with the farewell, after which they answer no
 * request, and end the whole job if a process exits without a farewell.
 *
 * Threads: any; one at a time proceeds, the others wait. */
#ifndef GLI_RENDEZVOUS_LAUNCH_PMI_H
#define GLI_RENDEZVOUS_LAUNCH_PMI_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

#define GLI_PMI_NAME_MAX ((size_t)255)
#define GLI_PMI_TEXT_BYTES ((size_t)8192) /* with the terminator */

typedef enum gli_pmi_kind { GLI_PMI_SIMPLE, GLI_PMI_PMIX } gli_pmi_kind;

typedef struct gli_pmi_job {
  uint32_t rank, size;
  char name[GLI_PMI_NAME_MAX + 1]; /* the launcher's name of the job */
} gli_pmi_job;

/* Begins the session; later calls return the result of the first. Returns
 * GLOO_ERR_FORKED in a forked child whose parent has begun it.
 * GLOO_ERR_INVALID: the environment differs from what launchers set.
 * GLOO_ERR_UNSUPPORTED: the PMIx library is not installed.
 * GLOO_ERR_PEER: the launcher has ended, or never existed.
 * GLOO_ERR_PROTOCOL: the answers are not a launcher's. GLOO_ERR_TIMEOUT. */
gloo_status gli_pmi_join(gli_pmi_kind kind, int64_t timeout_ns,
                         gli_pmi_job *job, gloo_error *error);

/* Sends `text` (NULL on other ranks) from rank 0 to all. Collective: returns
 * when all ranks of the job have made as many calls. Joins first if needed.
 * GLOO_ERR_INVALID: rank 0's text exceeds `room`, which must be the same on all
 * ranks. GLOO_ERR_TIMEOUT: some ranks did not call; launchers do not name them.
 * No further requests are possible then. Other errors as gli_pmi_join. */
gloo_status gli_pmi_tell(gli_pmi_kind kind, const char *text, char *out,
                         size_t room, int64_t timeout_ns, gloo_error *error);

#endif
