/* The measuring part of `gloo bench` as a separate program. */
#include "tools/bench.h"

#include "bench/peers/peer.h"

int main(int argc, char **argv) {
  static gli_bench_settings settings;
  int exit_status;
  if (!gli_bench_settings_parse(&settings, argc, argv, &exit_status)) {
    return exit_status;
  }
  gli_peer_choose_meeting();
  settings.json = true; /* text output would say "gloo_c" */
  return gli_bench_ranks(&settings);
}
