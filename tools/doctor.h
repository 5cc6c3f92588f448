/* `gloo doctor`: what is wrong with a job, or would be, where it is run. */
#ifndef GLI_TOOLS_DOCTOR_H
#define GLI_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/gloo_c.h"
#include "net/interfaces.h"
#include "rendezvous/launch/launch.h"

enum {
  GLI_DOCTOR_FINDINGS = 8, /* of one rank */
  GLI_DOCTOR_TEXT = 240
};

/* What one rank knows of itself, and sends to rank 0 as it is: no pointers. */
typedef struct gli_doctor_facts {
  char version[32], host[64];
  char interfaces[GLI_INTERFACES_TEXT_BYTES];
  uint64_t files, files_most;        /* descriptors; UINT64_MAX: any */
  uint64_t locked;                   /* bytes of locked memory */
  uint64_t memory_left, shared_left; /* bytes; UINT64_MAX: not known */
  uint32_t cores, quota;             /* quota 0: none */
  uint32_t n_findings;
  char findings[GLI_DOCTOR_FINDINGS][GLI_DOCTOR_TEXT]; /* with remedy */
} gli_doctor_facts;

/* ---- one rank: doctor_facts.c -------------------------------------------- */

void gli_doctor_look(const gli_launch *launch, gli_doctor_facts *facts);

/* "what; remedy" */
void gli_doctor_find(gli_doctor_facts *facts, const char *format, ...)
    GLI_PRINTF(2, 3);

/* Can the store's host be found and reached from here? In words. */
void gli_doctor_reach(const gli_launch *launch, char text[GLI_DOCTOR_TEXT]);

/* ---- pairs: doctor_links.c ----------------------------------------------- */

/* Of a pair, in the row of its lower rank. us 0: not measured. */
typedef struct gli_doctor_link {
  float us;                        /* there and back, halved */
  float gb_per_s;                  /* one way */
  uint32_t same_host;              /* as the library sees it */
  uint32_t shared;                 /* through shared memory, or inproc */
  char why[GLOO_QUERY_TEXT_BYTES]; /* why not */
} gli_doctor_link;

/* Every rank with up to 63 others, one at a time. `row` has one per rank. */
bool gli_doctor_measure(gloo_context *context, gli_doctor_link *row,
                        gloo_error *error);

/* On rank 0, by how much the clock of each rank is ahead, in seconds, and how
 * far that may be off. All ranks call it; the lists are NULL on the others. */
bool gli_doctor_clocks(gloo_context *context, double *ahead, double *off,
                       gloo_error *error);

#endif
