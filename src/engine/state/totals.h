/* The totals of a family of contexts since its creation.
 *
 * Runs are counted at their end, in their operation, which is used again and
 * again. Its bytes, messages and peers follow from its plan, and are added up
 * when the operation is about to change, or on request (life/tally.c). */
#ifndef GLI_ENGINE_STATE_TOTALS_H
#define GLI_ENGINE_STATE_TOTALS_H

#include <stdbool.h>
#include <stdint.h>

/* Algorithms have numbers of their own, whatever collective they are of; behind
 * them are messages: those that are sent, and those that are received. */
enum { GLI_TOTAL_MESSAGES = 256, GLI_TOTAL_KINDS = GLI_TOTAL_MESSAGES + 2 };

typedef struct gli_call_total {
  uint8_t collective;
  uint64_t calls, bytes, ticks;
} gli_call_total;

/* Holds the totals of a rank of the root. */
typedef struct gli_peer_total {
  uint64_t messages_sent, bytes_sent;
  uint64_t messages_received, bytes_received;
  uint64_t late, late_ticks; /* collectives that waited for it in the end */
} gli_peer_total;

typedef struct gli_totals {
  uint64_t failed;
  gli_call_total calls[GLI_TOTAL_KINDS];
  gli_peer_total peers[];
} gli_totals;

/* Memory that a family keeps for later calls: plans, operations that are made
 * for them, and their scratch. */
typedef struct gli_kept {
  uint64_t plans, operations, scratch; /* bytes */
} gli_kept;

/* Returns totals of zero for `size` ranks. NULL: out of memory. */
gli_totals *gli_totals_new(uint32_t size);

/* A collective that takes less was not late: about 50 microseconds. */
uint64_t gli_tardy_ticks(void);

#endif
