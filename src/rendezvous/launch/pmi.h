/* What a launcher tells the processes that it starts: which of how many each
 * is, and one text from rank 0 to all others.
 *
 * Two interfaces, and no program is linked with either: PMI-1, a few lines of
 * text on the descriptor PMI_FD (mpiexec of MPICH and of Intel MPI, srun with
 * pmi2), and PMIx, a library that is loaded at run time (mpirun of Open MPI,
 * PRRTE, srun with pmix).
 *
 * The conversation belongs to the process. It begins once and lasts until exit:
 * all of these launchers close it with the farewell, so that nothing could be
 * told afterwards, and end the whole job where a process leaves without one.
 *
 * Threads: any; one at a time gets through, the others wait. */
#ifndef GLI_RENDEZVOUS_LAUNCH_PMI_H
#define GLI_RENDEZVOUS_LAUNCH_PMI_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

#define GLI_PMI_NAME_MAX ((size_t)255)
#define GLI_PMI_TEXT_BYTES ((size_t)8192) /* of a text, with its end */

typedef enum gli_pmi_kind { GLI_PMI_SIMPLE, GLI_PMI_PMIX } gli_pmi_kind;

typedef struct gli_pmi_job {
  uint32_t rank, size;
  char name[GLI_PMI_NAME_MAX + 1]; /* how the launcher calls the job */
} gli_pmi_job;

/* Begin the conversation; later calls answer from the first. In a forked child
 * GLOO_ERR_FORKED, once its parent has begun.
 * GLOO_ERR_INVALID: the environment is not what the launcher makes it.
 * GLOO_ERR_UNSUPPORTED: the library of PMIx is not there.
 * GLOO_ERR_PEER: the launcher is gone, or never was there.
 * GLOO_ERR_PROTOCOL: what answers is no launcher. GLOO_ERR_TIMEOUT. */
gloo_status gli_pmi_join(gli_pmi_kind kind, int64_t timeout_ns,
                         gli_pmi_job *job, gloo_error *error);

/* Rank 0 gives `text` (others: NULL), and all get it. Collective: waits until
 * all ranks of the job have called it as often as this one. Joins first.
 * GLOO_ERR_INVALID: rank 0's text is too long for `room`, which is to be the
 * same everywhere. GLOO_ERR_TIMEOUT: some did not come; which, no launcher
 * tells. After that the process cannot be told anything any more. Otherwise as
 * gli_pmi_join. */
gloo_status gli_pmi_tell(gli_pmi_kind kind, const char *text, char *out,
                         size_t room, int64_t timeout_ns, gloo_error *error);

#endif
