/* Several libraries, measured by `gloo bench` itself.
 *
 * Each peer program is the measuring part of `gloo bench` (tools/bench_*.c,
 * unchanged), linked with a library's collectives behind gloo_c's public
 * functions: mpi.c for any MPI, gloo.cc for Gloo; ours.c is gloo_c as it is.
 * So all libraries run the same loop on the same buffers, are checked against
 * the same results, and print the same lines; only the call that is timed
 * differs.
 *
 * What differs besides is how ranks wait for each other before a call
 * (meeting.c), and that only as far as a library needs it. */
#ifndef GLI_BENCH_PEERS_PEER_H
#define GLI_BENCH_PEERS_PEER_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Selects how a rank waits for the others before a call, unless PEER_MEETING
 * says "yield" or "sleep".
 *
 * If false, it yields, and calls gli_peer_poke meanwhile, because an MPI rank
 * outside the library makes no progress on messages that others still wait for.
 * If true, it sleeps, because Gloo works in a separate thread, and a spinning
 * rank would take its core. */
extern const bool gli_peer_sleeps;

void gli_peer_poke(void);

/* Chooses how this program's ranks meet (meeting.c). */
void gli_peer_choose_meeting(void);

#ifdef __cplusplus
}
#endif
#endif
