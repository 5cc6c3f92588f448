/* `gloo doctor`: diagnoses the environment of a job, on the hosts where the job
 * would run. */
#ifndef GLI_TOOLS_DOCTOR_H
#define GLI_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/gloo_c.h"
#include "net/interfaces.h"
#include "rendezvous/launch/launch.h"

enum {
  GLI_DOCTOR_FINDINGS = 8, /* per rank */
  GLI_DOCTOR_TEXT = 240
};

/* Facts that a rank knows by itself. It sends the struct to rank 0 as bytes, so
 * it has no pointers. */
typedef struct gli_doctor_facts {
  char version[32], host[64];
  char interfaces[GLI_INTERFACES_TEXT_BYTES];
  uint64_t files, files_most;        /* descriptors; UINT64_MAX: no limit */
  uint64_t locked;                   /* bytes of locked memory */
  uint64_t memory_left, shared_left; /* bytes; UINT64_MAX: not known */
  uint32_t cores, quota;             /* quota 0: none */
  uint32_t n_findings;
  char findings[GLI_DOCTOR_FINDINGS][GLI_DOCTOR_TEXT]; /* each with its
                                                          remedy */
} gli_doctor_facts;

/* ---- one rank: doctor_facts.c -------------------------------------------- */

void gli_doctor_look(const gli_launch *launch, gli_doctor_facts *facts);

/* Adds a finding: "problem; remedy". */
void gli_doctor_find(gli_doctor_facts *facts, const char *format, ...)
    GLI_PRINTF(2, 3);

/* Describes whether the store's host name resolves and the host is reachable
 * from here. */
void gli_doctor_reach(const gli_launch *launch, char text[GLI_DOCTOR_TEXT]);

/* ---- pairs: doctor_links.c ----------------------------------------------- */

/* A pair of ranks, stored in the row of the lower rank. us 0: not measured. */
typedef struct gli_doctor_link {
  float us;                        /* half a round trip */
  float gb_per_s;                  /* one way */
  uint32_t same_host;              /* according to the library */
  uint32_t shared;                 /* true if through shared memory, or
                                      inproc */
  char why[GLOO_QUERY_TEXT_BYTES]; /* reason if not shared */
} gli_doctor_link;

/* Measures every rank with up to 63 others, one pair at a time per rank. `row`
 * has one element per rank. */
bool gli_doctor_measure(gloo_context *context, gli_doctor_link *row,
                        gloo_error *error);

/* Computes on rank 0 by how many seconds the clock of each rank is ahead, and
 * how inexact that is. All ranks call it; the lists are NULL on the others. */
bool gli_doctor_clocks(gloo_context *context, double *ahead, double *off,
                       gloo_error *error);

#endif
