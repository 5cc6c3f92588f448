/* The figures of one rank, from the text of gloo_context_metrics. */
#ifndef GLI_TOOLS_TOP_READ_H
#define GLI_TOOLS_TOP_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLI_TOP_PEERS = 256 };

typedef struct gli_top_rank {
  uint64_t job; /* 0: unknown */
  int64_t rank, process;
  double read_s; /* time of reading, by a clock of this process */
  double calls, call_seconds, bytes_sent, bytes_received, running;
  bool failed;
  size_t n_late; /* number of ranks that it waited for, up to GLI_TOP_PEERS */
  int64_t late_rank[GLI_TOP_PEERS];
  double late_seconds[GLI_TOP_PEERS];
} gli_top_rank;

/* Reads the text of one context, which ends in a 0 or with "# EOF". Returns the
 * rest of the text; NULL if the text has another format. */
const char *gli_top_parse(const char *text, gli_top_rank *rank);

#endif
