#include "tools/bench.h"

#include <string.h>

#include "tools/limits.h"
#include "tools/overlap.h"
#include "tools/start.h"
#include "tools/tools.h"

int gli_tool_bench(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "limits") == 0) {
    return gli_bench_limits(argc - 1, argv + 1);
  }
  if (argc > 1 && strcmp(argv[1], "overlap") == 0) {
    return gli_bench_overlap(argc - 1, argv + 1);
  }
  if (argc > 1 && strcmp(argv[1], "start") == 0) {
    return gli_bench_start(argc - 1, argv + 1);
  }
  static gli_bench_settings settings;
  int exit_status;
  if (!gli_bench_settings_parse(&settings, argc, argv, &exit_status)) {
    return exit_status;
  }
  return gli_bench_ranks(&settings);
}
