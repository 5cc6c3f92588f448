/* `gloo bench start`: how long a job takes to start, and what it costs. */
#ifndef GLI_TOOLS_START_H
#define GLI_TOOLS_START_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/gloo_c.h"

enum { GLI_START_RANKS_MAX = 4096 };

/* Of one rank, as it says. */
typedef struct gli_start_rank {
  uint64_t met_ns, passed_ns; /* of uv_hrtime: context made, barrier passed */
  uint32_t sockets_met, sockets_passed;
  gloo_error error; /* status GLOO_OK: none */
} gli_start_rank;

/* Memory that all ranks of one start share; zero at first. */
typedef struct gli_start_area {
  atomic_uint ready;  /* ranks that can begin */
  atomic_uint go;     /* they may */
  atomic_uint passed; /* the barrier, or failed */
  atomic_uint ended;  /* what a rank says of itself is complete */
  char store[1024];   /* its URL, when they may go */
  gli_start_rank ranks[];
} gli_start_area;

/* How a rank starts. */
typedef struct gli_start_way {
  uint32_t size;
  const char *transport; /* NULL: as the environment says */
  const char *job;       /* one for each start */
} gli_start_way;

/* Wait until they may go, start, pass a barrier and note when. No rank leaves
 * before all have counted their sockets. */
void gli_start_process(const gli_start_way *way, gli_start_area *area,
                       uint32_t rank);
/* The same in a thread: what belongs to the process is left alone. */
void gli_start_thread(const gli_start_way *way, gli_start_area *area,
                      uint32_t rank);

int gli_bench_start(int argc, char **argv);

#endif
