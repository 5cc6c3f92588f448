/* `gloo bench start`: how long a job takes to start, and what it costs. */
#ifndef GLI_TOOLS_START_H
#define GLI_TOOLS_START_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/gloo_c.h"

enum { GLI_START_RANKS_MAX = 4096 };

/* How far a rank has come, one after the other. */
typedef enum gli_start_point {
  GLI_START_MET,    /* it has its context; */
  GLI_START_PASSED, /* has passed a barrier; */
  GLI_START_SPLIT,  /* has a group of all ranks; */
  GLI_START_LINKED, /* has exchanged a message with every other rank */
  GLI_START_POINTS
} gli_start_point;

/* Of one rank, as it says. */
typedef struct gli_start_rank {
  /* By uv_hrtime: when it set out for a point, and when it was there. */
  uint64_t from_ns[GLI_START_POINTS], at_ns[GLI_START_POINTS];
  uint32_t sockets[GLI_START_POINTS];
  /* More than before the start, and its share of what several map. 0 where the
   * system does not say. */
  uint32_t memory_kib[GLI_START_POINTS];
  gloo_error error; /* status GLOO_OK: none */
} gli_start_rank;

/* Memory that all ranks of one start share; zero at first. */
typedef struct gli_start_area {
  atomic_uint ready;   /* ranks that are there; */
  atomic_uint settled; /* and have looked at what they had before */
  atomic_uint go;      /* they may */
  /* That are there or have failed, and what they say of it is complete. */
  atomic_uint reached[GLI_START_POINTS], counted[GLI_START_POINTS];
  char store[1024]; /* its URL, when they may go */
  gli_start_rank ranks[];
} gli_start_area;

/* How a rank starts. */
typedef struct gli_start_way {
  uint32_t size;
  gli_start_point last;
  const char *transport; /* NULL: as the environment says */
  const char *job;       /* one for each start */
} gli_start_way;

/* Wait until they may go, go to the last point, and note when. No rank goes on
 * before all are there and have counted what they have. */
void gli_start_process(const gli_start_way *way, gli_start_area *area,
                       uint32_t rank);
/* The same in a thread: what belongs to the process is left alone. */
void gli_start_thread(const gli_start_way *way, gli_start_area *area,
                      uint32_t rank);

int gli_bench_start(int argc, char **argv);

#endif
