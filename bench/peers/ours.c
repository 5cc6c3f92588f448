/* gloo_c itself needs no adapter. */
#include "bench/peers/peer.h"

const bool gli_peer_sleeps = false;

void gli_peer_poke(void) {}
