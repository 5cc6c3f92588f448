/* A meeting of the ranks of one host before each timed call. It works outside
 * the library, so that the measurement covers the call and not the ranks'
 * arrival. */
#ifndef GLI_TOOLS_BENCH_MEETING_H
#define GLI_TOOLS_BENCH_MEETING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "gloo_c/gloo_c.h"

typedef struct gli_meeting_area {
  _Alignas(64) atomic_uint arrived;
  _Alignas(64) atomic_uint round;
  _Alignas(64) atomic_uint broken;
  _Alignas(64) atomic_uint flag[2][64 / sizeof(atomic_uint)]; /* [0] only */
} gli_meeting_area;

typedef struct gli_meeting {
  gli_meeting_area *area; /* NULL: the ranks share no memory, and meet in
                             gloo_barrier */
  bool mapped;            /* area is shared memory that gli_meeting_open
                             mapped */
  unsigned ranks;
  bool core_each; /* true if there is a core for each rank */
  unsigned flags; /* number of flags raised so far */
  gloo_context *context;
} gli_meeting;

/* The way in which a program's ranks wait, if yielding alone is not enough. */
typedef struct gli_meeting_manner {
  /* Called now and then by a rank that yields for long; may be NULL. */
  void (*poke)(void);
  /* Ranks sleep instead of yielding if `sleep` is not NULL, by means of `bytes`
   * bytes after the area in shared memory. Rank 0 calls `prepare` once. The
   * rank that releases the others, or breaks the meeting, calls `wake`. */
  size_t bytes;
  unsigned max_ranks;
  bool (*prepare)(void *memory);
  gloo_status (*sleep)(gli_meeting *meeting, gloo_error *error);
  void (*wake)(const gli_meeting *meeting);
} gli_meeting_manner;

/* Sets the manner for this process, from now on; it is not copied. Threads
 * always yield. */
void gli_meeting_choose(const gli_meeting_manner *manner);

/* Returns the number of cores that are online, whatever this process is bound
 * to; 0 if it is unknown. musl's sysconf counts those of the affinity mask. */
unsigned gli_meeting_cores(void);

/* Errors that end a wait early. */
gloo_status gli_meeting_broken(gloo_error *error);
gloo_status gli_meeting_late(gloo_error *error);

/* Opens a meeting of processes. Finds out, through the library, whether all
 * share memory. If not, rank 0 prints that, and gloo_barrier is used.
 * Collective. */
gloo_status gli_meeting_open(gli_meeting *meeting, gloo_context *context,
                             gloo_error *error);
/* Opens a meeting of threads. `area` must be zero, and outlive the meeting. */
void gli_meeting_share(gli_meeting *meeting, gloo_context *context,
                       gli_meeting_area *area);
void gli_meeting_close(gli_meeting *meeting);

/* Waits for the other ranks, and yields to them, at once if there are fewer
 * cores than ranks. Fails if a rank broke the meeting, or has not come for a
 * minute. */
gloo_status gli_meeting_wait(gli_meeting *meeting, gloo_error *error);

/* Returns the distance of two ranks' cores: the time that a changed cache line
 * takes from one to the other. Returns 0 for other numbers of ranks, fewer
 * cores, or if the other rank was kept from its core. Both ranks call it at the
 * same time; it takes some hundred microseconds. */
double gli_meeting_flag_ns(gli_meeting *meeting);

/* Announces that this rank will not come any more. */
void gli_meeting_break(gli_meeting *meeting);

#endif
