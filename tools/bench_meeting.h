/* Where the ranks of one host meet before each timed call: outside the library,
 * so that what is measured is the call and not how they came to it. */
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
  _Alignas(64) atomic_uint flag[2][64 / sizeof(atomic_uint)]; /* [0] of each */
} gli_meeting_area;

typedef struct gli_meeting {
  gli_meeting_area *area; /* NULL: the ranks share no memory, and meet in
                             gloo_barrier */
  bool mapped;            /* from shared memory, by gli_meeting_open */
  unsigned ranks;
  bool core_each; /* no more ranks than cores */
  unsigned flags; /* raised so far */
  gloo_context *context;
} gli_meeting;

/* How a program's ranks wait, where yielding alone is not it. */
typedef struct gli_meeting_manner {
  /* Called now and then by one that yields for long; NULL: nothing is. */
  void (*poke)(void);
  /* Ranks sleep instead, by means of memory that follows the area in shared
   * memory; `sleep` is NULL where they yield. `prepare` is called once, by rank
   * 0, and `wake` by one that lets all others go on, or has broken up. */
  size_t bytes;
  unsigned max_ranks;
  bool (*prepare)(void *memory);
  gloo_status (*sleep)(gli_meeting *meeting, gloo_error *error);
  void (*wake)(const gli_meeting *meeting);
} gli_meeting_manner;

/* From now on, in all of this process; it is not copied. Threads yield, in
 * whatever manner. */
void gli_meeting_choose(const gli_meeting_manner *manner);

/* What ends a wait too soon. */
gloo_status gli_meeting_broken(gloo_error *error);
gloo_status gli_meeting_late(gloo_error *error);

/* For processes, through the library: find out whether all share memory. When
 * they do not, rank 0 says so, and gloo_barrier is used. Collective. */
gloo_status gli_meeting_open(gli_meeting *meeting, gloo_context *context,
                             gloo_error *error);
/* For threads. `area` must be zero, and outlive the meeting. */
void gli_meeting_share(gli_meeting *meeting, gloo_context *context,
                       gli_meeting_area *area);
void gli_meeting_close(gli_meeting *meeting);

/* Wait for the others, and give way to them, at once where there are fewer
 * cores than ranks. Fails when a rank broke the meeting up, or has not come for
 * a minute. */
gloo_status gli_meeting_wait(gli_meeting *meeting, gloo_error *error);

/* How far apart the cores of two ranks are at this moment: how long a changed
 * cache line takes from one to the other. 0: other numbers of ranks, fewer
 * cores, or the other one was kept from its core. Both ranks call it at the
 * same time; it takes some hundred microseconds. */
double gli_meeting_flag_ns(gli_meeting *meeting);

/* This rank will not come any more. */
void gli_meeting_break(gli_meeting *meeting);

#endif
