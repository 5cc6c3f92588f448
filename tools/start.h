/* `gloo bench start`: measures how long a job takes to start, and what it
 * costs. */
#ifndef GLI_TOOLS_START_H
#define GLI_TOOLS_START_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/gloo_c.h"

enum { GLI_START_RANKS_MAX = 4096 };

/* Points that a rank reaches, in this order. */
typedef enum gli_start_point {
  GLI_START_MET,    /* it has its context */
  GLI_START_PASSED, /* it has passed a barrier */
  GLI_START_SPLIT,  /* it has a group of all ranks */
  GLI_START_LINKED, /* it has exchanged a message with every other rank */
  GLI_START_POINTS
} gli_start_point;

/* Figures of one rank, which it writes itself. */
typedef struct gli_start_rank {
  /* Times of uv_hrtime: the departure for a point, and the arrival. */
  uint64_t from_ns[GLI_START_POINTS], at_ns[GLI_START_POINTS];
  uint32_t sockets[GLI_START_POINTS];
  /* Increase since the start, with a proportional share of pages that several
   * processes map. 0 if the system does not report it. */
  uint32_t memory_kib[GLI_START_POINTS];
  gloo_error error; /* status GLOO_OK: none */
} gli_start_rank;

/* Memory that all ranks of one start share; zero at first. */
typedef struct gli_start_area {
  atomic_uint ready;   /* number of ranks that run */
  atomic_uint settled; /* number of ranks that have also measured their initial
                          state */
  atomic_uint go;      /* nonzero once they may go */
  /* Numbers of ranks that have arrived or failed, and of ranks whose figures
   * are complete. */
  atomic_uint reached[GLI_START_POINTS], counted[GLI_START_POINTS];
  char store[1024]; /* its URL, valid once `go` is set */
  gli_start_rank ranks[];
} gli_start_area;

/* How a rank starts. */
typedef struct gli_start_way {
  uint32_t size;
  gli_start_point last;
  const char *transport; /* NULL: from the environment */
  const char *job;       /* a different one for each start */
} gli_start_way;

/* Waits for `go`, walks to the last point, and records times. No rank goes on
 * before all have arrived and recorded their figures. */
void gli_start_process(const gli_start_way *way, gli_start_area *area,
                       uint32_t rank);
/* Does the same in a thread, without figures of the process. */
void gli_start_thread(const gli_start_way *way, gli_start_area *area,
                      uint32_t rank);

int gli_bench_start(int argc, char **argv);

#endif
