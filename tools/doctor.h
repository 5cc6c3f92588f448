/* `gloo doctor`: diagnoses the environment of a job, on the hosts where the job
 * would run. */
#ifndef GLI_TOOLS_DOCTOR_H
#define GLI_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/gloo_c.h"
#include "net/interfaces.h"
#include "rendezvous/join/cores.h"
#include "rendezvous/launch/launch.h"

enum {
  GLI_DOCTOR_FINDINGS = 8, /* per rank */
  GLI_DOCTOR_TEXT = GLOO_ERROR_MESSAGE_BYTES
};

/* A problem. The id is part of the format of --json (docs/formats.md). */
typedef struct gli_doctor_finding {
  char id[24], text[GLI_DOCTOR_TEXT]; /* text: "problem; remedy" */
} gli_doctor_finding;

/* Authentication of ranks. */
typedef enum gli_doctor_auth {
  GLI_DOCTOR_AUTH_NONE, /* no secret, or no OpenSSL */
  GLI_DOCTOR_AUTH_ON,
  GLI_DOCTOR_AUTH_OFF,   /* GLOO_SECURITY=off */
  GLI_DOCTOR_AUTH_HOST,  /* ranks meet at a loopback address */
  GLI_DOCTOR_AUTH_UNUSED /* a job of one rank */
} gli_doctor_auth;

/* Facts that a rank knows by itself. It sends the struct to rank 0 as bytes, so
 * it has no pointers. */
typedef struct gli_doctor_facts {
  char version[32], host[64];
  char interfaces[GLI_INTERFACES_TEXT_BYTES];
  uint64_t files, files_most;        /* descriptors; UINT64_MAX: no limit */
  uint64_t locked;                   /* bytes of locked memory */
  uint64_t memory_left, shared_left; /* bytes; UINT64_MAX: not known */
  gli_cores bound;                   /* the cores that the rank may use */
  uint32_t cores, quota;             /* quota 0: none */
  uint32_t online;                   /* cores of the host; 0: not known */
  uint32_t auth;                     /* gli_doctor_auth */
  uint32_t openssl;                  /* 1 if the build includes OpenSSL */
  uint32_t n_findings;
  gli_doctor_finding findings[GLI_DOCTOR_FINDINGS];
} gli_doctor_facts;

/* ---- one rank: doctor_facts.c -------------------------------------------- */

void gli_doctor_look(const gli_launch *launch, gli_doctor_facts *facts);

void gli_doctor_find(gli_doctor_facts *facts, const char *id,
                     const char *format, ...) GLI_PRINTF(3, 4);

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

/* ---- all ranks: doctor.c, doctor_report.c, doctor_json.c ------------------ */

/* Findings about ranks, each about adjacent ones. */
typedef struct gli_doctor_problem {
  int first, last;
  gli_doctor_finding finding;
} gli_doctor_problem;

typedef struct gli_doctor_ranks {
  const gli_launch *launch;
  gloo_context *context; /* NULL if the ranks did not meet */
  double met_ms;
  int first, n;            /* rank of the first element, and their number */
  gli_doctor_facts *facts; /* [n] */
  gli_doctor_link *links;  /* [n][n], upper triangle; NULL: not measured */
  double *ahead, *off;     /* [n], seconds; NULL: not measured */
  gli_doctor_problem *problems;
  size_t n_problems;
  bool lost; /* true if a problem was lost for lack of memory */
} gli_doctor_ranks;

/* Adds a problem. */
void gli_doctor_add(gli_doctor_ranks *all, int first, int last, const char *id,
                    const char *format, ...) GLI_PRINTF(5, 6);

/* Adds the problems that show in the facts of all ranks together. */
void gli_doctor_compare(gli_doctor_ranks *all);

/* Lists the cores of a mask: "0-3,8". */
typedef struct gli_doctor_cores {
  char text[96];
} gli_doctor_cores;
gli_doctor_cores gli_doctor_cores_of(const uint8_t *mask);

/* Finds the adjacent ranks from `first` on that share as many cores with as
 * many ranks. Returns the last, and the union of their masks. */
int gli_doctor_sharing(const gli_doctor_ranks *all, int first,
                       gli_sharing *sharing, uint8_t mask[GLI_CPU_MASK_BYTES]);

/* Print everything. */
void gli_doctor_print(const gli_doctor_ranks *all);
void gli_doctor_print_json(const gli_doctor_ranks *all);

#endif
