/* The contract of the two launcher interfaces (pmi.h). One thread at a time
 * calls them. After a failure each returns the same cause again. */
#ifndef GLI_RENDEZVOUS_LAUNCH_PMI_KINDS_H
#define GLI_RENDEZVOUS_LAUNCH_PMI_KINDS_H

#include "rendezvous/launch/pmi.h"

typedef struct gli_pmi_ops {
  gloo_status (*join)(uint64_t deadline_ns, gli_pmi_job *job,
                      gloo_error *error);
  /* Performs a round; `round` counts those of the process, from 1. */
  gloo_status (*tell)(const gli_pmi_job *job, uint64_t round, const char *text,
                      char *out, size_t room, uint64_t deadline_ns,
                      gloo_error *error);
  /* Ends the session at exit, joined or not. */
  void (*leave)(uint64_t deadline_ns);
} gli_pmi_ops;

/* Describes a timeout of the call in which all ranks take part. */
void gli_pmi_late(const gli_pmi_job *job, char *out, size_t room);

extern const gli_pmi_ops gli_pmi_simple_ops;
extern const gli_pmi_ops gli_pmix_ops;

#endif
